package programs

import (
	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/record/perfevent"
	"gperf/record/stacks"
)

// asleep is the sample of a thread that slept during the whole recording.
type asleep struct {
	record []byte
	head   bpf.Head
	data   []byte // of the user stack
}

// Asleep makes the samples of threads that slept since a time of CLOCK_MONOTONIC, in ns: the next call of Late
// adds them. The program must be disabled, and the program's output must be read before. It returns how many
// samples there are.
func (r *OffCPU) Asleep(tids []uint32, since uint64) (n int, err error) {
	if len(tids) == 0 {
		return 0, nil
	}
	l, err := r.bpf.Sleepers(tids)
	if err != nil {
		return 0, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, err
	}
	if !r.started {
		if r.offset, err = perfevent.ClockOffset(&r.opts.Attr); err != nil {
			return 0, err
		}
		r.started = true
	}
	w := wait{Wait: bpf.Wait{Duration: uint64(now.Nano()) - since}, time: uint64(now.Nano()) + r.offset}
	size := min(maxAsleep, max(minAsleep, maxCopies/max(1, len(l)))) &^ 7
	for i := range l {
		r.asleep = append(r.asleep, r.sleeper(&w, &l[i], size))
	}
	return len(l), nil
}

// The limits of how much of each user stack is read, in bytes: as much as the programs copy, and less for many
// threads. The walk counts the stacks that are larger.
const maxAsleep, minAsleep = 0xf000, 4 << 10

// sleeper returns the sample of a thread's wait, with up to size bytes of the user stack.
func (r *OffCPU) sleeper(w *wait, s *bpf.Sleeper, size int) asleep {
	a := asleep{head: s.Head}
	stack := bpf.Stack{Kernel: s.Kernel} // the kernel leaves the scheduler out
	how := r.opts.userStacks()
	a.head.Copy = s.Head.Copy && how == bpf.UserByTables
	if s.Head.Copy && how != bpf.UserNone {
		user := stacks.ReadAsleep(s.PID, &s.Regs, size)
		stack.User = user.Callers()
		if a.head.Copy {
			a.data, a.head.Stack = user.Copy()
		} else {
			a.data, a.head.Frames = stack.User, uint32(len(stack.User)/8)
		}
	}
	a.record = w.sample(&r.opts.Attr, thread{s.PID, s.TID}, &stack)
	return a
}

// joinAsleep adds the samples of threads that slept during the whole recording.
func (r *OffCPU) joinAsleep(j *stacks.Merged) {
	for _, a := range r.asleep {
		if a.head.Copy || a.head.Frames > 0 {
			j.Join(&r.event, a.record, a.head, a.data)
		} else {
			j.Records = append(j.Records, a.record...)
		}
	}
	r.asleep = nil
}

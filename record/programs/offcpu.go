// A BPF program records the time from when a thread stops running, because it sleeps, until it runs again. Each wait
// is a sample of the waiting thread, whose period is the duration in ns. Waits shorter than a threshold are summed in
// the kernel by thread and stack, and written at the end.
//
// A waker is a sample of a separate event, directly before the sample of the wait, with the same time, CPU and
// period. So each sample refers to the thread, the mappings and the callchain of one process, which all readers of
// perf.data expect: one callchain with the frames of two processes would get wrong names. Readers that know the
// two events join them.

package programs

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/perfevent"
	"gperf/record/stacks"
)

// LimitOffCPU removes the settings from an attr that samples of waits do not support.
func LimitOffCPU(a *format.Attr) {
	LimitAttr(a, format.SampleCallchain)
}

// OffCPUOptions define which waits are recorded.
type OffCPUOptions struct {
	// PerTask, if not nil, are ids of counters: waits are recorded only for threads with one of these counters,
	// inherited or not, while the counter is enabled.
	PerTask []uint64
	// Cgroups, if not nil, are IDs of cgroups: only tasks in these, and below them, are recorded.
	Cgroups []uint64
	CPUs    []int // on which the waits begin
	// Threshold is the minimum duration of a wait for a separate sample.
	Threshold time.Duration
	// Unwinder, if not nil, walks the user stacks.
	Unwinder *bpf.Unwinder
	// KernelChain leaves user stacks out.
	KernelChain bool
	Event       int         // index of the event in the recording
	Attr        format.Attr // of the event
	// Waker, if not nil, is the attr of the wakers' event.
	Waker *format.Attr
	// LongWakers records the wakers of waits that are not summed alone.
	LongWakers bool
	// Goroutines, if not nil, is the attr of the event for the waits of goroutines of GoPrograms.
	Goroutines *format.Attr
	GoPrograms []bpf.GoProgram
}

// OffCPU records waits.
type OffCPU struct {
	defaults
	opts     OffCPUOptions
	bpf      *bpf.OffCPU
	event    stacks.Event
	waker    stacks.Event // if there is Options.Waker
	gowait   stacks.Event // if there is Options.Goroutines
	code     kernelCode
	counters []perfevent.Counter // the BPF output events for waits, one of each CPU
	outputs  stacks.Outputs      // the other ones

	stacks  stackStore
	copies  copies
	waits   []wait            // not yet in the file
	asleep  []asleep          // samples that are not yet in the file
	newest  uint64            // time of the newest output
	offset  uint64            // from CLOCK_MONOTONIC to the recording's clock; valid if there was a wait
	started bool              // there was a wait
	comms   map[uint32]string // by tid: the names in the file of wakers that are not recorded
}

// wait is a wait that ended.
type wait struct {
	bpf.Wait
	time  uint64 // of the end of the wait, or when the wait was reported
	cpu   uint32
	tried bool // the stack was missing when the wait was read
}

// NewOffCPU attaches the program, which does nothing until it is enabled.
func NewOffCPU(o OffCPUOptions) (*OffCPU, error) {
	cpus, err := bpf.NumCPU()
	if err != nil {
		return nil, err
	}
	r := &OffCPU{opts: o, event: stacks.NewEvent(&o.Attr), code: findKernelCode(o.Waker != nil),
		stacks: newStackStore(), comms: map[uint32]string{}}
	if o.Waker != nil {
		r.waker = stacks.NewEvent(o.Waker)
	}
	if o.Goroutines != nil {
		r.gowait = stacks.NewEvent(o.Goroutines)
	}
	r.bpf, err = bpf.LoadOffCPU(bpf.OffCPUOptions{UserStacks: o.userStacks(), Unwinder: o.Unwinder, PerTask: o.PerTask,
		Cgroups: o.Cgroups, CPUs: cpus, On: o.CPUs, Threshold: o.Threshold, Wakers: o.Waker != nil,
		LongWakers: o.LongWakers, Goroutines: o.GoPrograms,
		Interrupts: r.code.interrupts, Returns: r.code.returns})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// userStacks returns how user stacks are found.
func (o *OffCPUOptions) userStacks() bpf.UserStacks {
	switch {
	case o.KernelChain, o.Attr.Flags&format.FlagExcludeUser != 0:
		return bpf.UserNone
	case perfevent.Walked(&o.Attr) && o.Unwinder != nil:
		return bpf.UserByTables
	case o.Attr.SampleType&format.SampleCallchain != 0:
		return bpf.UserByFP
	}
	return bpf.UserNone
}

// Attach directs the output of the program to the rings of all CPUs: a wait that begins on a
// recorded CPU may end on another one.
func (r *OffCPU) Attach(mergers []*stacks.Merger) error {
	for _, n := range mergers {
		c, err := r.openOutput(n)
		if err != nil {
			return err
		}
		r.counters = append(r.counters, c)
	}
	return nil
}

// Reopen opens the output of a CPU again that is online again. group is the number of events.
func (r *OffCPU) Reopen(n *stacks.Merger, group int) error {
	return reopen(r.counters, n, &r.opts.Attr, group, r.openOutput)
}

// openOutput opens the BPF output events of a ring's CPU.
func (r *OffCPU) openOutput(n *stacks.Merger) (c perfevent.Counter, err error) {
	cpu := uint32(n.Ring.CPU)
	var fds []int
	for _, out := range []struct {
		wakeups uint32
		take    func(stacks.Output)
	}{
		{0, func(o stacks.Output) { r.takeWait(o, cpu) }},
		{0, r.stacks.take},
		{0, r.takeCopy},
		{1, r.takeCopy}, // a table may be missing
	} {
		fd, id, err := stacks.OpenOutput(n.Ring, &r.opts.Attr, out.wakeups)
		if err != nil {
			return c, err
		}
		fds = append(fds, fd)
		n.Add(id, stacks.Event{Take: func(rec []byte) {
			if o, ok := stacks.ParseOutput(rec); ok {
				r.newest = max(r.newest, o.Time)
				out.take(o)
			}
		}})
	}
	r.outputs.Replace(n.Ring.CPU, fds[1:])
	c = perfevent.Counter{Event: r.opts.Event, CPU: n.Ring.CPU, TID: -1, FD: fds[0], ID: r.opts.Attr.IDs[0]}
	out := bpf.OffCPUOutput{Waits: fds[0], Stacks: fds[1], Quiet: fds[2], Waking: fds[3]}
	return c, r.bpf.SetOutput(n.Ring.CPU, out)
}

func (r *OffCPU) takeWait(o stacks.Output, cpu uint32) {
	w, ok := bpf.ParseWait(o.Raw)
	if !ok {
		return
	}
	r.offset, r.started = o.Time-(w.Start+w.Duration+w.Since), true
	r.waits = append(r.waits, wait{Wait: w, time: o.Time, cpu: cpu})
}

func (r *OffCPU) takeCopy(o stacks.Output) {
	head, ok := bpf.ParseHead(o.Raw)
	if !ok || !head.Copy {
		return
	}
	r.copies.add(int32(o.TID>>32), copied{pid: int32(o.TID), time: o.Time, head: head,
		data: bytes.Clone(o.Raw[bpf.HeadSize:])})
}

// Late adds the samples of the waits that ended to the merged records. A stack may be in a part of a ring that is
// read after the part with the wait: then the wait stays until the next call.
func (r *OffCPU) Late(j *stacks.Merged) {
	for _, c := range r.copies.fresh { // without tables, further stacks of these processes would be copied too
		j.Request(c.pid, c.time, c.head, c.data)
	}
	r.copies.fresh = nil
	r.stacks.interpret(j)
	// The wait for a CPU comes from the ring of another CPU, but has the same copy as the sleep before it.
	slices.SortStableFunc(r.waits, func(a, b wait) int { return cmp.Compare(a.time, b.time) })
	r.waits = slices.DeleteFunc(r.waits, func(w wait) bool { return r.join(j, &w) })
	for i := range r.waits {
		r.waits[i].tried = true
	}
	r.joinAsleep(j)
}

// join adds the sample of a wait, after the sample of the waker. It reports false if one of the two stacks is
// still to come.
func (r *OffCPU) join(j *stacks.Merged, w *wait) bool {
	stack, known := r.stacks.known[w.Stack]
	woke, wokeKnown := r.stacks.known[w.Waker.Stack]
	if (!known || w.Waker.Known && !wokeKnown) && !w.tried {
		return false
	}
	c, copied := copied{}, false
	if known && w.Head.Copy {
		begin := w.time - w.Since - w.Duration - w.Sleep
		if c, copied = r.copies.take(int32(w.TID), begin, w.time, !w.Runnable); !copied && !w.tried {
			return false
		}
	}
	if w.Waker.Known {
		r.joinWaker(j, w, woke, wokeKnown)
	}
	stack.Kernel = callersOf(stack.Kernel, r.code.scheduler)
	attr, ev := &r.opts.Attr, &r.event
	if w.Goroutine != 0 {
		attr, ev = r.opts.Goroutines, &r.gowait
	}
	if copied {
		stack.User = stacks.CopiedIP(c.data)
	}
	rec := w.sample(attr, thread{w.PID, w.TID}, &stack)
	switch {
	case !known: // the record with the stack was lost
		r.bpf.Forget(w.Stack)
		j.JoinNone(rec)
	case copied:
		j.Join(ev, rec, c.head, c.data)
	case w.Head.Copy:
		j.JoinNone(rec)
	default:
		w.Head.Frames, w.Head.Generation = uint32(len(stack.User)/8), stack.Generation
		j.Join(ev, rec, w.Head, stack.User)
	}
	return true
}

// joinWaker adds the sample of a wait's waker.
func (r *OffCPU) joinWaker(j *stacks.Merged, w *wait, stack bpf.Stack, known bool) {
	by := &w.Waker
	if by.Comm != "" && r.comms[by.TID] != by.Comm {
		r.comms[by.TID] = by.Comm
		comm := format.Comm{PID: int32(by.PID), TID: int32(by.TID), Comm: by.Comm}
		comm.ID = format.RecordID{PID: comm.PID, TID: comm.TID, Time: w.time, CPU: w.cpu, ID: r.opts.Waker.IDs[0]}
		j.Records = comm.AppendTo(j.Records, r.waker.Trailer)
	}
	code := r.code.runners
	if w.Runnable {
		code = r.code.scheduler
	}
	stack.Kernel = callersOf(stack.Kernel, code)
	rec := w.sample(r.opts.Waker, thread{by.PID, by.TID}, &stack)
	if !known {
		r.bpf.Forget(by.Stack)
		j.JoinNone(rec)
		return
	}
	by.Head.Frames, by.Head.Generation = uint32(len(stack.User)/8), stack.Generation
	j.Join(&r.waker, rec, by.Head, stack.User)
}

// Finish takes the sums of short waits and the unfinished waits: the next call of Late adds the samples of these
// waits. The program must be disabled, and the program's output must be read before.
func (r *OffCPU) Finish() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	l, err := r.bpf.Rest(uint64(now.Nano()))
	if err != nil {
		return err
	}
	end := r.newest
	if r.started {
		end = uint64(now.Nano()) + r.offset
	}
	for i := range l {
		r.waits = append(r.waits, wait{Wait: l[i], time: end, tried: true})
	}
	return nil
}

// Enable starts or stops the program.
func (r *OffCPU) Enable(on bool) error { return r.bpf.Enable(on) }

// Counters implements Program.
func (r *OffCPU) Counters() []perfevent.Counter { return r.counters }

// Stats returns the program's statistics.
func (r *OffCPU) Stats() bpf.Stats { return r.bpf.Stats() }

// NewFile prepares for another file of the recording, which contains none of the names in the last one.
func (r *OffCPU) NewFile() { clear(r.comms) }

// Summary implements Program.
func (r *OffCPU) Summary(sum *Summary) (err error) {
	sum.UnrecordedWaits, err = r.bpf.Unrecorded()
	return err
}

// Close detaches the program and closes the counters.
func (r *OffCPU) Close() {
	r.bpf.Close()
	for _, c := range r.counters {
		unix.Close(c.FD)
	}
	r.outputs.Close()
}

package record

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/event"
)

// counter is one open perf event: event × CPU × thread.
type counter struct {
	event int // index of the attr
	cpu   int
	tid   int
	fd    int
	told  uint64 // lost, in LOST_SAMPLES records
}

// feature is something that attrs ask for and older kernels do not know: they
// answer EINVAL. gperf then does without it, for all events.
type feature struct {
	name string
	used func(*format.Attr) bool
	drop func(*format.Attr)
}

// features are tried without in this order, the newest first.
var features = []feature{
	{"counts of lost samples (Linux 6.0)",
		func(a *format.Attr) bool { return a.ReadFormat&format.ReadLost != 0 },
		func(a *format.Attr) { a.ReadFormat &^= format.ReadLost }},
	{"build IDs in mmap records (Linux 5.12)",
		func(a *format.Attr) bool { return a.Flags&format.FlagBuildID != 0 },
		func(a *format.Attr) { a.Flags &^= format.FlagBuildID }},
	{"inherited counts in samples (Linux 6.12)",
		func(a *format.Attr) bool {
			return a.Flags&format.FlagInherit != 0 && a.SampleType&format.SampleRead != 0
		},
		func(a *format.Attr) { a.Flags &^= format.FlagInherit }},
}

// opener opens the counters of a recording.
type opener struct {
	opts     *Options
	events   []event.Event
	attrs    []format.Attr
	missing  []feature // found out to be unknown to this kernel
	counters []counter
	opened   func(*event.Event, *counter) error // nil, or told of each counter at once
}

// open opens every event on every CPU and thread. A thread that has gone
// meanwhile is passed over, as long as there is another.
func (o *opener) open(cpus, threads []int) error {
	for e := range o.attrs {
		if emitted(&o.events[e]) {
			continue
		}
		for _, f := range o.missing {
			f.drop(&o.attrs[e])
		}
		for _, cpu := range cpus {
			for _, tid := range threads {
				fd, err := o.openOne(e, cpu, tid)
				if errors.Is(err, unix.ESRCH) && len(threads) > 1 {
					continue
				}
				if err != nil {
					return &OpenError{o.events[e], cpu, tid, err}
				}
				c := counter{event: e, cpu: cpu, tid: tid, fd: fd}
				o.counters = append(o.counters, c)
				if o.opened == nil {
					continue
				}
				if err := o.opened(&o.events[e], &c); err != nil {
					return &OpenError{o.events[e], cpu, tid, err}
				}
			}
		}
		if len(o.counters) == 0 {
			return &OpenError{o.events[e], -1, threads[0], unix.ESRCH}
		}
	}
	for e := range o.attrs { // those that were passed over have what the others have
		for _, f := range o.missing {
			f.drop(&o.attrs[e])
		}
	}
	return nil
}

func (o *opener) close() {
	for _, c := range o.counters {
		unix.Close(c.fd)
	}
}

// openOne opens a counter, and finds a way around what this kernel, machine or
// user cannot have: the attr is changed accordingly.
func (o *opener) openOne(e, cpu, tid int) (int, error) {
	a, ev := &o.attrs[e], &o.events[e]
	for {
		fd, err := perfEventOpen(a, tid, cpu)
		switch {
		case err == nil:
			return fd, nil
		case err == unix.EINTR:
		case err == unix.EMFILE && moreFiles():
		case a.Flags.PreciseIP() > 0 && strings.HasSuffix(ev.Name, ":P") && imprecise(err):
			a.Flags = a.Flags.WithPreciseIP(a.Flags.PreciseIP() - 1)
		case noPMU(err) && ev.Type == format.TypeHardware && ev.Config == event.Cycles:
			o.useCPUClock(a, ev)
		case (err == unix.EACCES || err == unix.EPERM) && o.mayExcludeKernel(a):
			a.Flags |= format.FlagExcludeKernel | format.FlagExcludeHV
			o.opts.notice(fmt.Errorf("kernel.perf_event_paranoid=%d: recording %s in user space only", Paranoid(), ev.Name))
			ev.Name = userOnly(ev.Name)
			a.Name = ev.Name
		case err == unix.EINVAL && o.doWithout(a):
		default:
			return -1, err
		}
	}
}

func imprecise(err error) bool { return err == unix.EINVAL || err == unix.EOPNOTSUPP }

func noPMU(err error) bool {
	return err == unix.ENOENT || err == unix.ENXIO || err == unix.ENODEV || err == unix.EOPNOTSUPP
}

// useCPUClock has the timer stand in for cycles, which this machine's PMU, if
// it has one, does not count.
func (o *opener) useCPUClock(a *format.Attr, ev *event.Event) {
	name, mods, modified := strings.Cut(ev.Name, ":")
	o.opts.notice(fmt.Errorf("%s is not supported here (no PMU): falling back to cpu-clock", name))
	a.Type, a.Config = format.TypeSoftware, event.CPUClock
	ev.Type, ev.Config, ev.Name = a.Type, a.Config, "cpu-clock"
	if modified {
		// perf spells out what P meant.
		ev.Name += ":" + strings.ReplaceAll(mods, "P", strings.Repeat("p", a.Flags.PreciseIP()))
	}
	ev.Name = strings.TrimSuffix(ev.Name, ":")
	a.Name = ev.Name
}

// mayExcludeKernel tells whether the user may record the event of their own
// processes, if only in user space.
func (o *opener) mayExcludeKernel(a *format.Attr) bool {
	return Paranoid() >= 2 && !o.opts.Target.byCPU() && a.Type != format.TypeTracepoint &&
		a.Flags&(format.FlagExcludeKernel|format.FlagExcludeUser) == 0
}

func userOnly(name string) string {
	if strings.Contains(name, ":") {
		return name + "u"
	}
	return name + ":u"
}

// doWithout drops the next feature that the attr uses, here and ever after.
func (o *opener) doWithout(a *format.Attr) bool {
	for _, f := range features {
		if f.used(a) {
			f.drop(a)
			o.missing = append(o.missing, f)
			return true
		}
	}
	return false
}

// perfEventOpen is the system call; see perf_event_open(2).
func perfEventOpen(a *format.Attr, tid, cpu int) (int, error) {
	b := a.Append(make([]byte, 0, format.AttrSize))
	fd, _, errno := unix.Syscall6(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&b[0])),
		uintptr(tid), uintptr(cpu), ^uintptr(0), unix.PERF_FLAG_FD_CLOEXEC, 0)
	runtime.KeepAlive(b)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// moreFiles raises RLIMIT_NOFILE beyond its hard limit, which some may; up to
// the hard limit the Go runtime has raised it.
func moreFiles() bool {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return false
	}
	l.Cur, l.Max = max(2*l.Cur, l.Max), max(2*l.Cur, l.Max)
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &l) == nil
}

// Paranoid is kernel.perf_event_paranoid, 2 if it cannot be read.
func Paranoid() int { return int(sysctl("/proc/sys/kernel/perf_event_paranoid", 2)) }

// sysctl reads a number, or returns what to assume without.
func sysctl(path string, otherwise int64) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return otherwise
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// id asks for the counter's id, by which its records name it.
func (c *counter) id() (id uint64, err error) {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.fd), unix.PERF_EVENT_IOC_ID, uintptr(unsafe.Pointer(&id)))
	if errno != 0 {
		return 0, errno
	}
	return id, nil
}

// lost reads how many of the counter's records, its inherited ones' included,
// found no place in the ring: PERF_FORMAT_LOST, the last value of a read.
func (c *counter) lost() (uint64, error) {
	var buf [5]uint64 // value, enabled, running, id, lost
	b := unsafe.Slice((*byte)(unsafe.Pointer(&buf)), unsafe.Sizeof(buf))
	n, err := unix.Read(c.fd, b)
	if err != nil || n < 16 {
		return 0, err
	}
	return buf[n/8-1], nil
}

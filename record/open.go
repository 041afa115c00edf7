package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
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
	on    bool   // the recorder has enabled it
	told  uint64 // lost records that LOST_SAMPLES records have reported
	// lostBefore counts the lost records of earlier counters here, until the CPU went
	// offline.
	lostBefore uint64
}

// feature is an option of attrs that older kernels do not know: they return EINVAL. gperf
// then drops it from all events.
type feature struct {
	name string
	used func(*format.Attr) bool
	drop func(*format.Attr)
}

// features are dropped in this order, the newest first.
var features = []feature{
	{"counts of lost samples (Linux 6.0)",
		func(a *format.Attr) bool { return a.ReadFormat&format.ReadLost != 0 },
		func(a *format.Attr) { a.ReadFormat &^= format.ReadLost }},
	{"weights of several parts (Linux 5.12)",
		func(a *format.Attr) bool { return a.SampleType&format.SampleWeightStruct != 0 },
		func(a *format.Attr) { a.SampleType = a.SampleType&^format.SampleWeightStruct | format.SampleWeight }},
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
	missing  []feature // not supported by this kernel
	counters []counter
	final    bool  // the attrs are written to the file and cannot change any more
	retired  []int // counters of CPUs that went offline, which own rings
	// sideBandCPUs are all CPUs if only some are recorded: a process on one of these may have
	// been started, and its code mapped, on another CPU.
	sideBandCPUs []int
	opened       func(*event.Event, *format.Attr, *counter) error // if set, gets each counter right after it is opened
	opening      func(n int) error                                // if set, gets the number of open events; its error ends open
}

// open opens every event on every CPU and thread. It skips threads that have exited, unless
// all have.
func (o *opener) open(cpus, threads []int) error {
	for e := 0; e < len(o.attrs); e++ {
		if o.opening != nil {
			if err := o.opening(e); err != nil {
				return err
			}
		}
		if emitted(&o.events[e]) {
			continue
		}
		on := cpus
		if tracks(&o.attrs[e]) && o.sampled() {
			on = o.sideBandCPUs
		}
		err := o.openEvent(e, on, threads)
		if leader := o.leader(e); err != nil && leader < e && o.events[leader].Weak {
			o.disband(leader)
			e = leader - 1
			continue
		}
		if err != nil {
			return err
		}
	}
	for e := range o.attrs { // events that were skipped take the features of the others
		for _, f := range o.missing {
			f.drop(&o.attrs[e])
		}
	}
	return nil
}

// sampled reports whether any event takes samples, which need side band.
func (o *opener) sampled() bool {
	return slices.ContainsFunc(o.events, func(ev event.Event) bool { return !isDummy(&ev) })
}

// openEvent opens an event on every CPU and thread.
func (o *opener) openEvent(e int, cpus, threads []int) error {
	for _, f := range o.missing {
		f.drop(&o.attrs[e])
	}
	ev, flags := &o.events[e], 0
	if ev.Cgroup != "" {
		dir, err := openCgroup(ev.Cgroup)
		if err != nil {
			return err
		}
		defer dir.Close()
		threads, flags = []int{int(dir.Fd())}, unix.PERF_FLAG_PID_CGROUP
	}
	filter, badFilter := kernelFilter(ev, o.opts.Tracefs)
	opened := 0
	for _, cpu := range cpus {
		if ev.CPUs != nil && !slices.Contains(ev.CPUs, cpu) {
			continue
		}
		for _, tid := range threads {
			c := counter{event: e, cpu: cpu, tid: tid}
			if flags != 0 {
				c.tid = -1
			}
			fail := func(err error) error { return &OpenError{*ev, cpu, c.tid, err} }
			var err error
			c.fd, err = o.openOne(&c, tid, flags)
			if errors.Is(err, unix.ESRCH) && len(threads) > 1 {
				continue
			}
			if err != nil {
				return fail(err)
			}
			o.counters = append(o.counters, c)
			opened++
			if err := c.setFilter(ev, filter, badFilter); err != nil {
				return err
			}
			if o.opened == nil {
				continue
			}
			if err := o.opened(ev, &o.attrs[e], &c); err != nil {
				return fail(err)
			}
		}
	}
	switch {
	case opened > 0:
		return nil
	case ev.CPUs != nil && !slices.ContainsFunc(cpus, func(cpu int) bool { return slices.Contains(ev.CPUs, cpu) }):
		return &PMUCPUsError{ev.Name, ev.CPUs}
	}
	return &OpenError{*ev, -1, threads[0], unix.ESRCH}
}

// leader returns the event that leads the group of event e: itself, if it is in none.
func (o *opener) leader(e int) int {
	for e < len(o.events) && o.events[e].Member {
		e--
	}
	return e
}

// disband makes the events of a group independent: a weak group whose events a PMU cannot
// count together.
func (o *opener) disband(leader int) {
	o.opts.notice(fmt.Errorf("cannot count the group of %s together: recording its events one by one", o.events[leader].Name))
	own := len(o.counters)
	for own > 0 && o.counters[own-1].event >= leader {
		own--
		unix.Close(o.counters[own].fd)
	}
	o.counters = o.counters[:own]
	a := &o.attrs[leader]
	a.ReadFormat &^= format.ReadGroup
	for e := leader + 1; e < len(o.events) && o.events[e].Member; e++ {
		o.events[e].Member = false
		o.attrs[e].Flags |= a.Flags & (format.FlagDisabled | format.FlagEnableOnExec)
		o.attrs[e].ReadFormat &^= format.ReadGroup
	}
}

// groupFD returns the group leader's counter on c's CPU and thread, -1 if there is none.
func (o *opener) groupFD(c *counter) int {
	leader := o.leader(c.event)
	if leader == c.event {
		return -1
	}
	for _, l := range slices.Backward(o.counters) { // the newest one, after a CPU came online
		if l.event == leader && l.cpu == c.cpu && l.tid == c.tid {
			return l.fd
		}
	}
	return -1
}

func (o *opener) close() {
	for i := range o.counters {
		o.closeOne(i)
	}
	for _, fd := range o.retired {
		unix.Close(fd)
	}
}

func (o *opener) closeOne(i int) { unix.Close(o.counters[i].fd) }

// openOne opens a counter for pid. If this kernel, machine or user does not support the attr,
// it changes the attr to a supported one.
func (o *opener) openOne(c *counter, pid, flags int) (int, error) {
	a, ev := &o.attrs[c.event], &o.events[c.event]
	group := o.groupFD(c)
	for {
		k := o.opts.kernelChain(*a)
		fd, err := perfEventOpen(&k, pid, c.cpu, group, flags)
		switch {
		case err == nil:
			return fd, nil
		case err == unix.EINTR:
		case err == unix.EMFILE && moreFiles():
		case o.final:
			return -1, err
		case a.Flags.PreciseIP() > 0 && strings.HasSuffix(ev.Name, ":P") && imprecise(err):
			a.Flags = a.Flags.WithPreciseIP(a.Flags.PreciseIP() - 1)
		case noPMU(err) && a.SampleType&format.SampleBranchStack != 0:
			return -1, ErrNoBranches
		case noPMU(err) && ev.Type == format.TypeHardware && ev.Config == format.HWCycles:
			o.useCPUClock(a, ev)
		case (err == unix.EACCES || err == unix.EPERM) && o.mayExcludeKernel(a):
			a.Flags |= format.FlagExcludeKernel | format.FlagExcludeHV
			o.opts.notice(fmt.Errorf("kernel.perf_event_paranoid=%d: recording %s in user space only", Paranoid(), ev.Name))
			ev.Name = userOnly(ev.Name)
			ev.Flags |= format.FlagExcludeKernel | format.FlagExcludeHV
			a.Name = ev.Name
		case err == unix.EACCES && leavesKernelChain(a):
			a.Flags |= format.FlagExcludeCallchainKernel
		case group >= 0 && o.events[o.leader(c.event)].Weak:
			return -1, err
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

// useCPUClock replaces cycles by the cpu-clock timer, for machines whose PMU, if any, does
// not count cycles.
func (o *opener) useCPUClock(a *format.Attr, ev *event.Event) {
	name, mods, modified := strings.Cut(ev.Name, ":")
	if pmu, terms, ok := strings.Cut(ev.Name, "/"); ok { // cpu/cycles/u
		name = pmu + "/" + terms
		mods = terms[strings.LastIndexByte(terms, '/')+1:]
		modified = mods != ""
	}
	o.opts.notice(fmt.Errorf("%s is not supported here (no PMU): falling back to cpu-clock", name))
	a.Type, a.Config = format.TypeSoftware, format.SWCPUClock
	ev.Type, ev.Config, ev.Name = a.Type, a.Config, "cpu-clock"
	if modified {
		// perf replaces P by the precision in use.
		ev.Name += ":" + strings.ReplaceAll(mods, "P", strings.Repeat("p", a.Flags.PreciseIP()))
	}
	ev.Name = strings.TrimSuffix(ev.Name, ":")
	a.Name = ev.Name
}

// mayExcludeKernel reports whether the user may record the event in user space only.
func (o *opener) mayExcludeKernel(a *format.Attr) bool {
	return Paranoid() >= 2 && !o.opts.Target.byCPU() && a.Type != format.TypeTracepoint &&
		a.Flags&(format.FlagExcludeKernel|format.FlagExcludeUser) == 0
}

// leavesKernelChain reports whether the attr asks for the kernel's part of callchains although
// its samples, taken in user space, have none. Since Linux 7.3 this requires the right to record
// the kernel (perf_event_paranoid below 2).
func leavesKernelChain(a *format.Attr) bool {
	return a.SampleType&format.SampleCallchain != 0 && a.Flags&format.FlagExcludeKernel != 0 &&
		a.Flags&format.FlagExcludeCallchainKernel == 0
}

func userOnly(name string) string {
	if strings.Contains(name, ":") {
		return name + "u"
	}
	return name + ":u"
}

// doWithout drops the next feature that the attr uses, for this and all later events.
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

// perfEventOpen is the system call; see perf_event_open(2). group is the leader's counter, -1
// for none.
func perfEventOpen(a *format.Attr, pid, cpu, group, flags int) (int, error) {
	b := kernelAttr(a)
	fd, _, errno := unix.Syscall6(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&b[0])),
		uintptr(pid), uintptr(cpu), uintptr(group), uintptr(unix.PERF_FLAG_FD_CLOEXEC|flags), 0)
	runtime.KeepAlive(b)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// kernelAttr returns the attr for the kernel: with config3, which does not fit into the
// file's attrs, and, if BPF walks user stacks, with the kernel's limit of frames.
func kernelAttr(a *format.Attr) []byte {
	k := *a
	if walked(a) && a.SampleMaxStack != 0 {
		k.SampleMaxStack = uint16(min(int64(a.SampleMaxStack), sysctl("/proc/sys/kernel/perf_event_max_stack", 127)))
	}
	b := k.Append(make([]byte, 0, format.AttrSize+8))
	if a.Config3 != 0 {
		b = binary.LittleEndian.AppendUint64(b, a.Config3)
		binary.LittleEndian.PutUint32(b[4:], uint32(len(b)))
	}
	return b
}

// moreFiles raises RLIMIT_NOFILE beyond its hard limit, which requires privileges; the Go
// runtime has already raised it to the hard limit.
func moreFiles() bool {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return false
	}
	l.Cur, l.Max = max(2*l.Cur, l.Max), max(2*l.Cur, l.Max)
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &l) == nil
}

// capable reports whether this process has a capability.
func capable(capability int) bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&h, &data[0])
	return err == nil && data[capability/32].Effective>>(capability%32)&1 != 0
}

// Paranoid returns kernel.perf_event_paranoid, 2 if it cannot be read.
func Paranoid() int { return int(sysctl("/proc/sys/kernel/perf_event_paranoid", 2)) }

// sysctl reads a number, or returns otherwise if it cannot.
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

// id returns the counter's id, which identifies it in records.
func (c *counter) id() (id uint64, err error) {
	err = ioctlPtr(c.fd, unix.PERF_EVENT_IOC_ID, &id)
	return id, err
}

// ioctlPtr is ioctl(2) with a pointer.
func ioctlPtr[T any](fd int, req uint, p *T) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(unsafe.Pointer(p)))
	if errno != 0 {
		return errno
	}
	return nil
}

// lost reads the number of the counter's records, including its inherited counters', that did
// not fit into the ring: PERF_FORMAT_LOST, the last value of a read. Reading a member of a
// group with PERF_FORMAT_GROUP returns the whole group: count, times, and value, id and lost
// of each.
func (c *counter) lost(a *format.Attr, id uint64, group int) (uint64, error) {
	buf := make([]uint64, 3+3*group)
	n, err := unix.Read(c.fd, unsafe.Slice((*byte)(unsafe.Pointer(&buf[0])), 8*len(buf)))
	if err != nil || n < 16 {
		return 0, err
	}
	buf = buf[:n/8]
	if a.ReadFormat&format.ReadGroup == 0 {
		return buf[len(buf)-1], nil
	}
	for len(buf) > 3 {
		if last := buf[len(buf)-3:]; last[1] == id {
			return last[2], nil
		}
		buf = buf[:len(buf)-3]
	}
	return 0, nil
}

package perfevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/event"
	"gperf/record/tracefs"
)

// Counter is one open perf event: event × CPU × thread.
type Counter struct {
	Event int // index of the event and its attr
	CPU   int
	TID   int // -1: all threads
	FD    int
	ID    uint64 // identifies it in the file's records
	// Reported is the number of lost records that LOST_SAMPLES records have reported.
	Reported uint64
	// Enabled means that it runs, or will when the recorded command is executed.
	Enabled bool

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
	{"inherited counts in samples (Linux 6.12)",
		func(a *format.Attr) bool {
			return a.Flags&format.FlagInherit != 0 && a.SampleType&format.SampleRead != 0
		},
		func(a *format.Attr) { a.Flags &^= format.FlagInherit }},
	{"counts of lost samples (Linux 6.0)",
		func(a *format.Attr) bool { return a.ReadFormat&format.ReadLost != 0 },
		func(a *format.Attr) { a.ReadFormat &^= format.ReadLost }},
	{"weights of several parts (Linux 5.12)",
		func(a *format.Attr) bool { return a.SampleType&format.SampleWeightStruct != 0 },
		func(a *format.Attr) { a.SampleType = a.SampleType&^format.SampleWeightStruct | format.SampleWeight }},
	{"build IDs in mmap records (Linux 5.12)",
		func(a *format.Attr) bool { return a.Flags&format.FlagBuildID != 0 },
		func(a *format.Attr) { a.Flags &^= format.FlagBuildID }},
}

// Missing is the features that this kernel does not know.
type Missing []feature

// Names returns the names of the features.
func (m Missing) Names() (names []string) {
	for _, f := range m {
		names = append(names, f.name)
	}
	return names
}

// drop drops the features that an attr uses.
func (m Missing) drop(a *format.Attr) {
	for _, f := range m {
		if f.used(a) {
			f.drop(a)
		}
	}
}

// add drops the next feature that the attr uses, for this and all later events.
func (m *Missing) add(a *format.Attr) bool {
	for _, f := range features {
		if f.used(a) {
			f.drop(a)
			*m = append(*m, f)
			return true
		}
	}
	return false
}

// Config defines how a Set opens its counters.
type Config struct {
	SystemWide  bool // counters count all threads of their CPU
	KernelChain bool // callchains have kernel frames only
	NoIdle      bool // a clock that replaces an event leaves out idle tasks
	Tracefs     *tracefs.FS
	// SideBandCPUs are all CPUs if only some are recorded: a process on one of these may have
	// been started, and its code mapped, on another CPU.
	SideBandCPUs []int
	// Opened, if set, gets each counter right after it is opened.
	Opened func(*event.Event, *format.Attr, *Counter) error
	// Opening, if set, gets the number of open events. Its error ends Open.
	Opening func(n int) error
	// Notice receives warnings.
	Notice func(error)
}

// Set is the counters of a recording.
type Set struct {
	Config
	Events   []event.Event
	Attrs    []format.Attr // of the events
	Counters []Counter
	Missing  Missing
	final    bool  // the attrs are in the file and cannot change any more
	retired  []int // counters of CPUs that went offline, which own rings
}

// Open opens every event on every CPU and thread. It skips threads that have exited, unless
// all have.
func (s *Set) Open(cpus, threads []int) error {
	for e := 0; e < len(s.Attrs); e++ {
		if s.Opening != nil {
			if err := s.Opening(e); err != nil {
				return err
			}
		}
		if s.Events[e].BPFSampled() {
			continue
		}
		on := cpus
		if Tracks(&s.Attrs[e]) && s.sampled() {
			on = s.SideBandCPUs
		}
		err := s.openEvent(e, on, threads)
		if leader := s.leader(e); err != nil && leader < e && s.Events[leader].Weak {
			s.disband(leader)
			e = leader - 1
			continue
		}
		if err != nil {
			return err
		}
	}
	for e := range s.Attrs { // events that were skipped take the features of the others
		s.Missing.drop(&s.Attrs[e])
	}
	return nil
}

// sampled reports whether any event takes samples, which need side band.
func (s *Set) sampled() bool {
	return slices.ContainsFunc(s.Events, func(ev event.Event) bool { return !ev.IsDummy() })
}

// openEvent opens an event on every CPU and thread.
func (s *Set) openEvent(e int, cpus, threads []int) error {
	s.Missing.drop(&s.Attrs[e])
	ev, flags := &s.Events[e], 0
	if ev.Cgroup != "" {
		dir, err := openCgroup(ev.Cgroup)
		if err != nil {
			return err
		}
		defer dir.Close()
		threads, flags = []int{int(dir.Fd())}, unix.PERF_FLAG_PID_CGROUP
	}
	filter, badFilter := kernelFilter(ev, s.Tracefs)
	opened := 0
	for _, cpu := range cpus {
		if ev.CPUs != nil && !slices.Contains(ev.CPUs, cpu) {
			continue
		}
		for _, tid := range threads {
			c := Counter{Event: e, CPU: cpu, TID: tid}
			if flags != 0 {
				c.TID = -1
			}
			fail := func(err error) error { return &OpenError{*ev, cpu, c.TID, err} }
			var err error
			c.FD, err = s.openOne(&c, tid, flags)
			if errors.Is(err, unix.ESRCH) && len(threads) > 1 {
				continue
			}
			if err != nil {
				return fail(err)
			}
			c.Enabled = s.Attrs[e].Flags&format.FlagDisabled == 0
			s.Counters = append(s.Counters, c)
			opened++
			if err := c.setFilter(ev, filter, badFilter); err != nil {
				return err
			}
			if s.Opened == nil {
				continue
			}
			if err := s.Opened(ev, &s.Attrs[e], &c); err != nil {
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
func (s *Set) leader(e int) int {
	for e < len(s.Events) && s.Events[e].Member {
		e--
	}
	return e
}

// disband makes the events of a group independent: a weak group whose events a PMU cannot
// count together.
func (s *Set) disband(leader int) {
	s.Notice(fmt.Errorf("cannot count the group of %s together: recording its events one by one",
		s.Events[leader].Name))
	own := len(s.Counters)
	for own > 0 && s.Counters[own-1].Event >= leader {
		own--
		unix.Close(s.Counters[own].FD)
	}
	s.Counters = s.Counters[:own]
	a := &s.Attrs[leader]
	a.ReadFormat &^= format.ReadGroup
	for e := leader + 1; e < len(s.Events) && s.Events[e].Member; e++ {
		s.Events[e].Member = false
		s.Attrs[e].Flags |= a.Flags & (format.FlagDisabled | format.FlagEnableOnExec)
		s.Attrs[e].ReadFormat &^= format.ReadGroup
	}
}

// groupFD returns the group leader's counter on c's CPU and thread, -1 if there is none.
func (s *Set) groupFD(c *Counter) int {
	leader := s.leader(c.Event)
	if leader == c.Event {
		return -1
	}
	for _, l := range slices.Backward(s.Counters) { // the newest one, after a CPU came online
		if l.Event == leader && l.CPU == c.CPU && l.TID == c.TID {
			return l.FD
		}
	}
	return -1
}

// Close closes all counters.
func (s *Set) Close() {
	for i := range s.Counters {
		s.CloseCounter(i)
	}
	for _, fd := range s.retired {
		unix.Close(fd)
	}
}

// CloseCounter closes counter i.
func (s *Set) CloseCounter(i int) { unix.Close(s.Counters[i].FD) }

// openOne opens a counter for pid. If this kernel, machine or user does not support the attr,
// it changes the attr to a supported one.
func (s *Set) openOne(c *Counter, pid, flags int) (int, error) {
	a, ev := &s.Attrs[c.Event], &s.Events[c.Event]
	group := s.groupFD(c)
	for {
		k := s.ForKernel(*a)
		fd, err := Open(&k, pid, c.CPU, group, flags)
		switch {
		case err == nil:
			return fd, nil
		case err == unix.EINTR:
		case err == unix.EMFILE && moreFiles():
		case s.final:
			return -1, err
		case a.Flags.PreciseIP() > 0 && strings.HasSuffix(ev.Name, ":P") && imprecise(err):
			a.Flags = a.Flags.WithPreciseIP(a.Flags.PreciseIP() - 1)
		case noPMU(err) && a.SampleType&format.SampleBranchStack != 0:
			return -1, ErrNoBranches
		case noPMU(err) && ev.Type == format.TypeHardware && ev.Config == format.HWCycles:
			s.useCPUClock(a, ev)
		case (err == unix.EACCES || err == unix.EPERM) && s.mayExcludeKernel(a):
			a.Flags |= format.FlagExcludeKernel | format.FlagExcludeHV
			s.Notice(fmt.Errorf("kernel.perf_event_paranoid=%d: recording %s in user space only", Paranoid(), ev.Name))
			ev.Name = userOnly(ev.Name)
			ev.Flags |= format.FlagExcludeKernel | format.FlagExcludeHV
			a.Name = ev.Name
		case err == unix.EACCES && leavesKernelChain(a):
			a.Flags |= format.FlagExcludeCallchainKernel
		case group >= 0 && s.Events[s.leader(c.Event)].Weak:
			return -1, err
		case err == unix.EINVAL && s.Missing.add(a):
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
func (s *Set) useCPUClock(a *format.Attr, ev *event.Event) {
	name, mods, modified := strings.Cut(ev.Name, ":")
	if pmu, terms, ok := strings.Cut(ev.Name, "/"); ok { // cpu/cycles/u
		name = pmu + "/" + terms
		mods = terms[strings.LastIndexByte(terms, '/')+1:]
		modified = mods != ""
	}
	s.Notice(fmt.Errorf("%s is not supported here (no PMU): falling back to cpu-clock", name))
	a.Type, a.Config = format.TypeSoftware, format.SWCPUClock
	if s.NoIdle {
		a.Flags |= format.FlagExcludeIdle
	}
	ev.Type, ev.Config, ev.Name = a.Type, a.Config, "cpu-clock"
	if modified {
		// perf replaces P by the precision in use.
		ev.Name += ":" + strings.ReplaceAll(mods, "P", strings.Repeat("p", a.Flags.PreciseIP()))
	}
	ev.Name = strings.TrimSuffix(ev.Name, ":")
	a.Name = ev.Name
}

// mayExcludeKernel reports whether the user may record the event in user space only.
func (s *Set) mayExcludeKernel(a *format.Attr) bool {
	return Paranoid() >= 2 && !s.SystemWide && a.Type != format.TypeTracepoint &&
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

// Open calls perf_event_open(2). group is the leader's counter, -1 for none.
func Open(a *format.Attr, pid, cpu, group, flags int) (int, error) {
	b := kernelAttr(a)
	fd, _, errno := unix.Syscall6(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&b[0])),
		uintptr(pid), uintptr(cpu), uintptr(group), uintptr(unix.PERF_FLAG_FD_CLOEXEC|flags), 0)
	runtime.KeepAlive(b)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// OpenForProgram opens a disabled counter of a tracepoint or probe for a BPF program, which sees the events of all
// processes. Since about Linux 6.10 the kernel detaches a program as soon as the first counter closes that was
// inherited from the program's counter, so that programs are not attached to the counters of the recording.
func OpenForProgram(typ format.EventType, config uint64) (int, error) {
	a := format.Attr{Type: typ, Config: config, SamplePeriod: 1, Flags: format.FlagDisabled}
	return Open(&a, 0, -1, -1, 0)
}

// kernelAttr returns the attr for the kernel: with config3, which does not fit into the
// file's attrs, and, if BPF walks user stacks, with the kernel's limit of frames.
func kernelAttr(a *format.Attr) []byte {
	k := *a
	if Walked(a) && a.SampleMaxStack != 0 {
		k.SampleMaxStack = uint16(min(int64(a.SampleMaxStack), maxStack()))
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

// KernelID returns the id by which the kernel identifies a counter in records.
func KernelID(fd int) (id uint64, err error) {
	err = ioctlPtr(fd, unix.PERF_EVENT_IOC_ID, &id)
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

// Lost returns the number of the counter's records, including its inherited counters', that
// did not fit into the ring (PERF_FORMAT_LOST). group is the number of events in the recording,
// which limits the size of a group.
func (c *Counter) Lost(a *format.Attr, group int) (uint64, error) {
	n, err := c.readLost(a, group)
	return c.lostBefore + n, err
}

// readLost reads the last value of struct read_format. Reading a member of a group with
// PERF_FORMAT_GROUP returns the whole group: count, times, and value, id and lost of each.
func (c *Counter) readLost(a *format.Attr, group int) (uint64, error) {
	if a.ReadFormat&format.ReadLost == 0 {
		return 0, nil
	}
	buf := make([]uint64, 3+3*group)
	n, err := unix.Read(c.FD, unsafe.Slice((*byte)(unsafe.Pointer(&buf[0])), 8*len(buf)))
	if err != nil || n < 16 {
		return 0, err
	}
	buf = buf[:n/8]
	if a.ReadFormat&format.ReadGroup == 0 {
		return buf[len(buf)-1], nil
	}
	for len(buf) > 3 {
		if last := buf[len(buf)-3:]; last[1] == c.ID {
			return last[2], nil
		}
		buf = buf[:len(buf)-3]
	}
	return 0, nil
}

// Replace makes the counter take the place of a removed one of the same event and CPU: it
// continues its count of lost records.
func (c *Counter) Replace(removed *Counter, a *format.Attr, group int) {
	c.lostBefore, _ = removed.Lost(a, group) // on an error this count stays incomplete
	c.ID, c.Reported = removed.ID, removed.Reported
}

// ReadIDs reads the counters' ids into them and the attrs. BPF programs make some events'
// samples: bpfSampled returns their id.
func (s *Set) ReadIDs(bpfSampled func(*event.Event) uint64) error {
	for i := range s.Counters {
		c := &s.Counters[i]
		var err error
		if c.ID, err = KernelID(c.FD); err != nil {
			return s.fail(c, err)
		}
		s.Attrs[c.Event].IDs = append(s.Attrs[c.Event].IDs, c.ID)
	}
	for i := range s.Events {
		if s.Events[i].BPFSampled() {
			s.Attrs[i].IDs = []uint64{bpfSampled(&s.Events[i])}
		}
	}
	return nil
}

// fail returns the error of a counter.
func (s *Set) fail(c *Counter, err error) error {
	return &OpenError{s.Events[c.Event], c.CPU, c.TID, err}
}

// Enable starts or stops a counter, unless it is in this state.
func (s *Set) Enable(c *Counter, on bool) error {
	if c.Enabled == on {
		return nil
	}
	req := uint(unix.PERF_EVENT_IOC_ENABLE)
	if !on {
		req = unix.PERF_EVENT_IOC_DISABLE
	}
	if err := unix.IoctlSetInt(c.FD, req, 0); err != nil {
		return s.fail(c, err)
	}
	c.Enabled = on
	return nil
}

// SetPeriod changes the counter's period, or its frequency if it has one. It fails for a CPU that is offline.
func (c *Counter) SetPeriod(n uint64) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.FD), unix.PERF_EVENT_IOC_PERIOD, uintptr(unsafe.Pointer(&n)))
	if errno != 0 {
		return fmt.Errorf("changing the period: %w", errno)
	}
	return nil
}

// Lost returns the number of lost records of a counter.
func (s *Set) Lost(c *Counter) (uint64, error) {
	n, err := c.Lost(&s.Attrs[c.Event], len(s.Events))
	if err != nil {
		return n, s.fail(c, err)
	}
	return n, nil
}

// ForKernel returns the attr for the kernel and the file: different if callchains are to have kernel frames only. The
// attrs of the Set lack FlagExcludeCallchainUser then, because Walked depends on it.
func (s *Set) ForKernel(a format.Attr) format.Attr {
	if s.KernelChain && a.SampleType&format.SampleCallchain != 0 {
		a.Flags |= format.FlagExcludeCallchainUser
	}
	return a
}

// Walked reports whether BPF programs walk the user stacks of an event's samples: the kernel
// records its own part of their callchains only.
func Walked(a *format.Attr) bool {
	return a.Flags&format.FlagExcludeCallchainUser != 0 && a.SampleType&format.SampleStackUser == 0 &&
		a.SamplePeriod != 0
}

// Tracks reports whether an event writes the side band.
func Tracks(a *format.Attr) bool { return a.Flags&format.FlagTask != 0 }

// BPF programs count events in the kernel, and no samples are made. At the end, and when asked, each count becomes a
// sample whose period is the number of events since the last time.

package programs

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/stacks"
	"gperf/record/tracefs"
)

// never is the period of the counters of tracepoints and probes, which are not enabled: a program at the
// tracepoint runs anyway, and an enabled counter would take time. Another event of the thread says
// whether it is recorded.
const never = 1 << 62

// CounterEnabled reports whether the counters of an event are enabled.
func CounterEnabled(a *format.Attr) bool { return a.SamplePeriod != never }

// LimitCount removes the settings from the attr of a counted event that the event's samples do not support.
// Tracepoints and probes are counted without samples of the kernel; software events, apart from clocks, at each
// occurrence unless the user chose a frequency or period.
func LimitCount(a *format.Attr, chosen bool) {
	LimitAttr(a, format.SampleCallchain)
	a.Flags = a.Flags.WithPreciseIP(0) // the kernel walks no stacks for programs then
	switch {
	case a.Type == format.TypeTracepoint:
		a.Flags &^= format.FlagFreq | format.FlagEnableOnExec
		a.SamplePeriod = never
	case a.Type == format.TypeSoftware && a.Config != format.SWCPUClock && a.Config != format.SWTaskClock && !chosen:
		a.Flags &^= format.FlagFreq
		a.SamplePeriod = 1
	}
}

// CountAttrForFile changes the attr of an event to the attr of the samples in the file. The samples contain no
// fields of tracepoints: for readers, they are the output of a BPF program.
func CountAttrForFile(a *format.Attr) {
	if a.SamplePeriod == never {
		a.Type, a.Config, a.SamplePeriod = format.TypeSoftware, format.SWBPFOutput, 1
	}
}

// CounterOptions select the counted events.
type CounterOptions struct {
	Events []event.Event
	Attrs  []format.Attr
	// PerTask means that threads are recorded, with so many counters at most; else the CPUs are.
	PerTask  bool
	Counters int
	// Cgroups, if not nil, are IDs of cgroups: only tasks in these, and below them, are recorded.
	Cgroups []uint64
	CPUs    []int
	// Unwinder, if not nil, walks the user stacks.
	Unwinder *bpf.Unwinder
	// KernelChain leaves user stacks out.
	KernelChain bool
	Tracefs     *tracefs.FS
}

// Counter counts events.
type Counter struct {
	defaults
	opts        CounterOptions
	bpf         *bpf.Counter
	tracepoints map[int]int // by index of the event: the counter with the program
	outputs     stacks.Outputs
	events      []stacks.Event

	stacks  stackStore
	written map[bpf.CountKey]uint64 // weights in the file
	last    uint64                  // CLOCK_MONOTONIC when the counts were read, in ns
	counts  []count                 // not yet in the file
}

// count is a number of events.
type count struct {
	bpf.Count
	head bpf.Head
	copy []byte // of the user stack; nil if the stack includes the user's frames
}

// NewCounter loads the programs, which do nothing until they are enabled.
func NewCounter(o CounterOptions) (*Counter, error) {
	cpus, err := bpf.NumCPU()
	if err != nil {
		return nil, err
	}
	r := &Counter{opts: o, tracepoints: map[int]int{},
		stacks: newStackStore(), written: map[bpf.CountKey]uint64{}}
	opts := bpf.CounterOptions{UserStacks: o.userStacks(), Unwinder: o.Unwinder, PerTask: o.PerTask,
		Cgroups: o.Cgroups, CPUs: cpus, On: o.CPUs, IDs: o.Counters}
	for i := range o.Events {
		opts.Probes = opts.Probes || o.program(&o.Events[i]) == bpf.OnProbe
	}
	if r.bpf, err = bpf.NewCounter(opts); err != nil {
		return nil, err
	}
	for i := range o.Events {
		r.events = append(r.events, stacks.NewEvent(&o.Attrs[i]))
		if err := r.load(i); err != nil {
			r.Close()
			return nil, fmt.Errorf("event %s: %w", o.Events[i].Name, err)
		}
	}
	return r, nil
}

// userStacks returns how user stacks are found.
func (o *CounterOptions) userStacks() bpf.UserStacks {
	how := bpf.UserNone
	for i := range o.Attrs {
		switch a := &o.Attrs[i]; {
		case o.KernelChain || a.SampleType&format.SampleCallchain == 0:
		case perfevent.Walked(a) && o.Unwinder != nil:
			return bpf.UserByTables
		default:
			how = bpf.UserByFP
		}
	}
	return how
}

// program returns the program for an event.
func (o *CounterOptions) program(ev *event.Event) bpf.Program {
	switch {
	case ev.Type != format.TypeTracepoint:
		return bpf.OnEvent
	case ev.Probe != nil || o.Tracefs.IsProbe(ev.Tracepoint):
		return bpf.OnProbe
	}
	return bpf.OnTracepoint
}

// maxFrames is more than the number of kernel frames.
const maxFrames = 1 << 10

// load loads the program of an event.
func (r *Counter) load(i int) error {
	ev, a := &r.opts.Events[i], &r.opts.Attrs[i]
	if ev.IsDummy() {
		return nil
	}
	c := bpf.CountedEvent{Index: i, Program: r.opts.program(ev), KernelFrames: 1, UserIP: true}
	switch {
	case a.Flags&format.FlagExcludeKernel != 0:
		c.KernelFrames = 0
	case a.SampleType&format.SampleCallchain == 0:
	case a.Flags&format.FlagExcludeCallchainKernel == 0:
		c.KernelFrames = maxFrames
		if a.SampleMaxStack != 0 {
			c.KernelFrames = int(a.SampleMaxStack)
		}
	}
	return r.bpf.Load(c)
}

// Opened attaches the program of an event to the event's counter right after the counter is opened: counters
// inherited from it later run the program too.
func (r *Counter) Opened(ev *event.Event, a *format.Attr, c *perfevent.Counter) error {
	if ev.IsDummy() {
		return nil
	}
	if a.Type != format.TypeTracepoint {
		return r.bpf.Attach(c.Event, c.FD)
	}
	if _, attached := r.tracepoints[c.Event]; attached {
		return nil
	}
	fd, err := perfevent.OpenForProgram(a.Type, a.Config)
	if err != nil {
		return err
	}
	r.tracepoints[c.Event] = fd
	return r.bpf.Attach(c.Event, fd)
}

// Tracepoints implements Program.
func (r *Counter) Tracepoints() (own map[uint64]int, others []int) {
	own = map[uint64]int{}
	for i, fd := range r.tracepoints {
		own[r.opts.Attrs[i].Config] = fd
	}
	return own, nil
}

// SetIDs sets the ids of all counters, and the attrs of the events, which contain the ids. It must precede Attach.
func (r *Counter) SetIDs(ids []uint64, attrs []format.Attr) error {
	r.opts.Attrs = attrs
	if !r.opts.PerTask {
		return nil
	}
	return r.bpf.SetIDs(ids)
}

// Attach implements Program.
func (r *Counter) Attach(mergers []*stacks.Merger) error {
	for _, n := range mergers {
		if err := r.Reopen(n, 0); err != nil {
			return err
		}
	}
	return nil
}

// Reopen opens the BPF output events of a ring's CPU.
func (r *Counter) Reopen(n *stacks.Merger, _ int) error {
	last := new(countCopied)
	var fds []int
	for _, out := range []struct {
		wakeups uint32
		take    func(stacks.Output)
	}{
		{0, func(o stacks.Output) { r.takeCount(o, last) }},
		{0, r.stacks.take},
		{0, last.take},
		{1, last.take}, // a table may be missing
	} {
		fd, id, err := stacks.OpenOutput(n.Ring, &r.opts.Attrs[0], out.wakeups)
		if err != nil {
			return err
		}
		fds = append(fds, fd)
		n.Add(id, stacks.Event{Take: func(rec []byte) {
			if o, ok := stacks.ParseOutput(rec); ok {
				out.take(o)
			}
		}})
	}
	out := bpf.CounterOutput{Counts: fds[0], Stacks: fds[1], Quiet: fds[2], Waking: fds[3]}
	err := r.bpf.SetOutput(n.Ring.CPU, out)
	r.outputs.Replace(n.Ring.CPU, fds)
	return err
}

// countCopied is the last copy of a user stack in a ring, whose count follows.
type countCopied struct {
	tid  uint64 // pid and tid
	head bpf.Head
	data []byte
}

func (c *countCopied) take(o stacks.Output) {
	if head, ok := bpf.ParseHead(o.Raw); ok && head.Copy {
		*c = countCopied{o.TID, head, bytes.Clone(o.Raw[bpf.HeadSize:])}
	}
}

func (r *Counter) takeCount(o stacks.Output, last *countCopied) {
	c, ok := bpf.ParseCount(o.Raw)
	if !ok {
		return
	}
	one := count{Count: c, head: c.Head()}
	if last.data != nil && last.tid == o.TID {
		one.head, one.copy = last.head, last.data
	}
	*last = countCopied{}
	r.counts = append(r.counts, one)
}

// Snapshot reads the counts. The stacks of the counts must be read before.
func (r *Counter) Snapshot() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	l, err := r.bpf.Counts()
	if err != nil {
		return err
	}
	for _, c := range l {
		before, again := r.written[c.CountKey]
		if r.written[c.CountKey] = c.Weight; c.Weight <= before {
			continue
		}
		c.Weight -= before
		if again { // the thread did not exit before
			c.First = r.last
		}
		r.counts = append(r.counts, count{Count: c, head: c.Head()})
	}
	r.last = uint64(now.Nano())
	return nil
}

// Late adds the samples of the counts read so far to the merged records.
func (r *Counter) Late(j *stacks.Merged) {
	r.stacks.interpret(j)
	if len(r.counts) == 0 {
		return
	}
	offset, err := perfevent.ClockOffset(&r.opts.Attrs[0])
	if err != nil {
		offset = 0 // CLOCK_MONOTONIC, unless -k names another one
	}
	for i := range r.counts {
		r.join(j, &r.counts[i], offset)
	}
	r.counts = r.counts[:0]
}

// join adds the sample of a count.
func (r *Counter) join(j *stacks.Merged, c *count, offset uint64) {
	if int(c.Event) >= len(r.events) {
		return
	}
	stack, known := r.stacks.known[c.Stack]
	rec := r.sample(c, &stack, offset)
	e := &r.events[c.Event]
	switch {
	case c.copy != nil:
		j.Join(e, rec, c.head, c.copy)
	case !known: // the record with the stack was lost
		j.JoinNone(rec)
	default:
		c.head.Frames, c.head.Generation = uint32(len(stack.User)/8), stack.Generation
		j.Join(e, rec, c.head, stack.User)
	}
}

// sample returns the sample of a count, with the kernel's part of the callchain.
func (r *Counter) sample(c *count, stack *bpf.Stack, offset uint64) []byte {
	a := &r.opts.Attrs[c.Event]
	one := sampleOf(a, stack)
	one.PID, one.TID, one.Time, one.Period = int32(c.PID), int32(c.TID), c.First+offset, c.Weight
	return one.AppendTo(nil, a.SampleType)
}

// Enable starts or stops counting.
func (r *Counter) Enable(on bool) error { return r.bpf.Enable(on) }

// Stats returns the statistics of the programs.
func (r *Counter) Stats() bpf.Stats { return r.bpf.Stats() }

// Summary implements Program.
func (r *Counter) Summary(sum *Summary) (err error) {
	sum.Uncounted, err = r.bpf.Uncounted()
	return err
}

// Close detaches the programs and closes the programs' counters.
func (r *Counter) Close() {
	r.bpf.Close()
	r.outputs.Close()
	for _, fd := range r.tracepoints {
		unix.Close(fd)
	}
}

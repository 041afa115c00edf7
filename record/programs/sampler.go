// Package programs runs the BPF programs that make samples and counts: samples of raw tracepoints, of tracepoints
// with arguments, of packets that other BPF programs drop, of large sets of functions and of spans (Sampler); waits
// of threads (OffCPU); counts of events by thread and stack (Counter).
package programs

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/internal/parallel"
	"gperf/internal/procfs"
	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/probe"
	"gperf/record/probe/kernel"
	"gperf/record/stacks"
)

// SamplerOptions define the sampled threads and functions.
type SamplerOptions struct {
	// PerTask, if not nil, are ids of counters: only threads with one of these counters, inherited or not, are
	// sampled, while the counter is enabled.
	PerTask []uint64
	// Cgroups, if not nil, are IDs of cgroups: only tasks in these, and below them, are recorded.
	Cgroups []uint64
	// Unwinder, if not nil, walks the user stacks of the samples.
	Unwinder *bpf.Unwinder
	// Recorded are the recorded CPUs, whose rings get samples.
	Recorded []int
	// CPUs, if not nil, are those on which histograms count.
	CPUs []int
	// Select selects the packets of events with a packet.
	Select bpf.PacketSelection
	// Functions are the entry addresses of the probed functions.
	Functions map[*probe.Probe]uint64
	Follow    *Following // nil: all packets are sampled
	// Notice receives warnings.
	Notice func(error)
	// Verbose, if not nil, receives notes for curious users.
	Verbose func(string)
}

// Sampler makes the samples of a recording's events without counters.
type Sampler struct {
	defaults
	opts       SamplerOptions
	counters   []perfevent.Counter // the BPF output events, one of each CPU
	bpf        *bpf.Sampler
	first      int           // index of the first event whose samples programs write
	attrs      []format.Attr // of these events
	locate     int           // number of frames that locate raw tracepoints; 0: there are none
	userOnly   bool          // there are events without the kernel's frames
	attached   attachments
	histograms []*histogram
	late       []byte // samples of histograms that are not in the file yet
}

// attachments are the places that the programs are attached to.
type attachments struct {
	opts        *SamplerOptions
	bpf         *bpf.Sampler
	raw         map[uint64]bool        // of raw tracepoints, by number
	runners     func() kernel.Codes    // the functions that run tracepoints' programs
	netfilter   func() netfilterCode   // with events that find verdicts
	dropping    kernel.Codes           // the functions that free packets which netfilter drops
	spans       map[uint64]*event.Span // by number
	packets     map[uint64]*packets    // of raw tracepoints with one, by number
	sockets     sockets
	tracepoints []int // counters of the tracepoints whose own fields samples contain
}

// SamplerError means that BPF programs cannot make the samples of an event that needs them.
type SamplerError struct {
	Event string
	Err   error
}

func (e *SamplerError) Error() string { return fmt.Sprintf("event %s: %v", e.Event, e.Err) }
func (e *SamplerError) Unwrap() error { return e.Err }

// MakesSamples reports whether BPF programs make the samples of any of the events.
func MakesSamples(events []event.Event) bool {
	return slices.ContainsFunc(events, func(ev event.Event) bool { return ev.BPFSampled() && ev.OffCPU == 0 })
}

// NewSampler attaches programs to the events without counters; there must be at least one. attrs are the
// events' attrs. The programs do nothing until they are enabled. With an error, the Sampler, unless it is nil,
// must still be closed.
func NewSampler(o SamplerOptions, events []event.Event, attrs []format.Attr) (*Sampler, error) {
	cpus, err := bpf.NumCPU()
	if err != nil {
		return nil, err
	}
	raw := 0
	for i := range events {
		if events[i].Raw != nil {
			raw++
		}
	}
	var netfilter func() netfilterCode
	if slices.ContainsFunc(events, func(ev event.Event) bool { return ev.Raw != nil && ev.Raw.Verdict != nil }) {
		netfilter = parallel.Later(findNetfilter) // reading /proc/kallsyms takes some 50 ms
	}
	b, err := bpf.NewSampler(bpf.SamplerOptions{CPUs: cpus, PerTask: o.PerTask, Cgroups: o.Cgroups,
		Unwinder: o.Unwinder, RawTracepoints: raw, Select: o.Select, Follow: o.Follow != nil})
	if err != nil {
		return nil, &SamplerError{events[0].Name, err}
	}
	s := &Sampler{opts: o, bpf: b}
	s.attached = attachments{opts: &s.opts, bpf: b, raw: map[uint64]bool{}, spans: map[uint64]*event.Span{},
		packets: map[uint64]*packets{}, netfilter: netfilter}
	for i := range events {
		switch ev := &events[i]; {
		case !ev.BPFSampled() || ev.OffCPU != 0:
		case ev.Span != nil && ev.Span.Hist:
			s.histograms = append(s.histograms, &histogram{ev, attrs[i], map[bpf.BucketKey]bpf.Bucket{}})
		default:
			if s.attrs == nil {
				s.first = i
			}
			s.attrs = append(s.attrs, attrs[i])
			s.locate = max(s.locate, framesToLocate(ev))
			s.userOnly = s.userOnly || !withKernelFrames(attrs[i])
		}
	}
	return s, s.attached.attachPrograms(events)
}

// attachPrograms attaches a program to each raw tracepoint and each program that drops packets, some to each kind of
// span, one to all entered functions, and one to all functions that return.
func (a *attachments) attachPrograms(events []event.Event) error {
	var raw, spans, entered, returned []*event.Event
	for i := range events {
		switch ev := &events[i]; {
		case !ev.BPFSampled(), ev.OffCPU != 0:
		case ev.Raw != nil && ev.Raw.Verdict != nil: // this sample comes before the sample of the drop
			raw = slices.Insert(raw, 0, ev)
		case ev.Raw != nil:
			raw = append(raw, ev)
		case ev.Span != nil:
			spans = append(spans, ev)
		case ev.Probe.Kind.Return():
			returned = append(returned, ev)
		default:
			entered = append(entered, ev)
		}
	}
	if a.opts.Follow != nil {
		if err := bpf.AttachFrees(a.bpf); err != nil {
			return &SamplerError{raw[0].Name, err}
		}
	}
	for _, ev := range raw {
		a.raw[ev.Config] = !ev.Hops
		if err := a.attachRaw(ev, raw); err != nil {
			return err
		}
	}
	if len(raw) > 0 {
		a.runners = parallel.Later(findRunners) // some exist only now
	}
	if err := a.attachSpans(spans); err != nil {
		return err
	}
	for _, l := range [][]*event.Event{entered, returned} {
		if err := a.attachFunctions(l); err != nil {
			return err
		}
	}
	return nil
}

// framesToLocate returns the number of the kernel's frames that locate an event's samples.
func framesToLocate(ev *event.Event) int {
	switch {
	case ev.Raw == nil, ev.Hops:
		return 0
	case ev.Raw.Verdict != nil:
		return maxOwnFrames + maxDropFrames + 1
	}
	return maxOwnFrames + 1
}

// findRunners finds the functions that run the programs of raw tracepoints.
func findRunners() kernel.Codes {
	kallsyms, err := os.Open(procfs.Kallsyms)
	if err != nil {
		return nil // then these functions remain as frames
	}
	defer kallsyms.Close()
	return kernel.Runners(kallsyms)
}

// attachRaw attaches a program to one of the raw tracepoints, or programs to the functions that packets pass, or to the
// return of others.
func (a *attachments) attachRaw(ev *event.Event, all []*event.Event) error {
	l, err := ev.Raw.Layout()
	if err != nil {
		return &SamplerError{ev.Name, err}
	}
	if ev.Raw.Verdict != nil {
		return a.attachVerdict(ev, l)
	}
	t := &bpf.RawTracepoint{Name: ev.Raw.Name, ID: uint16(ev.Config), Size: l.Size}
	for _, v := range l.Values {
		t.Values = append(t.Values, bpf.Value{Fetch: v.Fetch, At: v.At})
	}
	if t.Filter, err = filterOf(ev, l.Format(uint16(ev.Config))); err != nil {
		return &perfevent.FilterError{Event: ev.Name, Filter: ev.Filter, Err: err}
	}
	if p := ev.Raw.Packet; p != nil {
		t.Packet = &bpf.Packet{Arg: p.Arg, IsSock: p.IsSock, At: l.PacketAt, BytesAt: l.BytesAt, Snap: p.Snap}
		a.packets[ev.Config] = newPackets(l, &a.sockets)
		if a.opts.Follow != nil {
			t.Passage = a.opts.Follow.passage(ev, all)
		}
	}
	if ev.Hops {
		return a.attachHops(ev, t)
	}
	if l.OwnSize > 0 {
		fd, err := perfevent.OpenForProgram(format.TypeTracepoint, l.OwnID)
		if err != nil {
			return &perfevent.OpenError{Event: *ev, CPU: -1, Err: err}
		}
		a.tracepoints = append(a.tracepoints, fd)
		t.Own = &bpf.Record{FD: fd, Size: l.OwnSize, Dynamic: l.Dynamic}
	}
	if ev.Raw.Drops != nil {
		return a.attachDrops(ev, t)
	}
	if err := a.bpf.AttachRawTracepoint(t); err != nil {
		return &SamplerError{ev.Name, err}
	}
	return nil
}

// attachFunctions attaches one program to all functions of some kprobes, or kretprobes.
func (a *attachments) attachFunctions(events []*event.Event) error {
	if len(events) == 0 {
		return nil
	}
	var addrs []uint64
	var ids []uint16
	for _, ev := range events {
		addrs = append(addrs, a.opts.Functions[ev.Probe])
		ids = append(ids, uint16(ev.Config))
	}
	if err := a.bpf.AttachFunctions(addrs, ids, events[0].Probe.Kind.Return()); err != nil {
		return &SamplerError{fmt.Sprintf("%s and %d others", events[0].Name, len(events)-1), err}
	}
	return nil
}

// Attach directs the samples of each recorded CPU to the CPU's ring; other rings contain side band only.
func (s *Sampler) Attach(mergers []*stacks.Merger) error {
	for _, n := range mergers {
		if !slices.Contains(s.opts.Recorded, n.Ring.CPU) || s.attrs == nil {
			continue
		}
		c, err := s.openOutput(n)
		if err != nil {
			return err
		}
		s.counters = append(s.counters, c)
	}
	return nil
}

// Reopen opens the output of a CPU again that is online again. group is the number of events. Histograms have no
// output.
func (s *Sampler) Reopen(n *stacks.Merger, group int) error {
	if s.attrs == nil {
		return nil
	}
	return reopen(s.counters, n, &s.attrs[0], group, s.openOutput)
}

// openOutput directs the samples of a ring's CPU to the ring.
func (s *Sampler) openOutput(n *stacks.Merger) (c perfevent.Counter, err error) {
	a := outputAttr(s.attrs, s.locate)
	fd, err := perfevent.Open(&a, -1, n.Ring.CPU, -1, 0)
	if err != nil {
		return c, fmt.Errorf("BPF output of CPU %d: %w", n.Ring.CPU, err)
	}
	if err := s.direct(fd, n, &a); err != nil {
		unix.Close(fd)
		return c, err
	}
	return perfevent.Counter{Event: s.first, CPU: n.Ring.CPU, TID: -1, FD: fd, ID: s.attrs[0].IDs[0]}, nil
}

// direct makes the programs write to a BPF output event, and the event to the ring.
func (s *Sampler) direct(fd int, n *stacks.Merger, a *format.Attr) error {
	if err := n.Ring.Attach(fd); err != nil {
		return err
	}
	id, err := perfevent.KernelID(fd)
	if err != nil {
		return err
	}
	like := &s.attrs[0]
	chains := like.SampleType&format.SampleCallchain != 0
	to := &s.attached
	o := &output{layout: format.NewSampleLayout(a), raw: to.raw, runners: to.runners, spans: to.spans,
		packets: to.packets, dropping: to.dropping,
		dropKernel: chains && withKernelFrames(*a) && s.userOnly,
		ipOnly:     !chains && a.SampleType&format.SampleCallchain != 0}
	e := stacks.NewEvent(a)
	e.Rewrite, e.Walked = o.rewrite, perfevent.Walked(like)
	n.Add(id, e)
	return s.bpf.SetOutput(n.Ring.CPU, fd)
}

// Enable starts or stops the programs, and those that walk stacks.
func (s *Sampler) Enable(on bool) error { return s.bpf.Enable(on) }

// PauseEvents stops the samples of the events that are off, while the programs make samples of the others.
func (s *Sampler) PauseEvents(events []event.Event, off []bool) error {
	for i := range events {
		if ev := &events[i]; ev.BPFSampled() && ev.OffCPU == 0 {
			if err := s.bpf.Pause(uint16(ev.Config), off[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Stats returns the programs' statistics.
func (s *Sampler) Stats() bpf.Stats { return s.bpf.Stats() }

// Counters implements Program.
func (s *Sampler) Counters() []perfevent.Counter { return s.counters }

// Tracepoints implements Program.
func (s *Sampler) Tracepoints() (own map[uint64]int, others []int) {
	return nil, s.attached.tracepoints
}

// Summary implements Program.
func (s *Sampler) Summary(sum *Summary) (err error) {
	if n := s.bpf.MissedCalls(); n > 0 {
		sum.AddMissedHits("functions with BPF programs", n)
	}
	sum.Spans, err = s.bpf.SpanStats()
	return err
}

// Close detaches the programs and closes the counters.
func (s *Sampler) Close() {
	s.bpf.Close()
	for _, c := range s.counters {
		unix.Close(c.FD)
	}
	for _, fd := range s.attached.tracepoints {
		unix.Close(fd)
	}
}

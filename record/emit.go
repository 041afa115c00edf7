package record

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/internal/procfs"
	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/probe"
	"gperf/record/probe/kernel"
)

// For some events, BPF programs make the samples (bpf.Emitter). The programs write to a BPF
// output event of each CPU, which has the sample type of the emitted event, so that the
// kernel adds the fields that all samples have. gperf then adds the event's id, which depends
// on the number at the beginning of the raw data, and the period. In the file the event is a
// tracepoint; neither that tracepoint nor the id exists in the kernel.

// emitter is the state of a recording's emitted events.
type emitter struct {
	bpf      *bpf.Emitter
	raw      map[uint64]kernel.Code // of raw tracepoints, by number: the function that calls several programs
	counters []perfevent.Counter    // the BPF output event of each CPU
	fds      []int                  // counters of the tracepoints whose own fields samples have
	j        joined                 // if user stacks are not walked
}

// Numbers of emitted events begin at the highest tracepoint number and go down: the kernel
// assigns the lowest free ones.
const (
	lastTracepoint = 1<<16 - 1
	maxEmitted     = 1 << 15
)

// emittedIDs is the lowest id of emitted events: the kernel counts from 1.
const emittedIDs = 1 << 62

// emittedID returns the id of the samples of an emitted event.
func emittedID(number uint64) uint64 { return emittedIDs | number }

// number numbers the emitted events.
func number(events []event.Event) error {
	taken := map[uint64]bool{}
	for i := range events {
		if ev := &events[i]; ev.Type == format.TypeTracepoint && !ev.BPFSampled() {
			taken[ev.Config] = true
		}
	}
	next := uint64(lastTracepoint)
	for i := range events {
		ev := &events[i]
		if !ev.BPFSampled() {
			continue
		}
		for taken[next] {
			next--
		}
		if next <= lastTracepoint-maxEmitted {
			return fmt.Errorf("%s: more than %d functions are too many for one recording", ev.Name, maxEmitted)
		}
		ev.Config = next
		next--
	}
	return nil
}

// formatOf returns the format text of an emitted event's raw data.
func formatOf(ev *event.Event) ([]byte, error) {
	if ev.Raw == nil {
		return ev.Probe.Format(uint16(ev.Config)), nil
	}
	l, err := ev.Raw.Layout()
	if err != nil {
		return nil, &EmitError{ev.Name, err}
	}
	return l.Format(uint16(ev.Config)), nil
}

// newEmitter attaches programs to the emitted events, if there are any, and directs the
// samples to the rings. The programs do nothing until they are enabled.
func (r *recorder) newEmitter() error {
	var raw, entered, returned []*event.Event
	for i := range r.set.Events {
		switch ev := &r.set.Events[i]; {
		case !ev.BPFSampled():
		case ev.Raw != nil:
			raw = append(raw, ev)
		case ev.Probe.Kind.Return():
			returned = append(returned, ev)
		default:
			entered = append(entered, ev)
		}
	}
	if len(raw)+len(entered)+len(returned) == 0 {
		return nil
	}
	if err := r.opts.ringsForBPF(); err != nil {
		return &EmitError{r.set.Events[0].Name, err}
	}
	cpus, err := bpf.NumCPU()
	if err != nil {
		return err
	}
	o := bpf.EmitterOptions{CPUs: cpus}
	if !r.opts.Target.byCPU() {
		for i := range r.set.Counters {
			o.PerTask = append(o.PerTask, r.set.Counters[i].ID)
		}
	}
	if r.dwarf != nil {
		o.Unwinder = r.dwarf.bpf
	}
	b, err := bpf.NewEmitter(o)
	if err != nil {
		return &EmitError{r.set.Events[0].Name, err}
	}
	r.emit = &emitter{bpf: b, raw: map[uint64]kernel.Code{}}
	iterators := findIterators(raw)
	for _, ev := range raw {
		r.emit.raw[ev.Config] = iterators[ev.Raw.Name]
		if err := r.emit.attachRaw(ev); err != nil {
			return err
		}
	}
	if len(raw) > 0 && !r.opts.each() {
		r.opts.notice(fmt.Errorf("%s has no frequency or period: recording each occurrence", raw[0].Name))
	}
	for _, l := range [][]*event.Event{entered, returned} {
		if err := r.emit.attachFunctions(l, r.functions); err != nil {
			return err
		}
	}
	return r.emit.attach(r)
}

// findIterators finds the functions that call several programs at raw tracepoints.
func findIterators(raw []*event.Event) map[string]kernel.Code {
	names := map[string]bool{}
	for _, ev := range raw {
		names[ev.Raw.Name] = true
	}
	if len(names) == 0 {
		return nil
	}
	kallsyms, err := os.Open(procfs.Kallsyms)
	if err != nil {
		return nil // then these functions remain as frames
	}
	defer kallsyms.Close()
	return kernel.Iterators(kallsyms, names)
}

// attachRaw attaches a program to a raw tracepoint.
func (e *emitter) attachRaw(ev *event.Event) error {
	l, err := ev.Raw.Layout()
	if err != nil {
		return &EmitError{ev.Name, err}
	}
	t := &bpf.RawTracepoint{Name: ev.Raw.Name, ID: uint16(ev.Config), Size: l.Size}
	for _, v := range l.Values {
		t.Values = append(t.Values, bpf.Value{Fetch: v.Fetch, At: v.At})
	}
	if t.Filter, err = emittedFilter(ev, l.Format(uint16(ev.Config))); err != nil {
		return &perfevent.FilterError{Event: ev.Name, Filter: ev.Filter, Err: err}
	}
	if l.OwnSize > 0 {
		a := format.Attr{Type: format.TypeTracepoint, Config: l.OwnID, SamplePeriod: 1, Flags: format.FlagDisabled}
		fd, err := perfevent.Open(&a, 0, -1, -1, 0)
		if err != nil {
			return &perfevent.OpenError{Event: *ev, CPU: -1, Err: err}
		}
		e.fds = append(e.fds, fd)
		t.Own = &bpf.Record{FD: fd, Size: l.OwnSize, Dynamic: l.Dynamic}
	}
	if err := e.bpf.AttachRawTracepoint(t); err != nil {
		return &EmitError{ev.Name, err}
	}
	return nil
}

// attachFunctions attaches one program to all functions of some kprobes, or kretprobes.
func (e *emitter) attachFunctions(events []*event.Event, at map[*probe.Probe]uint64) error {
	if len(events) == 0 {
		return nil
	}
	var addrs []uint64
	var ids []uint16
	for _, ev := range events {
		addrs = append(addrs, at[ev.Probe])
		ids = append(ids, uint16(ev.Config))
	}
	if err := e.bpf.AttachFunctions(addrs, ids, events[0].Probe.Kind.Return()); err != nil {
		return &EmitError{fmt.Sprintf("%s and %d others", events[0].Name, len(events)-1), err}
	}
	return nil
}

// attach directs the samples to the rings.
func (e *emitter) attach(r *recorder) error {
	for _, n := range r.joiners {
		if !slices.Contains(r.cpus, n.cpu) {
			continue // its ring has side band only
		}
		c, err := e.output(r, n)
		if err != nil {
			return err
		}
		e.counters = append(e.counters, c)
	}
	return nil
}

// output directs the samples of a joiner's CPU to its ring. The caller closes the counter.
func (e *emitter) output(r *recorder, n *joiner) (c perfevent.Counter, err error) {
	first := slices.IndexFunc(r.set.Events, func(ev event.Event) bool { return ev.BPFSampled() })
	a := outputAttr(&r.set.Attrs[first])
	fd, err := perfevent.Open(&a, -1, n.cpu, -1, 0)
	if err != nil {
		return c, fmt.Errorf("BPF output of CPU %d: %w", n.cpu, err)
	}
	c = perfevent.Counter{Event: first, CPU: n.cpu, TID: -1, FD: fd, ID: r.set.Attrs[first].IDs[0]}
	if err := e.direct(&c, n, &a, &r.set.Attrs[first]); err != nil {
		unix.Close(fd)
		return c, err
	}
	return c, nil
}

// direct makes the programs write to a BPF output event, and the event to the ring.
func (e *emitter) direct(c *perfevent.Counter, n *joiner, a, like *format.Attr) error {
	if err := n.ring.Attach(c.FD); err != nil {
		return err
	}
	id, err := perfevent.KernelID(c.FD)
	if err != nil {
		return err
	}
	l := newRingEvent(a)
	l.emitter, l.walked = e, perfevent.Walked(like)
	l.ipOnly = like.SampleType&format.SampleCallchain == 0
	n.events[id] = l
	return e.bpf.SetOutput(n.cpu, c.FD)
}

// outputAttr returns the attr of the BPF output event for samples of an emitted event.
func outputAttr(like *format.Attr) format.Attr {
	a := *like
	a.Type, a.Config, a.SamplePeriod = format.TypeSoftware, format.SWBPFOutput, 1
	a.Flags &= format.FlagUseClockID | format.FlagSampleIDAll | format.FlagExcludeCallchainUser | format.FlagExcludeCallchainKernel
	if a.SampleType&format.SampleCallchain == 0 { // the first frames locate the tracepoint
		a.SampleType |= format.SampleCallchain
		a.Flags |= format.FlagExcludeCallchainUser
		a.SampleMaxStack = ownFrames + 2
	}
	return a
}

// become turns a program's sample into one of its event. Other records stay unchanged: the
// file's reader reports them.
func (e *emitter) become(rec []byte, l *ringEvent) []byte {
	le := binary.LittleEndian
	raw, chain := l.Raw(rec[format.HeaderSize:]), l.callchain(rec)
	if raw < 0 || raw+4+2 > len(rec)-format.HeaderSize {
		return rec
	}
	raw += format.HeaderSize
	frames := uint64(0)
	if chain >= 0 {
		frames = le.Uint64(rec[chain:])
	}
	number := uint64(le.Uint16(rec[raw+4:]))
	le.PutUint64(rec[format.HeaderSize+l.ID:], emittedID(number))
	if l.Period >= 0 {
		le.PutUint64(rec[format.HeaderSize+l.Period:], 1)
	}
	own := uint64(0)
	first := chain + 8 + 8 // first frame, after PERF_CONTEXT_KERNEL
	if iterator, is := e.raw[number]; is && frames > 1+ownFrames && le.Uint64(rec[first-8:]) == format.ContextKernel {
		own = ownFrames
		if iterator.Has(le.Uint64(rec[first+8*ownFrames:])) && frames > 1+own+1 {
			own++
		}
		le.PutUint64(rec[format.HeaderSize+l.IP:], le.Uint64(rec[first+8*int(own):]))
	}
	switch {
	case l.ipOnly:
		rec = slices.Delete(rec, chain, raw)
	case own > 0:
		le.PutUint64(rec[chain:], frames-own)
		rec = slices.Delete(rec, first, first+8*int(own))
	}
	le.PutUint16(rec[6:], uint16(len(rec)))
	return rec
}

// ownFrames is the number of innermost frames of a raw tracepoint's sample that do not belong
// to its callers: the BPF program and the function that runs it. If several programs run, the
// function that calls them follows.
const ownFrames = 2

// drain passes the rings' records to write, if user stacks are not walked.
func (e *emitter) drain(joiners []*joiner, write func([]byte) error) (total int, err error) {
	for _, n := range joiners {
		head := n.ring.Written()
		if head == n.ring.Read {
			continue
		}
		n.join(&e.j, head)
		if err := e.j.write(n.tally, write); err != nil {
			return total, err
		}
		total += int(head - n.ring.Read)
		n.ring.Release(head)
	}
	return total, nil
}

func (e *emitter) close() {
	e.bpf.Close()
	for _, c := range e.counters {
		unix.Close(c.FD)
	}
	for _, fd := range e.fds {
		unix.Close(fd)
	}
}

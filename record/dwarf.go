package record

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/event"
	"gperf/unwind"
)

// dwarf is a recording's user stacks, walked by BPF. For each drain it reads
// the side band first, then joins what the rings have, and then walks in Go what BPF
// could not: with the mappings as they were at the sample's time, and as soon as
// the tables are there. What BPF needs for the next samples it is given at once.
type dwarf struct {
	bpf         *bpf.Unwinder
	tracepoints map[uint64]int  // by config: the counter that a program is attached to
	probes      map[uint64]bool // tracepoints that are kprobes and uprobes
	joiners     []*joiner
	scanned     []uint64 // by ring: side band up to there is in side
	types       map[uint64]format.SampleType
	fds         []int // of the BPF output events
	j           joined
	side        []sideRecord // not yet told to procs, by time
	procs       *tracker
	last        uint64 // of the side band that is in the rings ahead of what was joined
	builder     *builder
	madeRoom    time.Time // among the tables
	held        []held
	heldBytes   int
	waiting     uint64    // samples that are counted, and were still held after the last write
	swept       time.Time // when prune last looked at all files
	walker      unwind.Unwinder
	view        view
	frames      []unwind.Frame
	maps        []bpf.Mapping
	words       []byte
	sum         UnwindSummary
	incomplete  incomplete
	verbose     func(string)
	copied      [bpf.NumEnds]uint64 // by why BPF sent them
	copiedBytes uint64
}

// UnwindSummary is what became of the user stacks.
type UnwindSummary struct {
	Complete uint64              // reached the outermost frame
	None     uint64              // there was no user stack: kernel threads, processes in exec or exit
	Early    [bpf.NumEnds]uint64 // ended before, by why
	Copied   uint64              // of all these, walked outside of the kernel
	Missing  uint64              // samples without anything from BPF
	Missed   uint64              // samples lost because another BPF program was running
	Tables   uint64              // made
	Failed   uint64              // files without a usable table
	// Incomplete counts what ended early by cause and place, the highest count first.
	Incomplete []Incomplete
}

// newDWARF loads the programs for the events.
func newDWARF(o *Options, events []event.Event, attrs []format.Attr) (*dwarf, error) {
	if err := o.ringsForBPF(); err != nil {
		return nil, err
	}
	cpus, err := bpf.NumCPU()
	if err != nil {
		return nil, err
	}
	d := &dwarf{tracepoints: map[uint64]int{}, probes: map[uint64]bool{}, types: map[uint64]format.SampleType{}, incomplete: incomplete{}, verbose: o.Verbose}
	var programs []bpf.Program
	for i := range events {
		if events[i].Tracepoint != "" {
			d.probes[events[i].Config] = o.Tracefs.IsProbe(events[i].Tracepoint)
		}
		if p, ok := d.program(&events[i], &attrs[i]); ok && !slices.Contains(programs, p) {
			programs = append(programs, p)
		}
	}
	u, err := bpf.Load(bpf.Options{Programs: programs, CPUs: cpus, PerTask: !o.Target.byCPU()})
	if err != nil {
		return nil, err
	}
	d.bpf = u
	d.procs = newTracker(d.gone)
	d.walker.MaxDepth = bpf.MaxFrames
	return d, nil
}

// program is what an event's stacks are walked by, if they are.
func (d *dwarf) program(e *event.Event, a *format.Attr) (bpf.Program, bool) {
	switch {
	case !walked(a), emitted(e):
		return "", false
	case e.Type == format.TypeTracepoint && d.probes[e.Config]:
		return bpf.OnProbe, true
	case e.Type == format.TypeTracepoint:
		return bpf.OnTracepoint, true
	}
	return bpf.OnEvent, true
}

// attach has the BPF programs run for the counters, and their output come to
// the rings.
func (d *dwarf) attach(r *recorder) error {
	for i := range r.attrs {
		for _, id := range r.attrs[i].IDs {
			d.types[id] = r.attrs[i].SampleType
		}
	}
	d.procs.buildIDs = r.kernelBuildIDs()
	d.joiners = r.joiners
	for _, n := range d.joiners {
		if err := d.output(n, &r.attrs[0]); err != nil {
			return err
		}
		d.scanned = append(d.scanned, n.ring.read)
	}
	d.builder = newBuilder(r.signal)
	return nil
}

// output makes what BPF finds on a joiner's CPU come to its ring.
func (d *dwarf) output(n *joiner, like *format.Attr) error {
	var fds [2]int
	for i, wakeups := range [2]uint32{0, 1} { // frames can wait; a copy means that something is missing
		c, err := d.openOutput(n.ring, n.cpu, wakeups, like)
		if err != nil {
			return fmt.Errorf("BPF output of CPU %d: %w", n.cpu, err)
		}
		id, err := c.id()
		if err != nil {
			return err
		}
		n.events[id] = sampleLayout{output: true, chain: -1}
		fds[i] = c.fd
	}
	if err := d.bpf.SetOutput(n.cpu, fds[0], fds[1]); err != nil {
		return err
	}
	d.bpf.SetCopyRoom(n.cpu, len(n.ring.data)/copyShare)
	return nil
}

// opened has a program run for a counter, as soon as there is one: what inherits
// the counter from then on has the program too.
func (d *dwarf) opened(ev *event.Event, a *format.Attr, c *counter) error {
	p, ok := d.program(ev, a)
	switch {
	case !ok:
		return nil
	case ev.Type == format.TypeTracepoint:
		return d.openedTracepoint(ev, p)
	}
	return d.bpf.Attach(c.fd, p)
}

// openedTracepoint has a program run for a tracepoint or probe. It is attached once, to
// a counter that is there for nothing else: since about Linux 6.10, the
// program goes as soon as the first counter goes that inherited from the one it
// is attached to.
func (d *dwarf) openedTracepoint(ev *event.Event, p bpf.Program) error {
	if _, attached := d.tracepoints[ev.Config]; attached {
		return nil
	}
	a := format.Attr{Type: ev.Type, Config: ev.Config, SamplePeriod: 1, Flags: format.FlagDisabled}
	fd, err := perfEventOpen(&a, 0, -1, -1, 0)
	if err != nil {
		return err
	}
	d.tracepoints[ev.Config] = fd
	return d.bpf.Attach(fd, p)
}

// fileAttrs are the attrs as the file has them: the samples' callchains have
// their user part, whoever found it.
func (r *recorder) fileAttrs() []format.Attr {
	l := slices.Clone(r.attrs)
	for i := range l {
		l[i] = r.opts.kernelChain(l[i])
		if r.opts.KernelChain || l[i].SampleType&format.SampleStackUser != 0 || l[i].Flags&format.FlagExcludeCallchainUser == 0 {
			continue
		}
		l[i].Flags &^= format.FlagExcludeCallchainUser
		if l[i].SampleMaxStack == 0 {
			l[i].SampleMaxStack = bpf.MaxFrames
		}
	}
	return l
}

// holds tells whether samples of the round are still to be written.
func (r *recorder) holds() bool { return r.dwarf != nil && len(r.dwarf.held) > 0 }

// newJoiners sets up what takes the records out of the rings, where these have
// others than the file is to have.
func (r *recorder) newJoiners() {
	events := map[uint64]sampleLayout{}
	for i := range r.attrs {
		l := newSampleLayout(&r.attrs[i])
		for _, id := range r.attrs[i].IDs {
			events[id] = l
		}
	}
	first := &r.attrs[0]
	trailer := first.SampleType
	if first.Flags&format.FlagSampleIDAll == 0 {
		trailer = 0
	}
	for _, ring := range r.rings {
		r.joiners = append(r.joiners, &joiner{ring: ring, cpu: ring.cpu, self: int32(os.Getpid()), first: first.IDs[0], trailer: trailer, events: events, tally: &r.tally})
	}
}

// copyShare is into how many parts a ring is divided, of which copies of stacks
// may take one, and another while the first is being taken out: in a burst of
// samples that nobody can walk yet, the samples themselves must find a place.
const copyShare = 4

// openOutput opens an event that BPF programs write to, on a ring.
func (d *dwarf) openOutput(ring *Ring, cpu int, wakeups uint32, like *format.Attr) (*counter, error) {
	a := format.Attr{Type: format.TypeSoftware, Config: event.BPFOutput, SampleType: outputSample, SamplePeriod: 1, Wakeup: wakeups,
		Flags: like.Flags & format.FlagUseClockID, ClockID: like.ClockID}
	fd, err := perfEventOpen(&a, -1, cpu, -1, 0)
	if err != nil {
		return nil, err
	}
	d.fds = append(d.fds, fd)
	if err := ring.attach(fd); err != nil {
		return nil, err
	}
	return &counter{cpu: cpu, tid: -1, fd: fd}, nil
}

func (d *dwarf) close() {
	if d.builder != nil {
		d.builder.close()
	}
	for _, fd := range d.fds {
		unix.Close(fd)
	}
	for _, fd := range d.tracepoints {
		unix.Close(fd)
	}
	d.bpf.Close()
}

// drain moves what is in the rings to write.
func (d *dwarf) drain(write func([]byte) error) (total int, err error) {
	heads := make([]uint64, len(d.joiners))
	for i, n := range d.joiners {
		heads[i] = n.ring.written()
	}
	for i := range d.joiners {
		d.scan(i, heads[i])
	}
	for i := range d.side {
		d.last = max(d.last, d.side[i].time)
	}
	// What happened before a sample on another CPU may have been written after the
	// other ring's head was read: it is there by now.
	for i, n := range d.joiners {
		d.scan(i, n.ring.written())
	}
	slices.SortStableFunc(d.side, func(a, b sideRecord) int { return cmp.Compare(a.time, b.time) })
	d.j.out = d.j.out[:0]
	before := *d.joiners[0].tally
	for i, n := range d.joiners {
		size := int(heads[i] - n.ring.read)
		if size == 0 {
			continue
		}
		total += size
		n.join(&d.j, heads[i])
		// What was in the ring is copied: the next samples need not wait for the
		// walks and tables below.
		n.ring.release(heads[i])
		d.bpf.SetCopyRoom(n.cpu, len(n.ring.data)/copyShare)
	}
	d.walkMissed()
	d.tablesDone()
	d.publish()
	d.prune(time.Now())
	if len(d.j.out) > 0 {
		if err := write(d.j.out); err != nil {
			*d.joiners[0].tally = before // what was not written does not count
			return 0, err
		}
	}
	d.waiting = uint64(len(d.held))
	return total, nil
}

// holdsBefore returns whether samples of before a time wait for tables.
func (d *dwarf) holdsBefore(t time.Time) bool { return len(d.held) > 0 && d.held[0].since.Before(t) }

// ran tells how long BPF programs took.
func ran(which string, st bpf.Stats) string {
	return fmt.Sprintf("%sBPF programs ran %d times, %d ns each", which, st.Runs, uint64(st.RunTime)/st.Runs)
}

// finish adds what counts at the end, when everything is written.
func (d *dwarf) finish() {
	for end, n := range d.copied {
		if n > 0 {
			d.tellVerbose(fmt.Sprintf("%d stacks unwound in user space: %v", n, bpf.End(end)))
		}
	}
	d.tellVerbose(fmt.Sprintf("copies of stacks: %d bytes", d.copiedBytes))
	d.tellVerbose(fmt.Sprintf("%d stacks walked for what was not recorded: not yet, or by filters and cgroups", d.j.unused))
	st := d.bpf.Stats()
	if st.Runs > 0 {
		d.tellVerbose(ran("", st))
	}
	d.sum.Incomplete = d.incomplete.list()
	d.sum.Missing, d.sum.Missed, d.sum.Early = d.j.single, st.Missed, d.j.ends
	d.sum.Complete, d.sum.Early[bpf.EndEntry] = d.j.ends[bpf.EndEntry], 0
	d.sum.None, d.sum.Early[bpf.EndNoUser] = d.j.ends[bpf.EndNoUser], 0
}

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
	"gperf/record/perfevent"
	"gperf/unwind"
)

// dwarf is the state of a recording whose user stacks BPF walks. For each drain it reads the
// side band first, then joins the rings' records, and then walks in Go the stacks that BPF
// could not walk: with the mappings at the sample's time, as soon as the tables are
// available. It passes tables and mappings to BPF at once, for the next samples.
type dwarf struct {
	bpf         *bpf.Unwinder
	tracepoints map[uint64]int  // by config: the counter with the program
	probes      map[uint64]bool // tracepoints that are kprobes and uprobes
	joiners     []*joiner
	scanned     []uint64 // by ring: position up to which side has its side band
	types       map[uint64]format.SampleType
	fds         []int // of the BPF output events
	j           joined
	side        []sideRecord // not yet applied to procs, by time
	procs       *tracker
	last        uint64 // time of the newest side-band record in the rings before the joined records
	builder     *builder
	madeRoom    time.Time // when tables were last removed from BPF
	held        []held
	heldBytes   int
	swept       time.Time // when prune last checked all files
	walker      unwind.Unwinder
	view        view
	frames      []unwind.Frame
	maps        []bpf.Mapping
	words       []byte
	sum         UnwindSummary
	incomplete  incomplete
	verbose     func(string)
	copied      [bpf.NumEnds]uint64 // by reason
	copiedBytes uint64
}

// UnwindSummary counts how the walks of user stacks ended.
type UnwindSummary struct {
	Complete uint64              // reached the outermost frame
	None     uint64              // no user stack: kernel threads, processes in exec or exit
	Early    [bpf.NumEnds]uint64 // ended before, by reason
	Copied   uint64              // of all these, walked in user space
	Missing  uint64              // samples without a stack from BPF
	Missed   uint64              // samples lost because another BPF program was running
	Tables   uint64              // made
	Failed   uint64              // files without a usable table
	// Incomplete counts incomplete stacks by cause and place, the highest count first.
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

// program returns the BPF program that walks an event's stacks, and whether there is one.
func (d *dwarf) program(e *event.Event, a *format.Attr) (bpf.Program, bool) {
	switch {
	case !perfevent.Walked(a), e.BPFSampled():
		return "", false
	case e.Type == format.TypeTracepoint && d.probes[e.Config]:
		return bpf.OnProbe, true
	case e.Type == format.TypeTracepoint:
		return bpf.OnTracepoint, true
	}
	return bpf.OnEvent, true
}

// attach attaches the BPF programs to the counters, and directs their output to the rings.
func (d *dwarf) attach(r *recorder) error {
	for i := range r.set.Attrs {
		for _, id := range r.set.Attrs[i].IDs {
			d.types[id] = r.set.Attrs[i].SampleType
		}
	}
	d.procs.buildIDs = r.kernelBuildIDs()
	d.joiners = r.joiners
	for _, n := range d.joiners {
		if err := d.output(n, &r.set.Attrs[0]); err != nil {
			return err
		}
		d.scanned = append(d.scanned, n.ring.Read)
	}
	d.builder = newBuilder(r.signal)
	return nil
}

// output directs the stacks that BPF walks on a joiner's CPU to its ring.
func (d *dwarf) output(n *joiner, like *format.Attr) error {
	var fds [2]int
	for i, wakeups := range [2]uint32{0, 1} { // frames can wait; a copy means that a table is missing
		fd, err := d.openOutput(n.ring, n.cpu, wakeups, like)
		if err != nil {
			return fmt.Errorf("BPF output of CPU %d: %w", n.cpu, err)
		}
		id, err := perfevent.KernelID(fd)
		if err != nil {
			return err
		}
		n.events[id] = outputEvent
		fds[i] = fd
	}
	if err := d.bpf.SetOutput(n.cpu, fds[0], fds[1]); err != nil {
		return err
	}
	d.bpf.SetCopyRoom(n.cpu, n.ring.Size()/copyShare)
	return nil
}

// opened attaches a program to a counter right after it is opened: counters inherited from it
// from then on have the program too.
func (d *dwarf) opened(ev *event.Event, a *format.Attr, c *perfevent.Counter) error {
	p, ok := d.program(ev, a)
	switch {
	case !ok:
		return nil
	case ev.Type == format.TypeTracepoint:
		return d.openedTracepoint(ev, p)
	}
	return d.bpf.Attach(c.FD, p)
}

// openedTracepoint attaches a program to a tracepoint or probe. It attaches the program once,
// to a counter of its own: since about Linux 6.10, the kernel detaches the program as soon as
// the first counter closes that was inherited from the program's counter.
func (d *dwarf) openedTracepoint(ev *event.Event, p bpf.Program) error {
	if _, attached := d.tracepoints[ev.Config]; attached {
		return nil
	}
	a := format.Attr{Type: ev.Type, Config: ev.Config, SamplePeriod: 1, Flags: format.FlagDisabled}
	fd, err := perfevent.Open(&a, 0, -1, -1, 0)
	if err != nil {
		return err
	}
	d.tracepoints[ev.Config] = fd
	return d.bpf.Attach(fd, p)
}

// fileAttrs returns the attrs for the file: there the samples' callchains have their user
// part, from the kernel or from BPF.
func (r *recorder) fileAttrs() []format.Attr {
	l := slices.Clone(r.set.Attrs)
	for i := range l {
		l[i] = r.set.ForKernel(l[i])
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

// holds reports whether samples of the round are still to be written.
func (r *recorder) holds() bool { return r.dwarf != nil && len(r.dwarf.held) > 0 }

// newJoiners sets up the joiners, if the records of the rings differ from those of the file.
func (r *recorder) newJoiners() {
	events := map[uint64]ringEvent{}
	for i := range r.set.Attrs {
		l := newRingEvent(&r.set.Attrs[i])
		for _, id := range r.set.Attrs[i].IDs {
			events[id] = l
		}
	}
	first := &r.set.Attrs[0]
	trailer := first.SampleType
	if first.Flags&format.FlagSampleIDAll == 0 {
		trailer = 0
	}
	for _, ring := range r.rings {
		r.joiners = append(r.joiners, &joiner{ring: ring, cpu: ring.CPU, self: int32(os.Getpid()), first: first.IDs[0], trailer: trailer, events: events, tally: &r.tally})
	}
}

// copyShare limits copies of stacks to one part in copyShare of a ring, and another while the
// first is being read: in a burst of samples without tables, there must be room for the
// samples themselves.
const copyShare = 4

// openOutput opens an event for the output of BPF programs, on a ring.
func (d *dwarf) openOutput(ring *perfevent.Ring, cpu int, wakeups uint32, like *format.Attr) (int, error) {
	a := format.Attr{Type: format.TypeSoftware, Config: format.SWBPFOutput, SampleType: outputSample, SamplePeriod: 1, Wakeup: wakeups,
		Flags: like.Flags & format.FlagUseClockID, ClockID: like.ClockID}
	fd, err := perfevent.Open(&a, -1, cpu, -1, 0)
	if err != nil {
		return -1, err
	}
	d.fds = append(d.fds, fd)
	return fd, ring.Attach(fd)
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

// drain passes the rings' records to write.
func (d *dwarf) drain(write func([]byte) error) (total int, err error) {
	heads := make([]uint64, len(d.joiners))
	for i, n := range d.joiners {
		heads[i] = n.ring.Written()
	}
	for i := range d.joiners {
		d.scan(i, heads[i])
	}
	for i := range d.side {
		d.last = max(d.last, d.side[i].time)
	}
	// A record on another CPU that precedes a sample in time may have been written after that
	// ring's head was read: it is there now.
	for i, n := range d.joiners {
		d.scan(i, n.ring.Written())
	}
	slices.SortStableFunc(d.side, func(a, b sideRecord) int { return cmp.Compare(a.time, b.time) })
	for i, n := range d.joiners {
		size := int(heads[i] - n.ring.Read)
		if size == 0 {
			continue
		}
		total += size
		n.join(&d.j, heads[i])
		// The ring's data is copied: the next samples need not wait for the walks and tables
		// below.
		n.ring.Release(heads[i])
		d.bpf.SetCopyRoom(n.cpu, n.ring.Size()/copyShare)
	}
	d.walkMissed()
	d.tablesDone()
	d.publish()
	d.prune(time.Now())
	return total, d.j.write(d.joiners[0].tally, write)
}

// holdsBefore reports whether samples of before a time wait for tables.
func (d *dwarf) holdsBefore(t time.Time) bool { return len(d.held) > 0 && d.held[0].since.Before(t) }

// ran returns a message with the run time of BPF programs.
func ran(which string, st bpf.Stats) string {
	return fmt.Sprintf("%sBPF programs ran %d times, %d ns each", which, st.Runs, uint64(st.RunTime)/st.Runs)
}

// finish adds the final counts, when everything is written.
func (d *dwarf) finish() {
	for end, n := range d.copied {
		if n > 0 {
			d.tellVerbose(fmt.Sprintf("%d stacks unwound in user space: %v", n, bpf.End(end)))
		}
	}
	d.tellVerbose(fmt.Sprintf("copies of stacks: %d bytes", d.copiedBytes))
	d.tellVerbose(fmt.Sprintf("%d stacks walked without a sample: before the start, or excluded by filters and cgroups", d.j.unused))
	st := d.bpf.Stats()
	if st.Runs > 0 {
		d.tellVerbose(ran("", st))
	}
	d.sum.Incomplete = d.incomplete.list()
	d.sum.Missing, d.sum.Missed, d.sum.Early = d.j.single, st.Missed, d.j.ends
	d.sum.Complete, d.sum.Early[bpf.EndEntry] = d.j.ends[bpf.EndEntry], 0
	d.sum.None, d.sum.Early[bpf.EndNoUser] = d.j.ends[bpf.EndNoUser], 0
}

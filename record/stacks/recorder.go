package stacks

import (
	"gperf/bpf"
	"gperf/format"
	"gperf/record/event"
	"gperf/record/names"
	"gperf/record/tracefs"
)

// Options define how user stacks are walked.
type Options struct {
	// NoRuntimes leaves out the functions of interpreters.
	NoRuntimes bool
	// NoCache leaves perf's build-ID cache as it is: the recording contains the names of functions of interpreters.
	NoCache bool
	// Pipe means that the recording is read while it is made.
	Pipe    bool
	PerTask bool // threads are recorded, rather than CPUs
	// Cgroups, if not nil, are IDs of cgroups: only tasks in these, and below them, are recorded.
	Cgroups []uint64
	Tracefs *tracefs.FS
	// Verbose receives messages about programs and tables.
	Verbose func(msg string)
	// Progress receives the progress of a step that can take long: n of so many.
	Progress func(step string, n, of int)
	// Hurry, when it is closed, ends waiting for unwind tables.
	Hurry <-chan struct{}
	// Affords, if set, saves CPU time: only samples request unwind tables, and no sample wakes the recorder. It reports
	// whether there is CPU time to build a table. Otherwise walks follow frame pointers meanwhile.
	Affords func() bool
	// Lean saves memory: tables are built one by one, and nothing else of the files is kept.
	Lean bool
	// Rows is the number of rows of all unwind tables together; 0: bpf.MaxRows.
	Rows uint32
}

// isHurried reports whether the caller closed Hurry.
func (o *Options) isHurried() bool {
	select {
	case <-o.Hurry:
		return true
	default:
		return false
	}
}

// Recorder walks the user stacks of a recording's samples. As a source, it writes samples merged with stacks.
//
// New loads the BPF programs. Opened attaches them to counters as these are opened. Attach directs the programs'
// output to the rings, which must exist by then. The programs do nothing until they are enabled.
type Recorder struct {
	opts Options
	eventPrograms
	outputs Outputs
	like    format.Attr // of the first event: the output events use the same clock

	mergers  []*Merger
	merged   Merged
	side     sideBand
	procs    *registry
	tables   tables
	resolver resolver
	names    *interpreted // nil: functions of interpreters are not recorded
	heads    []uint64     // reused
}

// New loads the programs for the events.
func New(o Options, events []event.Event, attrs []format.Attr) (*Recorder, error) {
	cpus, err := bpf.NumCPU()
	if err != nil {
		return nil, err
	}
	r := &Recorder{opts: o, eventPrograms: eventPrograms{tracepoints: map[uint64]int{}, probes: map[uint64]bool{}}}
	u, err := bpf.Load(bpf.Options{Programs: r.needed(o.Tracefs, events, attrs), CPUs: cpus, PerTask: o.PerTask,
		Cgroups: o.Cgroups, Rows: o.Rows})
	if err != nil {
		return nil, err
	}
	r.init(u)
	return r, nil
}

// init connects the parts of the recorder.
func (r *Recorder) init(u *bpf.Unwinder) {
	r.bpf = u
	r.side.types = map[uint64]format.SampleType{}
	r.procs = newRegistry(u, r.opts.Verbose)
	r.tables = tables{bpf: u, procs: r.procs, affords: r.opts.Affords}
	r.resolver = resolver{merged: &r.merged, side: &r.side, procs: r.procs, tables: &r.tables,
		incomplete: placeCounts{}}
	if !r.opts.NoRuntimes {
		r.procs.interpreters = true
		r.names = &interpreted{procs: r.procs, set: names.New(), carry: r.opts.Pipe || r.opts.NoCache,
			noCache: r.opts.NoCache, missing: map[use]uint64{}}
		r.merged.names = r.names
	}
	r.resolver.walker.MaxDepth = bpf.MaxFrames
}

// SetLate makes Drain call a function after merging all rings. The function may add samples.
func (r *Recorder) SetLate(late func(*Merged)) { r.merged.SetLate(late) }

// BPF returns the programs, for other programs that walk stacks with the same data.
func (r *Recorder) BPF() *bpf.Unwinder { return r.bpf }

// Attach directs the programs' output to the rings of mergers. attrs are the events' attrs, with ids. buildIDs is
// true if side-band records contain build IDs. wake is called on other goroutines, when unwind tables are built
// and when functions are to be read again.
func (r *Recorder) Attach(mergers []*Merger, attrs []format.Attr, buildIDs bool, wake func()) error {
	for i := range attrs {
		for _, id := range attrs[i].IDs {
			r.side.types[id] = attrs[i].SampleType
		}
	}
	r.procs.tracker.buildIDs, r.side.copies.BuildIDs = buildIDs, buildIDs
	r.mergers, r.like = mergers, attrs[0]
	r.heads = make([]uint64, len(mergers))
	for _, n := range mergers {
		if err := r.OpenOutput(n); err != nil {
			return err
		}
		r.side.scanned = append(r.side.scanned, n.Ring.Read)
	}
	var keeper *keeper
	if !r.opts.NoCache {
		keeper = newKeeper()
	}
	r.tables.builder = newBuilder(wake, r.opts.Lean, keeper)
	if r.names != nil && r.opts.Affords == nil {
		r.names.wake = wake
	}
	return nil
}

// copyShare limits copies of stacks to one part in copyShare of a ring, and another while the
// first is being read: in a burst of samples without tables, there must be room for the
// samples themselves.
const copyShare = 4

// OpenOutput directs the stacks that BPF walks on the CPU of a ring to the ring.
func (r *Recorder) OpenOutput(n *Merger) error {
	fds := make([]int, 2)
	wakeups := [2]uint32{0, 1} // frames can wait; copies may mean that a table is missing
	if r.opts.Affords != nil {
		wakeups[1] = 0
	}
	for i, wakeups := range wakeups {
		fd, id, err := OpenOutput(n.Ring, &r.like, wakeups)
		if err != nil {
			return err
		}
		n.Add(id, outputEvent)
		fds[i] = fd
	}
	if err := r.bpf.SetOutput(n.Ring.CPU, fds[0], fds[1]); err != nil {
		return err
	}
	r.outputs.Replace(n.Ring.CPU, fds)
	r.allowCopies(n)
	return nil
}

// allowCopies renews the number of bytes of stack copies that BPF may write to a ring.
func (r *Recorder) allowCopies(n *Merger) {
	r.bpf.SetCopyRoom(n.Ring.CPU, n.Ring.Size()/copyShare)
}

// Enable starts or stops the programs: those at tracepoints and probes run whether or not a
// counter is enabled.
func (r *Recorder) Enable(on bool) error { return r.bpf.Enable(on) }

// Learn applies synthesized records, with a sample id of idSize bytes, to the processes.
func (r *Recorder) Learn(b []byte, idSize int) { r.procs.learn(b, idSize) }

// Forget makes the recorder read the mappings of processes again, because the side band was not recorded for a
// while.
func (r *Recorder) Forget() { r.procs.tracker.forget() }

// Close frees the programs and closes the programs' counters.
func (r *Recorder) Close() {
	if r.tables.builder != nil {
		r.tables.builder.close()
	}
	r.outputs.Close()
	r.eventPrograms.close()
}

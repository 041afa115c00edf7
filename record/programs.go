package record

import (
	"fmt"
	"slices"

	"gperf/internal/procfs"
	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/probe"
	"gperf/record/probe/program"
	"gperf/record/programs"
	"gperf/record/stacks"
)

// bpfPrograms are the BPF programs of a recording.
type bpfPrograms struct {
	all     programs.All
	mergers []*stacks.Merger // by ring; nil without programs
	unsaved bool             // functions of interpreters or files could not be stored, which was reported

	// Those of all that the recorder asks for more. nil: the recording has none.
	walker  *programs.Walk
	sampler *programs.Sampler
	offcpu  *programs.OffCPU
	counts  *programs.Counter
}

// loadWalker loads the programs that walk user stacks.
func (p *bpfPrograms) loadWalker(o *plan, set *perfevent.Set) error {
	if err := o.ringsForBPF(); err != nil {
		return err
	}
	limit := procfs.MemoryLimit()
	if limit < leastMemory {
		return &SmallMemoryError{limit}
	}
	rec, err := stacks.New(stacks.Options{PerTask: !o.Target.byCPU(), Cgroups: o.cgroups, Tracefs: o.Tracefs,
		Verbose: o.verbose, Progress: o.progress, Hurry: o.Hurry, Affords: o.affords,
		Lean: o.affords != nil || limit < smallMemory,
		Rows: rowsWithin(limit), NoRuntimes: o.Stacks.NoRuntimes, NoCache: o.Output.NoBuildIDCache,
		Pipe: o.pipe()}, set.Events, set.Attrs)
	if err != nil {
		return err
	}
	p.walker = &programs.Walk{Recorder: rec}
	p.all = append(p.all, p.walker)
	if !o.Count {
		set.Opened = rec.Opened
	}
	return nil
}

// loadCounts loads the programs that count, before the counters of these threads and CPUs are opened.
func (p *bpfPrograms) loadCounts(o *plan, set *perfevent.Set, cpus, threads []int) (err error) {
	if err := o.ringsForBPF(); err != nil {
		return err
	}
	for i := range set.Events {
		if ev := &set.Events[i]; ev.BPFSampled() && ev.OffCPU == 0 {
			return &CountError{ev.Name, "so many functions at once are not counted, use fewer"}
		}
	}
	opts := programs.CounterOptions{Events: set.Events, Attrs: set.Attrs, PerTask: !o.Target.byCPU(),
		Counters: len(set.Events) * max(1, len(set.SideBandCPUs)) * max(1, len(threads)), CPUs: cpus,
		Cgroups: o.cgroups, KernelChain: o.Stacks.KernelChain, Tracefs: o.Tracefs}
	if p.walker != nil {
		opts.Unwinder = p.walker.BPF()
	}
	if p.counts, err = programs.NewCounter(opts); err != nil {
		return err
	}
	p.all = append(p.all, p.counts)
	set.Opened = p.counts.Opened
	return nil
}

// attach loads the other programs, directs the output of all to the rings, and returns the source of samples. The
// rings must exist, and the attrs must have ids.
func (p *bpfPrograms) attach(r *opened) (source, error) {
	samples := programs.MakesSamples(r.set.Events)
	if len(p.all) == 0 && !samples && !r.opts.OffCPU {
		if r.opts.Overwrite {
			return perfevent.NewOverwritten(r.rings, r.tally), nil
		}
		return perfevent.NewSource(r.rings, r.tally), nil
	}
	p.mergers = stacks.NewMergers(r.rings, r.set.Attrs, r.tally)
	if samples {
		if err := p.loadSampler(r.opts, r.set, r.probes.functions, r.cpus); err != nil {
			return nil, err
		}
	}
	if r.opts.OffCPU {
		if err := p.loadOffCPU(r.opts, r.set, r.cpus); err != nil {
			return nil, err
		}
	}
	if p.counts != nil {
		if err := p.counts.SetIDs(counterIDs(r.set), r.set.Attrs); err != nil {
			return nil, err
		}
	}
	var src mergedSource = programs.NewSource(p.mergers, r.tally)
	if w := p.walker; w != nil {
		w.Attrs, w.BuildIDs, w.Wake = r.set.Attrs, kernelBuildIDs(r.set.Attrs), r.poller.signal
		src = w
	}
	if err := p.all.Attach(p.mergers); err != nil {
		return nil, err
	}
	src.SetLate(p.all.Late)
	return src, nil
}

// mergedSource is a source that may get samples from all rings together.
type mergedSource interface {
	source
	SetLate(func(*stacks.Merged))
}

// loadOffCPU loads the program that records waits.
func (p *bpfPrograms) loadOffCPU(o *plan, set *perfevent.Set, cpus []int) (err error) {
	if err := o.ringsForBPF(); err != nil {
		return &programs.SamplerError{Event: event.OffCPU.Name, Err: err}
	}
	at := indexOf(set.Events, event.Waits)
	opts := programs.OffCPUOptions{CPUs: cpus, Cgroups: o.cgroups, Threshold: o.OffCPUThreshold,
		KernelChain: o.Stacks.KernelChain, Event: at, Attr: set.Attrs[at]}
	if o.OffCPUWaker {
		opts.Waker, opts.LongWakers = &set.Attrs[indexOf(set.Events, event.Wakers)], o.LongWakers
	}
	if o.Goroutines != nil {
		opts.Goroutines = &set.Attrs[indexOf(set.Events, event.GoroutineWaits)]
		found, closeFiles, err := goPrograms(o)
		defer closeFiles()
		if err != nil {
			return err
		}
		opts.GoPrograms = found
	}
	if !o.Target.byCPU() {
		opts.PerTask = counterIDs(set)
	}
	if p.walker != nil {
		opts.Unwinder = p.walker.BPF()
	}
	if p.offcpu, err = programs.NewOffCPU(opts); err != nil {
		return &programs.SamplerError{Event: event.OffCPU.Name, Err: err}
	}
	p.all = append(p.all, p.offcpu)
	return nil
}

// indexOf returns the index of the event of waits that records this.
func indexOf(events []event.Event, kind event.OffCPUKind) int {
	return slices.IndexFunc(events, func(ev event.Event) bool { return ev.OffCPU == kind })
}

// counterIDs returns the ids of all counters.
func counterIDs(set *perfevent.Set) (ids []uint64) {
	for i := range set.Counters {
		ids = append(ids, set.Counters[i].ID)
	}
	return ids
}

// loadSampler loads the programs that make samples.
func (p *bpfPrograms) loadSampler(
	o *plan, set *perfevent.Set, functions map[*probe.Probe]uint64, cpus []int) (err error) {
	if err := o.ringsForBPF(); err != nil {
		return &programs.SamplerError{Event: set.Events[0].Name, Err: err}
	}
	opts := programs.SamplerOptions{Functions: functions, Select: o.Packets.PacketSelection, Follow: o.following,
		Cgroups: o.cgroups, Recorded: cpus, Notice: o.notice, Verbose: o.verbose}
	if !o.Target.byCPU() {
		opts.PerTask = counterIDs(set)
	}
	if len(o.Target.CPUs) > 0 {
		opts.CPUs = cpus
	}
	if p.walker != nil {
		opts.Unwinder = p.walker.BPF()
	}
	if p.sampler, err = programs.NewSampler(opts, set.Events, set.Attrs); p.sampler != nil {
		p.all = append(p.all, p.sampler)
	}
	if err != nil {
		return err
	}
	if ev := firstUnconditional(set.Events); ev != nil && !o.each() {
		o.notice(fmt.Errorf("%s has no frequency or period: recording each occurrence", ev.Name))
	}
	return nil
}

// firstUnconditional returns the first event that is always recorded at each occurrence, nil if
// there is none.
func firstUnconditional(events []event.Event) *event.Event {
	for i := range events {
		if events[i].Raw != nil || events[i].Span != nil {
			return &events[i]
		}
	}
	return nil
}

// keepSamples reports whether snapshot will add samples of earlier times.
func (p *bpfPrograms) keepSamples() bool {
	return p.counts != nil || p.sampler != nil && p.sampler.Counts()
}

// keepNames stores the functions of interpreters that the recording has, and the programs and libraries that a reader
// may not find later. It reports only the first failure.
func (p *bpfPrograms) keepNames(sum *Summary, notice func(error)) {
	if p.walker == nil {
		return
	}
	var err error
	if sum.Kept, sum.Generated, err = p.walker.Save(); err != nil && !p.unsaved {
		p.unsaved = true
		notice(err)
	}
}

// learn passes synthesized records to the programs that walk user stacks.
func (p *bpfPrograms) learn(b []byte, idSize int) error {
	p.walker.Learn(b, idSize)
	return nil
}

// forget makes the programs that walk user stacks forget the processes, whose side band was not recorded for a while.
func (p *bpfPrograms) forget() {
	if p.walker != nil {
		p.walker.Forget()
	}
}

// prepare prepares for the stacks of a program that will start. awaitPrepared ends it.
func (p *bpfPrograms) prepare(path string) {
	if p.walker != nil {
		p.walker.Prepare(program.Needed(path))
	}
}

func (p *bpfPrograms) awaitPrepared() {
	if p.walker != nil {
		p.walker.AwaitPrepared()
	}
}

// reopen opens the events again to which the programs write on a CPU.
func (p *bpfPrograms) reopen(cpu, group int) error {
	at := slices.IndexFunc(p.mergers, func(n *stacks.Merger) bool { return n.Ring.CPU == cpu })
	if at < 0 {
		return nil
	}
	return p.all.Reopen(p.mergers[at], group)
}

// summarize adds the programs' counts to the summary.
func (p *bpfPrograms) summarize(sum *Summary, verbose func(string), notice func(error)) {
	for _, q := range p.all {
		if err := q.Summary(&sum.Summary); err != nil {
			notice(err)
		}
		st := q.Stats()
		if sum.Missed += st.Missed; st.Runs > 0 {
			verbose("sampling " + st.String())
		}
	}
}

// close frees the programs.
func (p *bpfPrograms) close() {
	p.all.Close()
	*p = bpfPrograms{}
}

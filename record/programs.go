package record

import (
	"fmt"
	"slices"

	"gperf/bpf"
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
	walker  *stacks.Recorder  // nil: BPF walks no user stacks
	sampler *programs.Sampler // nil: all events but waits have counters
	offcpu  *programs.OffCPU  // nil: waits are not recorded
	counts  *programs.Counter // nil: events are sampled, not counted
	mergers []*stacks.Merger  // by ring; nil without programs
	unsaved bool              // functions of interpreters or files could not be stored, which was reported
}

// loadWalker loads the programs that walk user stacks.
func (p *bpfPrograms) loadWalker(o *Options, set *perfevent.Set) (err error) {
	if err := o.ringsForBPF(); err != nil {
		return err
	}
	limit := procfs.MemoryLimit()
	if limit < leastMemory {
		return &SmallMemoryError{limit}
	}
	p.walker, err = stacks.New(stacks.Options{PerTask: !o.Target.byCPU(), Tracefs: o.Tracefs, Verbose: o.verbose,
		Progress: o.progress, Hurry: o.Hurry, Affords: o.affords, Lean: o.affords != nil || limit < smallMemory,
		Rows: rowsWithin(limit), NoRuntimes: o.NoRuntimes, NoCache: o.NoBuildIDCache,
		Pipe: o.pipe()}, set.Events, set.Attrs)
	if err == nil && !o.Count {
		set.Opened = p.walker.Opened
	}
	return err
}

// loadCounts loads the programs that count, before the counters of these threads and CPUs are opened.
func (p *bpfPrograms) loadCounts(o *Options, set *perfevent.Set, cpus, threads []int) (err error) {
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
		KernelChain: o.KernelChain, Tracefs: o.Tracefs}
	if p.walker != nil {
		opts.Unwinder = p.walker.BPF()
	}
	if p.counts, err = programs.NewCounter(opts); err == nil {
		set.Opened = p.counts.Opened
	}
	return err
}

// attach directs the programs' output to the rings, and returns the source of samples. The
// rings must exist, and the attrs must have ids.
func (p *bpfPrograms) attach(r *recorder) (source, error) {
	samples := programs.MakesSamples(r.set.Events)
	if p.walker == nil && p.counts == nil && !samples && !r.opts.OffCPU {
		if r.opts.Overwrite {
			return perfevent.NewOverwritten(r.rings, &r.file.tally), nil
		}
		return perfevent.NewSource(r.rings, &r.file.tally), nil
	}
	p.mergers = stacks.NewMergers(r.rings, r.set.Attrs, &r.file.tally)
	if p.walker != nil {
		if err := p.walker.Attach(p.mergers, r.set.Attrs, kernelBuildIDs(r.set.Attrs), r.poller.signal); err != nil {
			return nil, err
		}
	}
	if samples {
		if err := p.startSampler(r.opts, r.set, r.probes.functions, r.cpus); err != nil {
			return nil, err
		}
	}
	var src mergedSource = p.walker
	if p.walker == nil {
		src = programs.NewSource(p.mergers, &r.file.tally)
	}
	if r.opts.OffCPU {
		if err := p.startOffCPU(r.opts, r.set, r.cpus); err != nil {
			return nil, err
		}
	}
	if p.counts != nil {
		if err := p.counts.Attach(p.mergers, counterIDs(r.set), r.set.Attrs); err != nil {
			return nil, err
		}
	}
	src.SetLate(p.late)
	return src, nil
}

// late adds the samples that do not come from one ring.
func (p *bpfPrograms) late(j *stacks.Merged) {
	if p.offcpu != nil {
		p.offcpu.Late(j)
	}
	if p.sampler != nil {
		p.sampler.Late(j)
	}
	if p.counts != nil {
		p.counts.Late(j)
	}
}

// mergedSource is a source that may get samples from all rings together.
type mergedSource interface {
	source
	SetLate(func(*stacks.Merged))
}

// startOffCPU attaches the program that records waits.
func (p *bpfPrograms) startOffCPU(o *Options, set *perfevent.Set, cpus []int) (err error) {
	if err := o.ringsForBPF(); err != nil {
		return &programs.SamplerError{Event: event.OffCPU.Name, Err: err}
	}
	if slices.ContainsFunc(set.Events, func(ev event.Event) bool { return ev.Cgroup != "" }) {
		return &programs.SamplerError{Event: event.OffCPU.Name, Err: errCgroupWaits}
	}
	at := slices.IndexFunc(set.Events, func(ev event.Event) bool { return ev.OffCPU == event.Waits })
	opts := programs.OffCPUOptions{CPUs: cpus, Threshold: o.OffCPUThreshold, KernelChain: o.KernelChain, Event: at,
		Attr: set.Attrs[at]}
	if o.OffCPUWaker {
		opts.Waker = &set.Attrs[at+1]
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
	return p.offcpu.Attach(p.mergers)
}

// counterIDs returns the ids of all counters.
func counterIDs(set *perfevent.Set) (ids []uint64) {
	for i := range set.Counters {
		ids = append(ids, set.Counters[i].ID)
	}
	return ids
}

// startSampler attaches the programs that make samples.
func (p *bpfPrograms) startSampler(
	o *Options, set *perfevent.Set, functions map[*probe.Probe]uint64, cpus []int) (err error) {
	if err := o.ringsForBPF(); err != nil {
		return &programs.SamplerError{Event: set.Events[0].Name, Err: err}
	}
	opts := programs.SamplerOptions{Functions: functions, Select: o.Packets.PacketSelection, Follow: o.following,
		Notice: o.notice, Verbose: o.verbose}
	if !o.Target.byCPU() {
		opts.PerTask = counterIDs(set)
	}
	if len(o.Target.CPUs) > 0 {
		opts.CPUs = cpus
	}
	if p.walker != nil {
		opts.Unwinder = p.walker.BPF()
	}
	if p.sampler, err = programs.NewSampler(opts, set.Events, set.Attrs); err != nil {
		return err
	}
	if ev := firstUnconditional(set.Events); ev != nil && !o.each() {
		o.notice(fmt.Errorf("%s has no frequency or period: recording each occurrence", ev.Name))
	}
	return p.sampler.Attach(p.mergers, cpus)
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

// enable starts or stops the programs: those at tracepoints and probes run whether or not a
// counter is enabled. In a recording of threads, programs that make samples also need an
// enabled counter.
func (p *bpfPrograms) enable(on bool) (err error) {
	switch {
	case p.sampler != nil:
		err = p.sampler.Enable(on)
	case p.walker != nil:
		err = p.walker.Enable(on)
	}
	if p.offcpu != nil && err == nil {
		err = p.offcpu.Enable(on)
	}
	if p.counts != nil && err == nil {
		err = p.counts.Enable(on)
	}
	return err
}

// finish takes the samples that programs have kept until the end: the next drain has them.
func (p *bpfPrograms) finish() error {
	if p.offcpu != nil {
		if err := p.offcpu.Finish(); err != nil {
			return err
		}
	}
	return p.snapshot()
}

// snapshot takes the counts since the last time: the next drain has them.
func (p *bpfPrograms) snapshot() error {
	if p.counts != nil {
		if err := p.counts.Finish(); err != nil {
			return err
		}
	}
	if p.sampler != nil {
		return p.sampler.Finish()
	}
	return nil
}

// keepSamples reports whether finish will add samples of earlier times.
func (p *bpfPrograms) keepSamples() bool {
	return p.counts != nil || p.sampler != nil && p.sampler.Counts()
}

// newFile prepares for another file of the recording.
func (p *bpfPrograms) newFile() {
	if p.offcpu != nil {
		p.offcpu.NewFile()
	}
	if p.walker != nil {
		p.walker.NewFile()
	}
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
	for _, n := range p.mergers {
		if n.Ring.CPU != cpu {
			continue
		}
		if p.walker != nil {
			if err := p.walker.OpenOutput(n); err != nil {
				return err
			}
		}
		if p.offcpu != nil {
			if err := p.offcpu.Reopen(n, group); err != nil {
				return err
			}
		}
		if p.counts != nil {
			if err := p.counts.OpenOutput(n); err != nil {
				return err
			}
		}
		if p.sampler != nil {
			return p.sampler.Reopen(n, group)
		}
		return nil
	}
	return nil
}

// counters returns the counters that programs write samples to.
func (p *bpfPrograms) counters() (l [][]perfevent.Counter) {
	if p.sampler != nil {
		l = append(l, p.sampler.Counters)
	}
	if p.offcpu != nil {
		l = append(l, p.offcpu.Counters)
	}
	return l
}

// tracepoints returns the programs' own counters of tracepoints: by config those of the
// recorded events, and others.
func (p *bpfPrograms) tracepoints() (own map[uint64]int, others []int) {
	switch {
	case p.counts != nil:
		own = p.counts.Tracepoints()
	case p.walker != nil:
		own = p.walker.Tracepoints()
	}
	if p.sampler != nil {
		others = p.sampler.Tracepoints()
	}
	return own, others
}

// summarize adds the programs' counts to the summary.
func (p *bpfPrograms) summarize(sum *Summary, verbose func(string), notice func(error)) {
	if p.walker != nil {
		sum.Unwind = p.walker.Summary()
	}
	if p.offcpu != nil {
		var err error
		if sum.UnrecordedWaits, err = p.offcpu.Unrecorded(); err != nil {
			notice(err)
		}
		p.addStats(sum, p.offcpu.Stats(), verbose)
	}
	if p.counts != nil {
		var err error
		if sum.Uncounted, err = p.counts.Uncounted(); err != nil {
			notice(err)
		}
		p.addStats(sum, p.counts.Stats(), verbose)
	}
	if p.sampler != nil {
		p.addStats(sum, p.sampler.Stats(), verbose)
		var err error
		if sum.Spans, err = p.sampler.SpanStats(); err != nil {
			notice(err)
		}
	}
}

// addStats adds the statistics of programs that make samples.
func (p *bpfPrograms) addStats(sum *Summary, st bpf.Stats, verbose func(string)) {
	sum.Missed += st.Missed
	if st.Runs > 0 {
		verbose("sampling " + st.String())
	}
}

// close frees the programs.
func (p *bpfPrograms) close() {
	if p.sampler != nil {
		p.sampler.Close()
	}
	if p.offcpu != nil {
		p.offcpu.Close()
	}
	if p.counts != nil {
		p.counts.Close()
	}
	if p.walker != nil {
		p.walker.Close()
	}
	*p = bpfPrograms{}
}

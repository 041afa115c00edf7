package record

import (
	"fmt"

	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/probe"
	"gperf/record/sampler"
	"gperf/record/stacks"
)

// bpfPrograms are the BPF programs of a recording.
type bpfPrograms struct {
	walker  *stacks.Recorder // nil: BPF walks no user stacks
	sampler *sampler.Sampler // nil: all events have counters
	mergers []*stacks.Merger // by ring; nil without programs
}

// loadWalker loads the programs that walk user stacks.
func (p *bpfPrograms) loadWalker(o *Options, set *perfevent.Set) (err error) {
	if err := o.ringsForBPF(); err != nil {
		return err
	}
	p.walker, err = stacks.New(stacks.Options{PerTask: !o.Target.byCPU(), Tracefs: o.Tracefs, Verbose: o.verbose,
		Progress: o.progress, Hurry: o.Hurry}, set.Events, set.Attrs)
	if err == nil {
		set.Opened = p.walker.Opened
	}
	return err
}

// attach directs the programs' output to the rings, and returns the source of samples. The
// rings must exist, and the attrs must have ids.
func (p *bpfPrograms) attach(r *recorder) (source, error) {
	samples := sampler.Samples(r.set.Events)
	if p.walker == nil && !samples {
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
	if p.walker != nil {
		return p.walker, nil
	}
	return sampler.NewSource(p.mergers, &r.file.tally), nil
}

// startSampler attaches the programs that make samples.
func (p *bpfPrograms) startSampler(
	o *Options, set *perfevent.Set, functions map[*probe.Probe]uint64, cpus []int) (err error) {
	if err := o.ringsForBPF(); err != nil {
		return &sampler.Error{Event: set.Events[0].Name, Err: err}
	}
	opts := sampler.Options{Functions: functions}
	if !o.Target.byCPU() {
		for i := range set.Counters {
			opts.PerTask = append(opts.PerTask, set.Counters[i].ID)
		}
	}
	if p.walker != nil {
		opts.Unwinder = p.walker.BPF()
	}
	if p.sampler, err = sampler.New(opts, set.Events, set.Attrs); err != nil {
		return err
	}
	if raw := firstRaw(set.Events); raw != nil && !o.each() {
		o.notice(fmt.Errorf("%s has no frequency or period: recording each occurrence", raw.Name))
	}
	return p.sampler.Attach(p.mergers, cpus)
}

// firstRaw returns the first raw tracepoint, nil if there is none.
func firstRaw(events []event.Event) *event.Event {
	for i := range events {
		if events[i].Raw != nil {
			return &events[i]
		}
	}
	return nil
}

// enable starts or stops the programs: those at tracepoints and probes run whether or not a
// counter is enabled. In a recording of threads, programs that make samples also need an
// enabled counter.
func (p *bpfPrograms) enable(on bool) error {
	switch {
	case p.sampler != nil:
		return p.sampler.Enable(on)
	case p.walker != nil:
		return p.walker.Enable(on)
	}
	return nil
}

// learn passes synthesized records to the programs that walk user stacks.
func (p *bpfPrograms) learn(b []byte, idSize int) error {
	p.walker.Learn(b, idSize)
	return nil
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
		if p.sampler != nil {
			return p.sampler.Reopen(n, group)
		}
		return nil
	}
	return nil
}

// counters returns the counters that programs write samples to.
func (p *bpfPrograms) counters() []perfevent.Counter {
	if p.sampler == nil {
		return nil
	}
	return p.sampler.Counters
}

// tracepoints returns the programs' own counters of tracepoints: by config those of the
// recorded events, and others.
func (p *bpfPrograms) tracepoints() (own map[uint64]int, others []int) {
	if p.walker != nil {
		own = p.walker.Tracepoints()
	}
	if p.sampler != nil {
		others = p.sampler.Tracepoints()
	}
	return own, others
}

// summarize adds the programs' counts to the summary.
func (p *bpfPrograms) summarize(sum *Summary, verbose func(string)) {
	if p.walker != nil {
		sum.Unwind = p.walker.Summary()
	}
	if p.sampler == nil {
		return
	}
	st := p.sampler.Stats()
	sum.Missed = st.Missed
	if st.Runs > 0 {
		verbose("sampling " + st.String())
	}
}

// close frees the programs.
func (p *bpfPrograms) close() {
	if p.sampler != nil {
		p.sampler.Close()
	}
	if p.walker != nil {
		p.walker.Close()
	}
	*p = bpfPrograms{}
}

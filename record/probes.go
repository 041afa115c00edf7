package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gperf/bpf"
	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/probe"
	"gperf/record/programs"
)

// errInterrupted means that the recording was ended before it began.
var errInterrupted = errors.New("interrupted before the recording began: nothing is recorded")

// LeftoversError is a notice: killed recordings have left probes in the kernel.
type LeftoversError struct{ Probes int }

func (e *LeftoversError) Error() string {
	return fmt.Sprintf("killed recordings have left %d probes", e.Probes)
}

// probeSetup is the probes of a recording, and the functions at which BPF programs run instead.
type probeSetup struct {
	opts *plan
	set  *probe.Set // nil: there are none in the kernel
	// functions are the entry addresses of the probed functions at which BPF programs run.
	functions map[*probe.Probe]uint64
}

// add defines kernel tracepoints for the probes among the events, or finds the
// functions to attach BPF programs to instead. It skips functions of globs that the kernel
// refuses, and reports them.
func (p *probeSetup) add(ctx context.Context, o *plan) error {
	o.Events = slices.Clone(o.Events)
	nameProbes(o.Events)
	if err := p.findFunctions(o); err != nil {
		return err
	}
	refused := make([]error, len(o.Events))
	for _, user := range []bool{false, true} {
		if err := p.define(ctx, o.Events, user, refused); err != nil {
			return err
		}
	}
	if p.set == nil {
		return programs.NumberEvents(o.Events)
	}
	var probes []*probe.Probe
	var errs []error
	var left []event.Event
	for i, ev := range o.Events {
		if ev.Probe != nil && p.functions[ev.Probe] == 0 {
			probes, errs = append(probes, ev.Probe), append(errs, refused[i])
		}
		if refused[i] == nil {
			left = append(left, ev)
		}
	}
	o.Events = left
	if err := probe.ReportSkipped(probes, errs, o.notice); err != nil {
		return err
	}
	return programs.NumberEvents(o.Events)
}

// define defines kernel tracepoints for the events' user probes or kernel probes: tracefs has
// one file for each kind. It puts their errors into refused, by event.
func (p *probeSetup) define(ctx context.Context, events []event.Event, user bool, refused []error) error {
	var probes []*probe.Probe
	var of []int // indexes of the events
	for i := range events {
		if pr := events[i].Probe; pr != nil && pr.Kind.User() == user && p.functions[pr] == 0 {
			probes, of = append(probes, pr), append(of, i)
		}
	}
	if len(probes) == 0 {
		return nil
	}
	if p.set == nil {
		p.set = probe.NewSet(p.opts.Tracefs)
	}
	l, errs, err := p.set.Add(probes, func(n int) error { return p.opts.step(ctx, "defining probes", n, len(probes)) })
	if err != nil {
		return err
	}
	for n, i := range of {
		events[i].Tracepoint, events[i].Config, refused[i] = l[n].Dir, l[n].ID, errs[n]
	}
	return nil
}

// nameProbes numbers probes of the same name as perf does: foo, foo_1, foo_2. Names from the
// term name stay unchanged.
func nameProbes(events []event.Event) {
	names := map[string]bool{}
	for i := range events {
		ev := &events[i]
		if ev.Span != nil && ev.Span.Call != nil {
			name := ev.Name
			for n := 1; names[ev.Name]; n++ {
				ev.Name = name + "_" + strconv.Itoa(n)
			}
		}
		if ev.Probe == nil {
			names[ev.Name] = true
			continue
		}
		p := *ev.Probe
		for n := 1; names[p.String()]; n++ {
			p.Event = ev.Probe.Event + "_" + strconv.Itoa(n)
		}
		names[p.String()] = true
		if ev.Name == ev.Probe.String() {
			ev.Name = p.String()
		}
		ev.Probe = &p
	}
}

// summarize adds the hits that the kernel has missed.
func (p *probeSetup) summarize(sum *programs.Summary, events []event.Event) {
	if p.set == nil {
		return
	}
	hits, err := p.set.Missed()
	if err != nil {
		p.opts.verbose("missed hits of probes: " + err.Error())
	}
	for i := range events {
		if n := hits[events[i].Tracepoint]; n > 0 {
			sum.AddMissedHits(events[i].Name, n)
		}
	}
}

// remove removes the probes from the kernel, which is possible only when all their counters are
// closed. In a hurry it leaves them: the next recording reports them.
func (p *probeSetup) remove(counters *perfevent.Set) {
	of := len(p.opts.Events)
	for i := range counters.Counters {
		if p.opts.hurried() {
			return
		}
		if i%64 == 0 { // each event has several
			p.opts.progress("closing events", min(counters.Counters[i].Event, of), of)
		}
		counters.CloseCounter(i)
	}
	if err := p.set.Remove(func(n, of int) { p.opts.progress("removing probes", n, of) }); err != nil {
		p.opts.notice(err)
	}
}

// warnLeftovers reports the probes that earlier recordings left in tracefs, if this recording
// uses tracefs.
func (o *plan) warnLeftovers() {
	probes := slices.ContainsFunc(o.Events, func(ev event.Event) bool { return ev.Probe != nil })
	if o.Tracefs.Root == "" && !probes {
		return
	}
	if l, err := probe.Leftovers(o.Tracefs); err == nil && len(l) > 0 {
		o.notice(&LeftoversError{len(l)})
	}
}

// manyFunctions is the number of functions from which BPF programs are faster to set up than
// probes.
const manyFunctions = 8

// each reports whether events are recorded at each occurrence.
func (o *plan) each() bool { return o.Freq == 0 && o.Period <= 1 && !o.NoSamples }

// findFunctions finds the functions of kprobes and kretprobes that one BPF program can
// replace: many functions, without probe arguments. It skips functions that the program
// cannot run at.
func (p *probeSetup) findFunctions(o *plan) error {
	for i := range o.Events {
		if ev := &o.Events[i]; (ev.Raw != nil || ev.Span != nil) && !unconditional(o.Events, i) {
			return &programs.SamplerError{Event: ev.Name, Err: ErrConditional}
		}
	}
	if !o.each() {
		return nil
	}
	plain := append(plainProbes(o.Events, probe.Kprobe), plainProbes(o.Events, probe.Kretprobe)...)
	if len(plain) == 0 {
		return nil
	}
	err := o.ringsForBPF()
	if err == nil {
		err = bpf.HaveKprobeMulti()
	}
	if err == nil {
		p.functions, err = probe.EntryAddrs(o.Tracefs, plain)
	}
	if err != nil {
		o.notice(&OneByOneError{len(plain), err})
		return nil
	}
	left := slices.DeleteFunc(plain, func(pr *probe.Probe) bool { return p.functions[pr] != 0 })
	if len(left) == 0 {
		return nil
	}
	if len(p.functions) == 0 {
		err := fmt.Errorf("%w, nor at any of the %d others", errNotTraceable, len(left)-1)
		return &programs.SamplerError{Event: left[0].String(), Err: err}
	}
	o.notice(&LeftOutError{len(left), len(left) + len(p.functions), left[0].Symbol})
	o.Events = slices.DeleteFunc(o.Events, func(ev event.Event) bool { return slices.Contains(left, ev.Probe) })
	return nil
}

// unconditional reports whether event i has no settings besides sampling: BPF programs do not
// implement the settings of the kernel's own events.
func unconditional(events []event.Event, i int) bool {
	ev := &events[i]
	return simple(events, i) && (ev.Filter == "" || ev.Raw != nil || ev.Span != nil)
}

// simple reports whether event i has no settings besides sampling and a filter.
func simple(events []event.Event, i int) bool {
	ev := &events[i]
	grouped := ev.Member || i+1 < len(events) && events[i+1].Member
	return !grouped && ev.Flags == 0 && ev.Cgroup == "" && ev.Terms == event.Terms{}
}

// plainProbes returns the probes of a kind that only report calls or returns of their
// functions; none if there are few.
func plainProbes(events []event.Event, k probe.Kind) (l []*probe.Probe) {
	for i := range events {
		if p := events[i].Probe; p != nil && p.Kind == k && p.Off == 0 && len(p.Args) == 0 && unconditional(events, i) {
			l = append(l, p)
		}
	}
	if len(l) < manyFunctions {
		return nil
	}
	return l
}

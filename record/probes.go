package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gperf/bpf"
	"gperf/record/event"
	"gperf/record/probe"
)

// ErrInterrupted means that the recording was ended before it began.
var ErrInterrupted = errors.New("interrupted while opening events: nothing is recorded")

// LeftoversError is a notice: killed recordings have left probes in the kernel.
type LeftoversError struct{ Probes int }

func (e *LeftoversError) Error() string {
	return fmt.Sprintf("killed recordings have left %d probes", e.Probes)
}

// addProbes defines kernel tracepoints for the probes among the events, or finds the
// functions to attach BPF programs to instead. It skips functions of globs that the kernel
// refuses, and reports them.
func (r *recorder) addProbes(ctx context.Context, o *Options) error {
	o.Events = slices.Clone(o.Events)
	nameProbes(o.Events)
	if err := r.findFunctions(o); err != nil {
		return err
	}
	refused := make([]error, len(o.Events))
	for _, user := range []bool{false, true} {
		if err := r.define(ctx, o.Events, user, refused); err != nil {
			return err
		}
	}
	if r.probes == nil {
		return number(o.Events)
	}
	var probes []*probe.Probe
	var errs []error
	var left []event.Event
	for i, ev := range o.Events {
		if ev.Probe != nil && r.functions[ev.Probe] == 0 {
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
	return number(o.Events)
}

// define defines kernel tracepoints for the events' user probes or kernel probes: tracefs has
// one file for each kind. It puts their errors into refused, by event.
func (r *recorder) define(ctx context.Context, events []event.Event, user bool, refused []error) error {
	var probes []*probe.Probe
	var of []int // indexes of the events
	for i := range events {
		if p := events[i].Probe; p != nil && p.Kind.User() == user && r.functions[p] == 0 {
			probes, of = append(probes, p), append(of, i)
		}
	}
	if len(probes) == 0 {
		return nil
	}
	if r.probes == nil {
		r.probes = probe.NewSet(r.opts.Tracefs)
	}
	l, errs, err := r.probes.Add(probes, func(n int) error { return r.step(ctx, "defining probes", n, len(probes)) })
	if err != nil {
		return err
	}
	for n, i := range of {
		events[i].Tracepoint, events[i].Config, refused[i] = l[n].Dir, l[n].ID, errs[n]
	}
	return nil
}

// step reports the progress of a step before the recording starts. Its error ends that step.
func (r *recorder) step(ctx context.Context, name string, n, of int) error {
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	r.progress(name, n, of)
	return nil
}

func (r *recorder) progress(step string, n, of int) {
	if f := r.opts.Progress; f != nil {
		f(step, n, of)
	}
}

// nameProbes numbers probes of the same name as perf does: foo, foo_1, foo_2. Names from the
// term name stay unchanged.
func nameProbes(events []event.Event) {
	names := map[string]bool{}
	for i := range events {
		ev := &events[i]
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

// removeProbes removes the probes from the kernel, which is possible only when all their
// counters are closed. In a hurry it leaves them: the next recording reports them.
func (r *recorder) removeProbes() {
	of := len(r.opts.Events)
	for i := range r.set.Counters {
		if r.hurried() {
			return
		}
		if i%64 == 0 { // each event has several
			r.progress("closing events", min(r.set.Counters[i].Event, of), of)
		}
		r.set.CloseCounter(i)
	}
	if err := r.probes.Remove(func(n, of int) { r.progress("removing probes", n, of) }); err != nil {
		r.opts.notice(err)
	}
}

// tellLeftovers reports the probes that earlier recordings left in tracefs, if this recording
// uses tracefs.
func (o *Options) tellLeftovers() {
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
func (o *Options) each() bool { return o.Freq == 0 && o.Period <= 1 && !o.NoSamples }

// findFunctions finds the functions of kprobes and kretprobes that one BPF program can
// replace: many functions, without probe arguments. It skips functions that the program
// cannot run at.
func (r *recorder) findFunctions(o *Options) error {
	for i := range o.Events {
		if ev := &o.Events[i]; ev.Raw != nil && !unconditional(o.Events, i) {
			return &EmitError{ev.Name, ErrConditional}
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
		r.functions, err = probe.EntryAddrs(o.Tracefs, plain)
	}
	if err != nil {
		o.notice(&OneByOneError{len(plain), err})
		return nil
	}
	left := slices.DeleteFunc(plain, func(p *probe.Probe) bool { return r.functions[p] != 0 })
	if len(left) == 0 {
		return nil
	}
	if len(r.functions) == 0 {
		return &EmitError{left[0].String(), fmt.Errorf("%w, nor at any of the %d others", errNotTraceable, len(left)-1)}
	}
	o.notice(&LeftOutError{len(left), len(left) + len(r.functions), left[0].Symbol})
	o.Events = slices.DeleteFunc(o.Events, func(ev event.Event) bool { return slices.Contains(left, ev.Probe) })
	return nil
}

// unconditional reports whether event i has no settings besides sampling: BPF programs do not
// implement the settings of the kernel's own events.
func unconditional(events []event.Event, i int) bool {
	ev := &events[i]
	return ev.Flags == 0 && (ev.Filter == "" || ev.Raw != nil) && ev.Cgroup == "" && ev.Terms == event.Terms{} && !ev.Member && (i+1 == len(events) || !events[i+1].Member)
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

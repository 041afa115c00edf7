package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gperf/record/event"
	"gperf/record/probe"
)

// ErrInterrupted: the recording was to end before its probes were in place.
var ErrInterrupted = errors.New("interrupted while attaching probes: they are removed again")

// LeftoversError says, as a notice, that killed recordings have left probes.
type LeftoversError struct{ Probes int }

func (e *LeftoversError) Error() string {
	return fmt.Sprintf("%d probes are left of recordings that were killed", e.Probes)
}

// addProbes has the kernel make tracepoints of the probes among the events. Of
// globs, those that the kernel refuses are left out, and told.
func (r *recorder) addProbes(ctx context.Context, o *Options) error {
	o.Events = slices.Clone(o.Events)
	nameProbes(o.Events)
	probes := make([]*probe.Probe, 0, len(o.Events))
	errs := make([]error, 0, len(o.Events))
	refused := map[int]bool{} // by event
	for _, user := range []bool{false, true} {
		var some []*probe.Probe
		var of []int
		for i := range o.Events {
			if p := o.Events[i].Probe; p != nil && p.Kind.User() == user {
				some, of = append(some, p), append(of, i)
			}
		}
		if len(some) == 0 {
			continue
		}
		if r.probes == nil {
			r.probes = probe.NewSet(o.Tracefs)
		}
		l, e, err := r.probes.Add(some, func(n int) error { return r.attaching(ctx, "defining", n, len(some)) })
		if err != nil {
			return err
		}
		probes, errs = append(probes, some...), append(errs, e...)
		for n, i := range of {
			o.Events[i].Tracepoint, o.Events[i].Config = l[n].Dir, l[n].ID
			refused[i] = e[n] != nil
		}
	}
	if r.probes == nil {
		return nil
	}
	r.opening = func(n int) error { return r.attaching(ctx, "attaching", n, len(o.Events)) }
	if err := probe.LeaveOut(probes, errs, o.notice); err != nil {
		return err
	}
	var left []event.Event
	for i, ev := range o.Events {
		if !refused[i] {
			left = append(left, ev)
		}
	}
	o.Events = left
	return nil
}

// attaching tells how far the probes are, and whether to go on.
func (r *recorder) attaching(ctx context.Context, step string, n, of int) error {
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	r.progress(step, n, of)
	return nil
}

func (r *recorder) progress(step string, n, of int) {
	if f := r.opts.Progress; f != nil {
		f(step, n, of)
	}
}

// nameProbes numbers probes of the same name as perf does: foo, foo_1, foo_2.
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
		ev.Probe, ev.Name = &p, p.String()
	}
}

// removeProbes has the kernel forget the probes, which it does when no counter of
// theirs is open any more.
func (r *recorder) removeProbes() {
	for i := range r.counters {
		if i%64 == 0 {
			r.progress("detaching", i, len(r.counters))
		}
		r.opener.closeOne(i)
	}
	if err := r.probes.Remove(func(n, of int) { r.progress("removing", n, of) }); err != nil {
		r.opts.notice(err)
	}
}

// tellLeftovers tells of what earlier recordings left in tracefs, if this one has
// to do with tracefs.
func (o *Options) tellLeftovers() {
	probes := slices.ContainsFunc(o.Events, func(ev event.Event) bool { return ev.Probe != nil })
	if o.Tracefs.Root == "" && !probes {
		return
	}
	if l, err := probe.Leftovers(o.Tracefs); err == nil && len(l) > 0 {
		o.notice(&LeftoversError{len(l)})
	}
}

package record

import (
	"slices"
	"strconv"

	"gperf/record/event"
	"gperf/record/probe"
)

// addProbes has the kernel make tracepoints of the probes among the events.
func (r *recorder) addProbes(o *Options) error {
	o.Events = slices.Clone(o.Events)
	nameProbes(o.Events)
	for _, user := range []bool{false, true} {
		var probes []*probe.Probe
		var of []int
		for i := range o.Events {
			if p := o.Events[i].Probe; p != nil && p.Kind.User() == user {
				probes, of = append(probes, p), append(of, i)
			}
		}
		if len(probes) == 0 {
			continue
		}
		if r.probes == nil {
			r.probes = probe.NewSet(o.Tracefs)
		}
		l, errs, err := r.probes.Add(probes, nil)
		if err != nil {
			return err
		}
		for n, i := range of {
			if errs[n] != nil {
				return errs[n]
			}
			o.Events[i].Tracepoint, o.Events[i].Config = l[n].Dir, l[n].ID
		}
	}
	return nil
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

package record

import (
	"slices"
	"strconv"

	"gperf/record/probe"
)

// addProbes has the kernel make tracepoints of the probes among the events.
func (r *recorder) addProbes(o *Options) error {
	o.Events = slices.Clone(o.Events)
	names := map[string]bool{}
	for i := range o.Events {
		ev := &o.Events[i]
		if ev.Probe == nil {
			names[ev.Name] = true
			continue
		}
		p := *ev.Probe
		for n := 1; names[p.String()]; n++ { // perf numbers its probes like that
			p.Event = ev.Probe.Event + "_" + strconv.Itoa(n)
		}
		names[p.String()] = true
		if r.probes == nil {
			r.probes = probe.NewSet(o.Tracefs)
		}
		dir, id, err := r.probes.Add(&p)
		if err != nil {
			return err
		}
		ev.Probe, ev.Name, ev.Tracepoint, ev.Config = &p, p.String(), dir, id
	}
	return nil
}

package record

import (
	"fmt"
	"slices"
	"strconv"

	"gperf/bpf"
	"gperf/record/event"
	"gperf/record/probe"
)

// addProbes has the kernel make tracepoints of the probes among the events, or
// finds the functions that BPF programs are to run at instead.
func (r *recorder) addProbes(o *Options) error {
	o.Events = slices.Clone(o.Events)
	nameProbes(o.Events)
	if err := r.findFunctions(o); err != nil {
		return err
	}
	for i := range o.Events {
		ev := &o.Events[i]
		if ev.Probe == nil || r.functions[ev.Probe] != nil {
			continue
		}
		if r.probes == nil {
			r.probes = probe.NewSet(o.Tracefs)
		}
		dir, id, err := r.probes.Add(ev.Probe)
		if err != nil {
			return err
		}
		ev.Tracepoint, ev.Config = dir, id
	}
	return number(o.Events)
}

// nameProbes gives probes of one name different ones.
func nameProbes(events []event.Event) {
	names := map[string]bool{}
	for i := range events {
		ev := &events[i]
		if ev.Probe == nil {
			names[ev.Name] = true
			continue
		}
		p := *ev.Probe
		for n := 1; names[p.String()]; n++ { // perf numbers its probes like that
			p.Event = ev.Probe.Event + "_" + strconv.Itoa(n)
		}
		names[p.String()] = true
		ev.Probe, ev.Name = &p, p.String()
	}
}

// manyFunctions is how many functions are probed before it pays to load BPF
// programs for them.
const manyFunctions = 8

// each tells whether every event is recorded of those that come one by one.
func (o *Options) each() bool { return o.Freq == 0 && o.Period <= 1 && !o.NoSamples }

// findFunctions finds the functions of kprobes and kretprobes that one BPF
// program can stand for: where there are many, and nothing is read at them.
// Functions that it cannot run at are left out.
func (r *recorder) findFunctions(o *Options) error {
	if !o.each() {
		return nil
	}
	plain := append(plainProbes(o.Events, probe.Kprobe), plainProbes(o.Events, probe.Kretprobe)...)
	if len(plain) == 0 {
		return nil
	}
	err := bpf.HaveKprobeMulti()
	if err == nil {
		r.functions, err = probe.Entries(o.Tracefs, plain)
	}
	if err != nil {
		o.notice(&OneByOneError{len(plain), err})
		return nil
	}
	left := slices.DeleteFunc(plain, func(p *probe.Probe) bool { return r.functions[p] != nil })
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

// plainProbes are the probes of a kind that do nothing but tell that their
// functions were called, or return; none if they are few.
func plainProbes(events []event.Event, k probe.Kind) (l []*probe.Probe) {
	for i := range events {
		if p := events[i].Probe; p != nil && p.Kind == k && p.Off == 0 && len(p.Args) == 0 {
			l = append(l, p)
		}
	}
	if len(l) < manyFunctions {
		return nil
	}
	return l
}

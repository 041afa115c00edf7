package record

import (
	"slices"
	"testing"

	"gperf/record/event"
	"gperf/record/probe"
)

func TestNameProbes(t *testing.T) {
	probed := func(name string) event.Event {
		p := &probe.Probe{Group: "probe_x", Event: "f"}
		return event.Event{Name: name, Probe: p}
	}
	events := []event.Event{probed("probe_x:f"), {Name: "probe_x:f_1"}, probed("mine"), probed("probe_x:f")}
	nameProbes(events)
	var names, probes []string
	for _, ev := range events {
		names = append(names, ev.Name)
		if ev.Probe != nil {
			probes = append(probes, ev.Probe.String())
		}
	}
	if want := []string{"probe_x:f", "probe_x:f_1", "mine", "probe_x:f_3"}; !slices.Equal(names, want) {
		t.Errorf("events %q, want %q", names, want)
	}
	if want := []string{"probe_x:f", "probe_x:f_2", "probe_x:f_3"}; !slices.Equal(probes, want) {
		t.Errorf("probes %q, want %q", probes, want)
	}
}

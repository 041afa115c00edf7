package record

import (
	"fmt"
	"strings"

	"gperf/record/event"
	"gperf/record/probe"
	"gperf/record/programs"
	"gperf/record/tracefs"
)

// described returns the tracepoints among the events, with their names in the file.
func described(events []event.Event) (l []tracefs.Described, err error) {
	for i := range events {
		ev := &events[i]
		var text []byte
		if ev.BPFSampled() && ev.OffCPU == 0 {
			if text, err = programs.SampleFormat(ev); err != nil {
				return nil, err
			}
		}
		switch {
		case ev.Raw != nil, ev.Span != nil:
			system, name := fileName(ev)
			dir := fmt.Sprintf("%s/%d", ev.Name, ev.Config)
			l = append(l, tracefs.Described{Dir: dir, System: system, Name: name, Text: text})
		case ev.Probe != nil && ev.BPFSampled():
			l = append(l, tracefs.Described{Dir: ev.Name, System: ev.Probe.Group, Name: ev.Probe.Event, Text: text})
		case ev.Probe != nil:
			edit := func(text []byte) []byte { return probe.EditFormat(text, ev.Probe.Args) }
			l = append(l, tracefs.Described{Dir: ev.Tracepoint, System: ev.Probe.Group, Name: ev.Probe.Event,
				Edit: edit})
		case ev.Tracepoint != "":
			system, name, _ := strings.Cut(ev.Tracepoint, "/")
			edit := func(text []byte) []byte { return probe.EditFormat(text, nil) }
			l = append(l, tracefs.Described{Dir: ev.Tracepoint, System: system, Name: name, Edit: edit})
		}
	}
	return l, nil
}

// fileName returns the names in the file of a raw tracepoint or a span.
func fileName(ev *event.Event) (system, name string) {
	system, name, ok := strings.Cut(ev.Name, ":")
	if !ok { // from the term name
		system, name = strings.TrimSuffix(event.SpanPrefix, ":"), ev.Name
	}
	return system, name
}

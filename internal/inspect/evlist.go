package inspect

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"gperf/format"
)

// EventOptions select the details that Events prints about each event.
type EventOptions struct {
	Attrs       bool // all fields of the attr that are not zero
	Freq        bool // frequency or period
	Groups      bool // a line for each group, instead of each event
	TraceFields bool // a tracepoint's own fields
}

// Events prints a recording's events, as `perf evlist` does.
func Events(w *bufio.Writer, f *format.File, opts EventOptions) {
	names := evlistNames(f)
	var list []format.Group
	if !f.Pipe {
		list, _ = f.EventGroups()
	}
	groups := eventGroups(names, list)
	if opts.Groups {
		for _, g := range groups {
			fmt.Fprintln(w, g)
		}
	} else {
		for i, name := range names {
			fmt.Fprintln(w, name+opts.details(f, i))
		}
	}
	// Perf's words, so that outputs can be compared.
	isTracepoint := func(a format.Attr) bool { return a.Type == format.TypeTracepoint }
	if !opts.TraceFields && slices.ContainsFunc(f.Attrs, isTracepoint) {
		fmt.Fprintln(w, "# Tip: use 'perf evlist --trace-fields' to show fields for tracepoint events")
	}
	if !opts.Groups && len(groups) < len(names) {
		fmt.Fprintln(w, "# Tip: use 'perf evlist -g' to show group information")
	}
}

// evlistNames returns the names of the events. On a pipe perf prints them before it
// reads the users' names.
func evlistNames(f *format.File) (names []string) {
	for i := range f.Attrs {
		if a := &f.Attrs[i]; f.Pipe && a.Type != format.TypeTracepoint {
			names = append(names, a.DefaultName())
		} else {
			names = append(names, f.EventName(i))
		}
	}
	return names
}

// details returns the text after event i's name.
func (o EventOptions) details(f *format.File, i int) string {
	a := &f.Attrs[i]
	var parts []string
	switch {
	case o.Attrs:
		for _, field := range AttrFields(a, tracepointName(f, a)) {
			parts = append(parts, field.Name+": "+field.Value)
		}
	case o.Freq && a.Flags&format.FlagFreq != 0:
		parts = append(parts, fmt.Sprintf("sample_freq=%d", a.SamplePeriod))
	case o.Freq:
		parts = append(parts, fmt.Sprintf("sample_period=%d", a.SamplePeriod))
	}
	if o.TraceFields {
		parts = append(parts, traceFields(f, i))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func traceFields(f *format.File, i int) string {
	if f.Attrs[i].Type != format.TypeTracepoint {
		return "(not a tracepoint)"
	}
	var names []string
	if t := f.Tracepoint(i); t != nil {
		for _, field := range t.Fields {
			if !strings.HasPrefix(field.Name, "common_") {
				names = append(names, field.Name)
			}
		}
	}
	if len(names) == 0 {
		return "(no trace field)"
	}
	return "trace_fields: " + strings.Join(names, ",")
}

// eventGroup is a group of events, or an event that is in none.
type eventGroup struct {
	name    string
	members []string // names of the members
}

// String is the group as perf shows it: "name{leader,member}".
func (g eventGroup) String() string {
	if len(g.members) == 1 {
		return g.members[0]
	}
	return g.name + "{" + strings.Join(g.members, ",") + "}"
}

// eventGroups makes groups of the events called names. The GROUP_DESC section lists
// groups in the order of events; groups out of order are skipped.
func eventGroups(names []string, list []format.Group) (l []eventGroup) {
	for i := 0; i < len(names); {
		n, name := 1, ""
		if len(list) > 0 && uint64(list[0].Leader) == uint64(i) {
			n = int(min(max(uint64(list[0].Members), 1), uint64(len(names)-i)))
			if list[0].Name != "{anon_group}" {
				name = list[0].Name
			}
		}
		if len(list) > 0 && uint64(list[0].Leader) <= uint64(i) {
			list = list[1:]
		}
		l = append(l, eventGroup{name, names[i : i+n]})
		i += n
	}
	return l
}

package event

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
)

// Terms are an event's own sampling options: if a field is zero, the recording's options
// apply.
type Terms struct {
	Period, Freq uint64
	CallGraph    CallGraph
	StackDump    uint16 // bytes of user stack to copy
	MaxStack     uint16 // frames
	Inherit      bool   // also with --no-inherit
	NoInherit    bool
}

// CallGraph is the method of recording an event's callchains.
type CallGraph string

const (
	CallGraphNone  CallGraph = "no"
	CallGraphFP    CallGraph = "fp"
	CallGraphDWARF CallGraph = "dwarf"
)

// term is KEY[=VALUE]; VALUE defaults to 1.
type term struct{ key, value string }

// commonTerms are the terms that every event can have.
var commonTerms = []string{"name", "period", "freq", "call-graph", "max-stack", "stack-size", "time", "inherit",
	"no-inherit", "no-overwrite"}

// refusedTerms are perf's terms that gperf does not support, with the reason.
var refusedTerms = map[string]string{
	"overwrite":       "overwriting applies to all events or none: --overwrite",
	"branch_type":     "branch stacks cannot be recorded",
	"nr":              "stopping after a number of events is not possible",
	"driver-config":   "configuration of AUX drivers is not possible",
	"percore":         "counts of cores are for counting, not for recording",
	"aux-output":      "AUX traces cannot be recorded",
	"aux-action":      "AUX traces cannot be recorded",
	"aux-sample-size": "AUX traces cannot be recorded",
	"ratio-to-prev":   "ratios are for counting, not for recording",
	"cpu":             "select the CPUs by -C",
}

// parseTerms splits terms at their commas, except commas between quotes.
func parseTerms(spec, text string) ([]term, error) {
	l := []term{}
	quote := byte(0)
	start := 0
	take := func(end int) error {
		key, value, _ := strings.Cut(strings.TrimSpace(text[start:end]), "=")
		start = end + 1
		if key == "" {
			return eventText(spec).bad("empty term")
		}
		if n := len(value); n > 1 && (value[0] == '\'' || value[0] == '"') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		l = append(l, term{key, value})
		return nil
	}
	for i := range len(text) {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == ',':
			if err := take(i); err != nil {
				return nil, err
			}
		}
	}
	if strings.TrimSpace(text) == "" {
		return l, nil
	}
	return l, take(len(text))
}

// number returns the term's value, which is at most limit.
func (t term) number(w *words, limit uint64) (uint64, error) {
	if t.value == "" {
		return 1, nil
	}
	n, err := strconv.ParseUint(t.value, 0, 64)
	if err != nil {
		return 0, w.spec.bad(fmt.Sprintf("term %s: %q is not a number", t.key, t.value))
	}
	if n > limit {
		return 0, w.spec.bad(fmt.Sprintf("term %s: %s is too large, the maximum is %d (%#[3]x)", t.key, t.value, limit))
	}
	return n, nil
}

// set applies one of the common terms to the event.
func (ev *Event) set(w *words, t term) error {
	if why := refusedTerms[t.key]; why != "" {
		return w.spec.bad("term " + t.key + ": " + why)
	}
	if !slices.Contains(commonTerms, t.key) {
		return w.spec.unknownTerm(t, "", commonTerms)
	}
	limit := uint64(1<<63 - 1)
	switch t.key {
	case "name":
		if t.value == "" {
			return w.spec.bad("term name: the name is missing")
		}
		ev.Name = t.value
		return nil
	case "call-graph":
		return ev.setCallGraph(w, t)
	case "max-stack":
		limit = 1<<16 - 1
	case "stack-size":
		limit = format.MaxSampleStackUser
	}
	n, err := t.number(w, limit)
	if err != nil {
		return err
	}
	if n == 0 && slices.Contains([]string{"period", "freq", "max-stack", "stack-size"}, t.key) {
		return w.spec.bad("term " + t.key + ": 0 is not allowed")
	}
	switch t.key {
	case "period":
		ev.Terms.Period = n
	case "freq":
		ev.Terms.Freq = n
	case "max-stack":
		ev.Terms.MaxStack = uint16(n)
	case "stack-size":
		ev.Terms.StackDump = uint16((n + 7) &^ 7)
	case "inherit":
		ev.Terms.Inherit, ev.Terms.NoInherit = n != 0, n == 0
	case "no-inherit":
		ev.Terms.Inherit, ev.Terms.NoInherit = n == 0, n != 0
	}
	// time: samples always have it. no-overwrite: this is the default.
	if ev.Terms.Period != 0 && ev.Terms.Freq != 0 {
		return w.spec.bad("terms period and freq exclude each other")
	}
	return nil
}

func (ev *Event) setCallGraph(w *words, t term) error {
	switch c := CallGraph(t.value); c {
	case CallGraphNone, CallGraphFP, CallGraphDWARF:
		ev.Terms.CallGraph = c
		return nil
	case "lbr":
		return w.spec.bad("term call-graph: lbr is not possible, gperf does not read branch records; dwarf records " +
			"complete stacks")
	}
	return w.spec.bad(fmt.Sprintf("term call-graph: %q is unknown, there are fp, dwarf and no", t.value))
}

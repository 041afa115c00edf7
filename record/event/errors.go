package event

import (
	"fmt"
	"strings"

	"gperf/record/near"
)

// SpecError is an event string that cannot be recorded as it stands.
type SpecError struct{ Spec, Msg string }

func (e *SpecError) Error() string { return fmt.Sprintf("event %q: %s", e.Spec, e.Msg) }

// UnknownError is an event, PMU or term that this kernel does not have.
type UnknownError struct {
	Spec string   // of the event
	Kind string   // "PMU", "term" or "symbol", "" where the event is what is unknown
	Name string   // of the term or symbol
	Near []string // names like it that exist, best first
	All  []string // names that exist, where these are few
}

func (e *UnknownError) Error() string {
	s := fmt.Sprintf("unknown event %q", e.Spec)
	switch e.Kind {
	case "PMU":
		pmu, _, _ := strings.Cut(e.Spec, "/")
		s = fmt.Sprintf("event %q: there is no PMU %s here", e.Spec, pmu)
	case "symbol":
		s = fmt.Sprintf("event %q: the kernel shows no symbol %s in /proc/kallsyms", e.Spec, e.Name)
	case "term":
		s = fmt.Sprintf("event %q: unknown term %s", e.Spec, e.Name)
	}
	if len(e.Near) > 0 {
		s += ": did you mean " + strings.Join(e.Near, ", ") + "?"
	}
	if len(e.All) > 0 {
		s += "\nThere are: " + strings.Join(e.All, " ")
	}
	return s
}

// unknownTerm says that t is none of the terms of a PMU's events, "" for others.
func (w *words) unknownTerm(t term, pmu string, all []string) error {
	name := t.key
	if pmu != "" {
		name += " of PMU " + pmu
	}
	return &UnknownError{Spec: w.spec, Kind: "term", Name: name, Near: near.Names(t.key, all), All: all}
}

package event

import (
	"fmt"
	"strings"

	"gperf/internal/suggest"
)

// SpecError means that an event string cannot be recorded as written.
type SpecError struct{ Spec, Msg string }

func (e *SpecError) Error() string { return fmt.Sprintf("event %q: %s", e.Spec, e.Msg) }

// WrongUse reports that the command line caused the error.
func (e *SpecError) WrongUse() bool { return true }

// UnknownError means that this kernel does not have an event, PMU or term.
type UnknownError struct {
	Spec string   // of the event
	Kind string   // "PMU", "term" or "symbol", "" for the event itself
	Name string   // of the term or symbol
	Near []string // existing similar names, best first
	All  []string // existing names, if these are few
}

func (e *UnknownError) Error() string {
	s := fmt.Sprintf("unknown event %q", e.Spec)
	switch e.Kind {
	case "PMU":
		pmu, _, _ := strings.Cut(e.Spec, "/")
		s = fmt.Sprintf("event %q: this machine has no PMU %s", e.Spec, pmu)
	case "symbol":
		s = fmt.Sprintf("event %q: the kernel shows no symbol %s in /proc/kallsyms", e.Spec, e.Name)
	case "term":
		s = fmt.Sprintf("event %q: unknown term %s", e.Spec, e.Name)
	}
	s += suggest.DidYouMean(e.Near)
	if len(e.All) > 0 {
		s += "\nThere are: " + strings.Join(e.All, " ")
	}
	return s
}

// WrongUse reports that the command line caused the error.
func (e *UnknownError) WrongUse() bool { return true }

// eventText is the complete text of an event on the command line.
type eventText string

func (t eventText) bad(msg string) error { return &SpecError{Spec: string(t), Msg: msg} }

// unknownTerm returns the error for a term that a PMU's events do not have; pmu is "" for
// other events.
func (t eventText) unknownTerm(unknown term, pmu string, all []string) error {
	name := unknown.key
	if pmu != "" {
		name += " of PMU " + pmu
	}
	return &UnknownError{Spec: string(t), Kind: "term", Name: name, Near: suggest.Names(unknown.key, all), All: all}
}

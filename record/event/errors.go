package event

import (
	"fmt"
	"strings"
)

// SpecError is an event string that cannot be recorded as it stands.
type SpecError struct{ Spec, Msg string }

func (e *SpecError) Error() string { return fmt.Sprintf("event %q: %s", e.Spec, e.Msg) }

// UnknownError is an event that this kernel does not have.
type UnknownError struct {
	Spec string
	Near []string // names like it that exist, best first
}

func (e *UnknownError) Error() string {
	s := fmt.Sprintf("unknown event %q", e.Spec)
	if len(e.Near) > 0 {
		s += ": did you mean " + strings.Join(e.Near, ", ") + "?"
	}
	return s
}

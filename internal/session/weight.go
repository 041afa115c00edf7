package session

import (
	"fmt"
	"strings"

	"gperf/format"
	"gperf/format/tracepoint"
)

// Weight replaces the periods of samples by a tracepoint field, so that reports and stacks count bytes or
// nanoseconds instead of events.
type Weight struct {
	Field string
	// Omitted counts the samples that Apply rejects.
	Omitted uint64

	env    tracepoint.Env
	fields []*tracepoint.Field // by event, nil for those without it
}

// NoFieldError means that no event has a numeric field of this name.
type NoFieldError struct {
	Field  string
	Fields []string // the events' numeric fields
}

func (e *NoFieldError) Error() string { return fmt.Sprintf("no event has a numeric field %q", e.Field) }

// WrongUse reports that the command line caused the error.
func (e *NoFieldError) WrongUse() bool { return true }

// NewWeight returns the weight by a field of the file's events. The error is a *NoFieldError.
func NewWeight(f *format.File, field string) (*Weight, error) {
	w := &Weight{Field: field, fields: make([]*tracepoint.Field, len(f.Attrs))}
	none := &NoFieldError{Field: field}
	known, found := map[string]bool{}, false
	for i := range f.Attrs {
		t := f.Tracepoint(i)
		if t == nil {
			continue
		}
		for j := range t.Fields {
			fd := &t.Fields[j]
			if strings.HasPrefix(fd.Name, "common_") || fd.String || fd.Sized() || fd.Size > 8 {
				continue
			}
			if fd.Name == field {
				w.fields[i], found = fd, true
			}
			if !known[fd.Name] {
				known[fd.Name] = true
				none.Fields = append(none.Fields, fd.Name)
			}
		}
	}
	if !found {
		return nil, none
	}
	w.env = f.Tracing.Env()
	return w, nil
}

// Apply sets the period of a sample to the field's value, or to 0 if the value is negative. It reports whether the
// sample has the field: Options.Keep may call it.
func (w *Weight) Apply(s *Sample) bool {
	if fd := w.fields[s.Event]; fd != nil {
		if v, ok := fd.Uint(s.Raw, w.env.Order); ok {
			if s.Period = v; fd.Signed && int64(v) < 0 {
				s.Period = 0
			}
			return true
		}
	}
	w.Omitted++
	return false
}

// EventUnit returns the unit of the periods of event i: that of weight, the field that NewWeight made them from, or
// without one "nanoseconds" for clocks, waits and spans, otherwise "count".
func EventUnit(f *format.File, i int, weight string) string {
	if weight != "" {
		return Unit(weight)
	}
	a := &f.Attrs[i]
	if t := f.Tracepoint(i); a.IsClock() || IsWait(a) || IsWaker(a) || t != nil && t.System == "span" {
		return "nanoseconds"
	}
	return "count"
}

// Unit returns the unit of a field's numbers: "nanoseconds", "bytes" or "count".
func Unit(field string) string {
	switch {
	case field == "duration", strings.HasSuffix(field, "_ns"):
		return "nanoseconds"
	case strings.Contains(field, "bytes"), field == "len", strings.HasSuffix(field, "_len"):
		return "bytes"
	}
	return "count"
}

package script

import "gperf/internal/session"

// TimeBase is the reference of the times of lines.
type TimeBase int

const (
	SinceBoot     TimeBase = iota // or since another start of the recording's clock
	SinceFirst                    // the first line
	SincePrevious                 // the line before
)

// times makes the shown times of lines, in the order of the lines.
type times struct {
	since TimeBase
	base  uint64 // 0: there was no line yet
}

func (t *times) shown(ns uint64) uint64 {
	switch {
	case t.since == SinceBoot:
		return ns
	case t.base == 0:
		t.base = ns
		return 0
	}
	d := ns - t.base
	if t.since == SincePrevious {
		t.base = ns
	}
	return d
}

// timeBases follows the base from batch to batch: they are printed at the same time.
type timeBases struct {
	printer *printer // which prints nothing
}

// before returns the times before the batch.
func (t *timeBases) before(b *session.Batch) times {
	before := t.printer.line.times
	if before.since == SinceBoot || before.since == SinceFirst && before.base != 0 {
		return before
	}
	t.printer.inOrder(b, func(s *session.Sample) { t.skip(s, t.printer.fields[s.Event], &t.printer.events[s.Event]) },
		func(r *session.Record) {
			if s, e, ok := t.printer.recordStart(r); ok {
				t.skip(s, t.printer.fields[r.Event], &e)
			}
		})
	return before
}

// skip notes the time of a line.
func (t *timeBases) skip(s *session.Sample, fields Field, e *event) {
	if fields&FieldTime != 0 {
		t.printer.line.times.shown(e.known(s).Time)
	}
}

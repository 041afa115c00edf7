package main

import (
	"cmp"
	"io"

	"gperf/format"
	"gperf/internal/session"
	"gperf/report/timeline"
)

// list writes the samples of all inputs in the order of time.
func (o *formatFlags) list(inputs []*input, opts timeline.Options, stdout, stderr io.Writer) error {
	scope := &timeline.Speedscope{Options: opts}
	var incomplete error
	err := o.write(stdout, func(w io.Writer) error {
		for _, in := range inputs {
			read := scope.Add
			if o.format == "json" {
				read = func(s *session.Session) (format.Skipped, error) { return timeline.JSON(w, s, opts) }
			}
			skipped, err := read(in.session)
			incomplete = cmp.Or(incomplete, in.warn(stderr, skipped))
			if err != nil {
				return in.Wrap(err)
			}
		}
		if o.format == "json" {
			return nil
		}
		return scope.Write(w)
	})
	return cmp.Or(err, incomplete)
}

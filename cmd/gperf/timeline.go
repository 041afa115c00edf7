package main

import (
	"cmp"
	"io"

	"gperf/report/timeline"
)

// list writes the samples of all inputs in the order of time.
func (o *formatFlags) list(inputs []*input, opts timeline.Options, stdout, stderr io.Writer) error {
	var incomplete error
	err := o.write(stdout, func(w io.Writer) error {
		out := timeline.New(o.format, w, opts)
		for _, in := range inputs {
			skipped, err := out.Add(in.session)
			incomplete = cmp.Or(incomplete, in.warn(stderr, skipped))
			if err != nil {
				return in.Wrap(err)
			}
		}
		return out.Finish()
	})
	return cmp.Or(err, incomplete)
}

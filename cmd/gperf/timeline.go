package main

import (
	"cmp"
	"io"

	"gperf/format"
	"gperf/report/export"
)

// list writes the samples of a recording in the order of time.
func (o *formatFlags) list(in *openInput, opts export.TimelineOptions, stdout, stderr io.Writer) error {
	var incomplete error
	err := o.write(stdout, func(w io.Writer) error {
		out := export.NewTimeline(o.format, w, opts)
		skipped, err := out.Add(in.session)
		incomplete = in.warn(stderr, skipped)
		if err != nil {
			return in.recording.Wrap(err)
		}
		return out.Finish()
	})
	return cmp.Or(err, incomplete)
}

// listMany writes the samples of several recordings, one after the other.
func (o *formatFlags) listMany(paths []string, from *inputFlags, opts export.TimelineOptions,
	stdout, stderr io.Writer) error {
	opts.Origins = true
	m, err := from.readMany(paths, stderr, nil)
	if err != nil {
		return err
	}
	err = o.write(stdout, func(w io.Writer) error {
		out := export.NewTimeline(o.format, w, opts)
		err := m.each(func(in *openInput, _ *source) (format.Skipped, error) { return out.Add(in.session) })
		if err != nil {
			return err
		}
		return out.Finish()
	})
	incomplete := m.close()
	return cmp.Or(err, incomplete)
}

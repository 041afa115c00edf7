package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"gperf/report/export"
)

// rowNames are the values of --rows, of report and push.
var rowNames = []string{"minutes", "samples"}

func (o *formatFlags) addRows(s *pflag.FlagSet) {
	s.StringVar(&o.rows, "rows", rowNames[0], "parquet: `kind` of rows, or samples")
}

// parquet writes the rows of all recordings. All are open at the same time, because the fields are columns of one
// table.
func (o *formatFlags) parquet(paths []string, from *inputFlags, maxStack int, stdout, stderr io.Writer) error {
	inputs, incomplete := from.openMost(paths, stderr)
	defer func() {
		for _, in := range inputs {
			in.Close() // not earlier: frames read symbols from the input
		}
	}()
	if len(inputs) == 0 {
		return incomplete
	}
	opts := export.RowOptions{Samples: o.rows == "samples", MaxStack: maxStack, NoInline: o.noInline,
		Weight: from.filters.weight}
	var recordings []*export.Rows
	for _, in := range inputs {
		r, err := export.NewRows(in.session, opts)
		if err != nil {
			return in.recording.Wrap(err)
		}
		recordings = append(recordings, r)
	}
	err := o.write(stdout, func(w io.Writer) error {
		out := export.NewParquetWriter(w, recordings)
		for i, in := range inputs {
			skipped, err := out.Add(recordings[i])
			incomplete = cmp.Or(incomplete, in.warn(stderr, skipped))
			if err != nil {
				return in.recording.Wrap(err)
			}
			if recordings[i].Estimated {
				fmt.Fprintf(stderr, "gperf report: %s does not say the time of day: times assume that it was written "+
					"when it ended; gperf record, and perf record -k mono, record it\n", in.recording.Path)
			}
		}
		return out.Close()
	})
	return cmp.Or(err, incomplete)
}

// openMost opens the recordings. One that cannot be opened is reported, and left out.
func (in *inputFlags) openMost(paths []string, stderr io.Writer) (opened []*openInput, failed error) {
	for _, path := range paths {
		r, err := in.openPath(path, stderr)
		switch {
		case err == nil:
			opened = append(opened, r)
		case len(paths) == 1 || in.strict:
			for _, r := range opened {
				r.Close()
			}
			return nil, err
		default:
			fmt.Fprintf(stderr, "gperf: %v: left out\n", err)
			failed = errReported
		}
	}
	if len(opened) == 0 {
		failed = errNoneRead
	}
	return opened, failed
}

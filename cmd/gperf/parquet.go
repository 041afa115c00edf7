package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"gperf/report/parquet"
	"gperf/report/rows"
)

// rowNames are the values of --rows.
var rowNames = []string{"minutes", "samples"}

func (o *formatFlags) addRows(s *pflag.FlagSet) {
	s.StringVar(&o.rows, "rows", rowNames[0], "parquet: `kind` of rows, or samples")
}

// parquet writes the rows of all inputs.
func (o *formatFlags) parquet(paths []string, from *inputFlags, opts rows.Options, stdout, stderr io.Writer) error {
	var inputs []*input
	var recordings []*rows.Recording
	for _, path := range paths {
		in, err := from.openPath(path, stderr)
		if err != nil {
			return err
		}
		defer in.Close()
		inputs = append(inputs, in)
		r, err := rows.New(in.session, opts)
		if err != nil {
			return in.Wrap(err)
		}
		recordings = append(recordings, r)
	}
	var incomplete error
	err := o.write(stdout, func(w io.Writer) error {
		out := parquet.NewWriter(w, recordings)
		for i, in := range inputs {
			skipped, err := out.Add(recordings[i])
			incomplete = cmp.Or(incomplete, in.warn(stderr, skipped))
			if err != nil {
				return in.Wrap(err)
			}
			if recordings[i].Estimated {
				fmt.Fprintf(stderr, "gperf report: %s does not say the time of day: times assume that it was written "+
					"when it ended; gperf record -k mono records it\n", in.Path)
			}
		}
		return out.Close()
	})
	return cmp.Or(err, incomplete)
}

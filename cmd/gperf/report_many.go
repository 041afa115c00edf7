package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"gperf/format"
	"gperf/internal/archive"
	"gperf/report"
)

// oneRecording lists the flags of report that show one recording only.
var oneRecording = []string{"tui", "header", "header-only", "tasks", "mmaps", "dump-raw-trace", "stats", "latency-hist",
	"slowest", "why", "threads"}

// runMany reports several recordings as one.
func (o *reportFlags) runMany(paths []string, s *pflag.FlagSet, stdout, stderr io.Writer) error {
	for _, name := range oneRecording {
		if f := s.Lookup(name); f != nil && f.Changed {
			return oneOnly("--"+name, paths)
		}
	}
	if err := o.formats.checkOutput(&o.input, stdout); o.formats.format == "csv" && err != nil {
		return err
	}
	opts := o.Options
	opts.Weight, opts.Verbose, opts.Parents.Show = o.input.filters.weight, o.input.verbose, s.Changed("parent")
	if o.formats.format == "csv" {
		opts.ForCSV()
	}
	merge := report.NewMerge(opts)
	depth, chains := perfMaxStack, false
	m, err := o.input.readMany(paths, stderr, func(f *format.File) ([]int, error) {
		in := openInput{recording: &archive.Recording{File: f}}
		depth, chains = max(depth, in.recordedDepth()), chains || f.Pipe || o.hasGraph(&in)
		return merge.Describe(f)
	})
	if err != nil {
		return err
	}
	if s.Changed("call-graph") && o.Graph.Mode != report.GraphNone && !chains {
		return errors.New("the recordings have no callchains: record them with -g")
	}
	if !s.Changed("max-stack") {
		merge.SetMaxStack(depth)
	}
	if err := merge.Begin(); err != nil {
		return err
	}
	m.found.Lines = strings.Contains(o.Sort+o.Fields, "src")
	err = countMany(m, func(in *openInput, src *source) (*report.Counted, format.Skipped, error) {
		return merge.Count(in.session, src.events)
	}, func(_ *openInput, c *report.Counted) { merge.Add(c) })
	if err == nil {
		err = o.writeMany(merge, stdout)
	}
	incomplete := m.close()
	if errors.Is(err, report.ErrNoSamples) && o.formats.format == "text" {
		fmt.Fprintf(stderr, "gperf report: the %d recordings have no samples\n", len(paths))
		err = nil
	}
	return cmp.Or(err, incomplete)
}

func (o *reportFlags) writeMany(m *report.Merge, stdout io.Writer) error {
	if o.formats.format == "csv" {
		return o.formats.write(stdout, m.CSV)
	}
	return m.Text(stdout)
}

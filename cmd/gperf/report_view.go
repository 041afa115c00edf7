package main

import (
	"slices"

	"github.com/spf13/pflag"

	"gperf/record"
	"gperf/report"
)

// viewFlags are flags of perf report that choose what of the samples is shown, and
// how.
type viewFlags struct {
	latency     bool
	parallelism string
}

func (o *viewFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&o.latency, "latency", false, "columns of latencies first, and sorted by them (gperf record --latency)")
	s.StringVar(&o.parallelism, "parallelism", "", "only samples taken while so many threads ran, a `list` such as 1,3-4")
}

// apply sets the options that the flags ask for.
func (o *viewFlags) apply(opts *report.Options) (err error) {
	opts.Latency = o.latency
	if o.parallelism != "" {
		if opts.Filter.Parallelism, err = record.ParseCPUs(o.parallelism); err != nil {
			return wrongUse("--parallelism %s: %v", o.parallelism, err)
		}
		if slices.Contains(opts.Filter.Parallelism, 0) {
			return wrongUse("--parallelism %s: at least one thread runs when a sample is taken", o.parallelism)
		}
	}
	return nil
}

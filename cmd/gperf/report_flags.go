package main

import (
	"regexp"
	"slices"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/internal/procfs"
	"gperf/report"
)

// displayFlags holds flags of perf report that choose what to show, and how.
type displayFlags struct {
	tasks, mmaps  bool
	dump          bool
	threads       bool
	pretty        string
	hierarchy     bool
	ns            bool
	quantum       string
	onlyParents   bool
	quiet         bool
	hideUnnamed   bool
	percentLimit  string
	widths        string
	percentage    string
	symbolFilter  string
	ignoreCallees string
	latency       bool
	color         string
	parallelism   string
}

func (o *displayFlags) addTable(s *pflag.FlagSet) {
	s.BoolVarP(&o.hierarchy, "hierarchy", "H", false, "nest entries by sort key; {key,key} is one level")
	s.BoolVar(&o.latency, "latency", false, "sort by latency (needs gperf record --latency)")
	s.StringVar(&o.quantum, "time-quantum", "100ms", "key time: resolution as a `time`")
	s.BoolVar(&o.ns, "ns", false, "key time: show nanoseconds")
}

func (o *displayFlags) addCallchains(s *pflag.FlagSet) {
	s.StringVar(&o.ignoreCallees, "ignore-callees", "", "with -g callee: merge callees into `pattern`")
}

func (o *displayFlags) addSelection(s *pflag.FlagSet) {
	s.StringVar(&o.symbolFilter, "symbol-filter", "", "show only entries with this `text` in the symbol")
	s.StringVar(&o.percentLimit, "percent-limit", "", "hide entries below this `percent`")
	s.BoolVarP(&o.onlyParents, "exclude-other", "x", false, "show only entries with callers of key parent")
	s.BoolVarP(&o.hideUnnamed, "hide-unresolved", "U", false, "hide samples and callers without a symbol")
	s.StringVar(&o.parallelism, "parallelism", "", "show only samples at this parallelism, a `list`")
}

func (o *displayFlags) addColumns(s *pflag.FlagSet) {
	s.StringVarP(&o.widths, "column-widths", "w", "", "set column `widths`, a list; 0 means as needed")
	addColor(s, &o.color)
	s.StringVar(&o.percentage, "percentage", "absolute", "use this `base`: relative")
}

func (o *displayFlags) addOther(s *pflag.FlagSet) {
	s.BoolVarP(&o.dump, "dump-raw-trace", "D", false, "print the offset, bytes and fields of each record")
	s.BoolVar(&o.tasks, "tasks", false, "print only the threads of the recording as a tree")
	s.BoolVar(&o.mmaps, "mmaps", false, "print only the threads and the maps of their processes")
	s.BoolVarP(&o.threads, "threads", "T", false, "append the event counts of each thread (gperf record -s)")
	s.StringVar(&o.pretty, "pretty", "normal", "with -T: line `style`, normal or raw")
}

func (o *displayFlags) addGeneral(s *pflag.FlagSet) {
	s.BoolVarP(&o.quiet, "quiet", "q", false, "print entries only, no headers and warnings")
	cli.AddIdle(s, cli.ReportIdleFlags)
}

// apply sets the options that the flags ask for.
func (o *displayFlags) apply(opts *report.Options) (err error) {
	opts.Quiet, opts.Resolved, opts.SymbolFilter, opts.Latency = o.quiet, o.hideUnnamed, o.symbolFilter, o.latency
	opts.Hierarchy, opts.Nanosecs, opts.Parents.Only = o.hierarchy, o.ns, o.onlyParents
	if opts.TimeQuantum, err = cli.TimeQuantum(o.quantum); err != nil {
		return err
	}
	if o.threads {
		opts.Threads = report.ThreadsPretty
	}
	if o.threads && o.pretty == "raw" {
		opts.Threads = report.ThreadsRaw
	}
	switch o.percentage {
	case "absolute":
	case "relative":
		opts.Relative = true
	default:
		return cli.WrongUse("--percentage %s: use relative or absolute", o.percentage)
	}
	if o.ignoreCallees != "" {
		if opts.IgnoreCallees, err = regexp.Compile(o.ignoreCallees); err != nil {
			return cli.WrongUse("--ignore-callees: %v", err)
		}
	}
	if opts.Widths, err = cli.ColumnWidths(o.widths); err != nil {
		return err
	}
	return o.applyParallelism(opts)
}

func (o *displayFlags) applyParallelism(opts *report.Options) (err error) {
	if o.parallelism == "" {
		return nil
	}
	if opts.Filter.Parallelism, err = procfs.ParseCPUList(o.parallelism); err != nil {
		return cli.WrongUse("--parallelism %s: %v", o.parallelism, err)
	}
	if slices.Contains(opts.Filter.Parallelism, 0) {
		return cli.WrongUse("--parallelism %s: at least one thread runs when a sample is taken", o.parallelism)
	}
	return nil
}

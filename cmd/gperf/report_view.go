package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"gperf/record"
	"gperf/report"
)

// viewFlags are flags of perf report that choose what of the samples is shown, and
// how.
type viewFlags struct {
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
	widths        string
	percentage    string
	symbolFilter  string
	ignoreCallees string
	latency       bool
	parallelism   string
}

func (o *viewFlags) add(s *pflag.FlagSet) {
	s.BoolVarP(&o.dump, "dump-raw-trace", "D", false, "only the records of the file, and how many there are: their places, bytes and fields")
	s.BoolVar(&o.tasks, "tasks", false, "only the threads of the recording, and which started which")
	s.BoolVar(&o.mmaps, "mmaps", false, "with them what their processes had mapped")
	s.BoolVarP(&o.threads, "threads", "T", false, "below the report, the events' counts in each thread (gperf record -s)")
	s.StringVar(&o.pretty, "pretty", "normal", "with --threads: a line for each thread (normal), or one for all (`raw`)")
	s.BoolVarP(&o.hierarchy, "hierarchy", "H", false, "entries of the first key, below each those of the second in it, and so on; {key,key} is one")
	s.BoolVarP(&o.quiet, "quiet", "q", false, "only the entries: no headers, no warnings")
	s.BoolVarP(&o.hideUnnamed, "hide-unresolved", "U", false, "only samples and callers that have a symbol")
	s.StringVarP(&o.widths, "column-widths", "w", "", "the `widths` of the columns, a list; 0 for one as wide as needed")
	s.StringVar(&o.percentage, "percentage", "absolute", "with filters: percentages of all samples (absolute) or of those shown (`relative`)")
	s.StringVar(&o.symbolFilter, "symbol-filter", "", "only entries whose symbols contain this `text`; so is an argument that is no file")
	s.StringVar(&o.ignoreCallees, "ignore-callees", "", "count what functions that match this `pattern` called as theirs (with -g callee)")
	s.BoolVarP(&o.onlyParents, "exclude-other", "x", false, "only entries whose callchains have a function that --parent matches")
	s.StringVar(&o.quantum, "time-quantum", "100ms", "the key time does not tell apart what is so near, a `time` (ns, us, ms, s)")
	s.BoolVar(&o.ns, "ns", false, "the key time with nine digits")
	s.BoolVar(&o.latency, "latency", false, "columns of latencies first, and sorted by them (gperf record --latency)")
	s.StringVar(&o.parallelism, "parallelism", "", "only samples taken while so many threads ran, a `list` such as 1,3-4")
	addIdle(s, reportIdleFlags)
}

var reportIdleFlags = []idleFlag{
	{name: "demangle", why: "C++ and Rust names are demangled unless --no-demangle is given"},
	{name: "demangle-kernel", why: "the kernel's names are demangled like others"},
	{name: "m,modules", why: "the symbols of modules are always read"},
	{name: "samples", value: true, why: "it is for perf's terminal view, which shows single samples of an entry: gperf script prints them"},
	{name: "skip-empty", why: "events without samples are left out unless --no-skip-empty is given"},
	{name: "tui", why: "gperf report prints text"},
	{name: "stdio-color", why: "gperf report prints without colours"},
	{name: "addr2line", value: true, why: "gperf reads debug information itself"},
	{name: "addr2line-style", value: true, why: "gperf reads debug information itself"},
	{name: "objdump", value: true, why: "gperf annotate disassembles itself"},
	{name: "unwind-style", value: true, why: "gperf unwinds stacks itself"},
	{name: "source", why: "it is for instructions: gperf annotate prints them"},
	{name: "asm-raw", why: "it is for instructions: gperf annotate --asm-raw prints them"},
	{name: "M,disassembler-style", value: true, why: "it is for instructions: gperf annotate -M prints them"},
	{name: "prefix", value: true, why: "it is for instructions: gperf annotate --prefix prints them"},
	{name: "prefix-strip", value: true, why: "it is for instructions: gperf annotate --prefix-strip prints them"},
	{name: "percent-type", value: true, why: "it is for instructions: gperf annotate --percent-type prints them"},
	{name: "disable-order", why: "it is for --dump-raw-trace, which has the records in the order of time"},
	{name: "ignore-vmlinux", why: "--kallsyms FILE takes the kernel's symbols from there alone", refused: true},
	{name: "socket-filter", value: true, why: "--sort socket shows the sockets, -C chooses their CPUs", refused: true},
	{name: "group-sort-idx", value: true, why: "groups are sorted by their first event: --no-group sorts each event by itself", refused: true},
	{name: "switch-on", value: true, why: "--time chooses a part of the recording", refused: true},
	{name: "switch-off", value: true, why: "--time chooses a part of the recording", refused: true},
	{name: "show-on-off-events", why: "it is for --switch-on and --switch-off", refused: true},
	{name: "itrace", why: "gperf does not decode instruction traces: perf report does", refused: true},
	{name: "total-cycles", why: "gperf does not count the cycles of blocks: perf report does", refused: true},
	{name: "stitch-lbr", why: "gperf does not join the branches of several samples: perf report does", refused: true},
	{name: "show-ref-call-graph", why: "gperf shows the callchains of each event alone: perf report does more", refused: true},
}

// apply sets the options that the flags ask for.
func (o *viewFlags) apply(opts *report.Options) (err error) {
	opts.Quiet, opts.Resolved, opts.SymbolFilter, opts.Latency = o.quiet, o.hideUnnamed, o.symbolFilter, o.latency
	opts.Hierarchy, opts.Nanosecs, opts.OnlyParents = o.hierarchy, o.ns, o.onlyParents
	if opts.TimeQuantum, err = timeQuantum(o.quantum); err != nil {
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
		return wrongUse("--percentage %s: it is relative or absolute", o.percentage)
	}
	if o.ignoreCallees != "" {
		if opts.IgnoreCallees, err = regexp.Compile(o.ignoreCallees); err != nil {
			return wrongUse("--ignore-callees: %v", err)
		}
	}
	if opts.Widths, err = columnWidths(o.widths); err != nil {
		return err
	}
	return o.applyParallelism(opts)
}

// timeQuantum reads a time, which is in ns if it has no unit.
func timeQuantum(s string) (uint64, error) {
	digits := strings.TrimRight(s, "nums")
	unit := map[string]uint64{"": 1, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[s[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n*unit == 0 {
		return 0, wrongUse("--time-quantum %s: it is a number above 0 of ns, us, ms or s", s)
	}
	return n * unit, nil
}

func columnWidths(list string) (widths []int, err error) {
	for _, word := range words(list) {
		n, err := strconv.ParseUint(word, 10, 16)
		if err != nil {
			return nil, wrongUse("--column-widths %s: %q is no width", list, word)
		}
		widths = append(widths, int(n))
	}
	return widths, nil
}

func (o *viewFlags) applyParallelism(opts *report.Options) (err error) {
	if o.parallelism == "" {
		return nil
	}
	if opts.Filter.Parallelism, err = record.ParseCPUs(o.parallelism); err != nil {
		return wrongUse("--parallelism %s: %v", o.parallelism, err)
	}
	if slices.Contains(opts.Filter.Parallelism, 0) {
		return wrongUse("--parallelism %s: at least one thread runs when a sample is taken", o.parallelism)
	}
	return nil
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/internal/untrusted"
	"gperf/report/export"
	"gperf/report/key"
	"gperf/report/view"
)

// formatFlags holds the flags of script and report for the formats that count stacks.
type formatFlags struct {
	format    string
	output    string
	all       bool
	noInline  bool
	folded    export.FoldedOptions
	baselines int    // number of inputs, the first ones, that are compared with the others
	by        string // keys of package key
	byFlag    string // that named them, "" for --by
	quantum   uint64 // of the key time, in ns; 0 for the default
	rows      string // of parquet, see rowNames
}

// Names of --pid and --tid without a list, which are flags of stackcollapse-perf.pl.
const (
	barePID = "folded-pid"
	bareTID = "folded-tid"
)

// foldedOnly lists the flags of --format folded alone.
var foldedOnly = []string{barePID, bareTID, "kernel", "jit", "all", "addrs", "inline", "by-event", "tidy"}

// byFlags lists the flags of the formats that count stacks. --sort means --by.
var byFlags = []string{"by", "sort", "time-quantum"}

// formatNames lists the values of --format: values of diff, too, values with the times of samples, and tables.
var (
	stackFormats = []string{"text", "folded", "pprof", "flamegraph", "svg"}
	timeFormats  = []string{"speedscope", "firefox", "perfetto", "json", "pcapng"}
	formatNames  = slices.Concat(stackFormats, timeFormats)
	reportNames  = slices.Concat(formatNames, []string{"csv", "parquet"}) // the formats of report
)

// notCSV lists flags for output that is no table.
var notCSV = []string{"hierarchy", "tasks", "mmaps", "dump-raw-trace", "stats", "latency-hist", "slowest", "why",
	"threads", "header", "header-only"}

const formatHelp = "write a `format` for other tools, as above"

func (o *formatFlags) add(s *pflag.FlagSet) {
	s.StringVar(&o.format, "format", "text", formatHelp)
	s.StringVarP(&o.output, "output", "o", "", "with --format: write to this `file`, not to stdout")
	s.BoolVar(&o.folded.Kernel, "kernel", false, "folded: append _[k] to kernel functions")
	s.BoolVar(&o.folded.JIT, "jit", false, "folded: append _[j] to JIT functions")
	s.BoolVar(&o.all, "all", false, "folded: same as --kernel --jit")
	s.BoolVar(&o.folded.Addrs, "addrs", false, "folded: print addresses without a symbol")
	s.BoolVar(&o.folded.Inline, "inline", false, "folded: print inline frames")
	s.BoolVar(&o.folded.Tidy, "tidy", false, "folded: short names, as stackcollapse-perf.pl")
	s.BoolVar(&o.folded.Event, "by-event", false, "folded: print all events, their names as roots")
	s.StringVar(&o.by, "by", "", "show these `keys` and fields as roots, pprof: as labels")
	s.BoolVar(&o.noInline, "no-inline", false, "do not print inline frames")
	s.BoolVar(&o.folded.PID, barePID, false, "")
	s.BoolVar(&o.folded.TID, bareTID, false, "")
	cli.Hide(s, barePID, bareTID)
}

// stacks reports whether the format contains stacks, that is, whether it is no table.
func (o *formatFlags) stacks() bool { return o.format != "text" && o.format != "csv" }

// counts reports whether the format counts samples with equal stacks.
func (o *formatFlags) counts() bool { return o.stacks() && slices.Contains(stackFormats, o.format) }

// sums reports whether the format has sums of samples alone: others list samples, or can hide those without work.
func (o *formatFlags) sums() bool { return !o.stacks() || o.counts() && o.format != "flamegraph" }

// check checks the combination of flags. names are the values of --format.
func (o *formatFlags) check(s *pflag.FlagSet, names []string) (err error) {
	if !slices.Contains(names, o.format) {
		last := len(names) - 1
		return cli.WrongUse("--format %s: use %s or %s", o.format, strings.Join(names[:last], ", "), names[last])
	}
	if o.format == "parquet" && !slices.Contains(rowNames, o.rows) {
		return cli.WrongUse("--rows %s: use %s", o.rows, strings.Join(rowNames, " or "))
	}
	input := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(inputFlags).add(input)
	s.Visit(func(f *pflag.Flag) {
		if cli.IsIdle(f) {
			return
		}
		if e := o.unfit(f.Name, input.Lookup(f.Name) != nil); err == nil {
			err = e
		}
	})
	o.folded.Kernel, o.folded.JIT = o.folded.Kernel || o.all, o.folded.JIT || o.all
	return err
}

// unfit reports why a flag does not apply to the format, or nil.
func (o *formatFlags) unfit(flag string, input bool) error {
	switch {
	case !o.stacks() && (flag == barePID || flag == bareTID):
		return cli.WrongUse("--%s requires a list of IDs, except with --format folded",
			strings.TrimPrefix(flag, "folded-"))
	case o.format != "folded" && flag != "inline" && slices.Contains(foldedOnly, flag):
		return cli.WrongUse("--%s is for --format folded", strings.TrimPrefix(flag, "folded-"))
	case flag == "by" && !o.counts():
		return cli.WrongUse("--by is for --format folded, pprof, flamegraph and svg; gperf report --sort sorts text")
	case o.format == "csv" && slices.Contains(notCSV, flag):
		return cli.WrongUse("--%s is for --format text", flag)
	case o.format != "parquet" && flag == "rows":
		return cli.WrongUse("--rows is for --format parquet")
	case o.format == "text" && flag == "output":
		return cli.WrongUse("--output requires --format; text goes to standard output")
	case slices.Contains(byFlags, flag) && o.stacks() && !o.counts():
		return cli.WrongUse("--%s is for --format text, folded, pprof, flamegraph and svg", flag)
	case o.stacks() && !input && !slices.Contains(foldedOnly, flag) &&
		!(o.counts() && slices.Contains(byFlags, flag)) &&
		!slices.Contains([]string{"format", "output", "max-stack", "no-inline", "stdio", "rows"}, flag):
		return cli.WrongUse("--%s is for --format text", flag)
	}
	return nil
}

// run counts the stacks of all inputs, or lists the samples, and writes the result.
func (o *formatFlags) run(command string, from *inputFlags, maxStack int, stdout, stderr io.Writer) error {
	if err := o.checkOutput(from, stdout); err != nil {
		return err
	}
	// Folded stacks are the same as perf script's, which forgets exited threads.
	from.keepExited = o.format != "folded"
	paths, err := from.inputs()
	if err != nil {
		return err
	}
	if o.format == "parquet" {
		return o.parquet(paths, from, maxStack, stdout, stderr)
	}
	lists := slices.Contains(timeFormats, o.format)
	if len(paths) > 1 {
		switch {
		case o.format == "pcapng":
			return oneOnly("--format pcapng", paths)
		case lists:
			return o.listMany(paths, from, o.timeline(from, maxStack), stdout, stderr)
		}
		return o.countMany(command, paths, from, o.set(from, maxStack), stdout, stderr)
	}
	in, err := from.openPath(paths[0], stderr)
	if err != nil {
		return err
	}
	defer in.Close() // not earlier: frames read symbols from the input
	switch {
	case o.format == "pcapng":
		return o.pcapng(in, stdout, stderr)
	case lists:
		return o.list(in, o.timeline(from, maxStack), stdout, stderr)
	}
	return o.count(command, in, o.set(from, maxStack), stdout, stderr)
}

func (o *formatFlags) timeline(from *inputFlags, maxStack int) export.TimelineOptions {
	return export.TimelineOptions{MaxStack: maxStack, NoInline: o.noInline, Weight: from.filters.weight}
}

// set returns the empty set of stacks that the format counts.
func (o *formatFlags) set(from *inputFlags, maxStack int) *export.StackSet {
	c := &export.StackSet{MaxStack: maxStack, NoInline: o.noInline, Weight: from.filters.weight, By: cli.Words(o.by),
		Quantum: o.quantum, Fields: o.format == "pprof",
		Idle: o.format == "flamegraph" && !from.filters.noIdle}
	c.Processes = o.format == "pprof" || o.folded.PID || o.folded.TID
	c.Threads, c.CPUs = o.format == "pprof" || o.folded.TID, o.format == "pprof"
	return c
}

// count counts the stacks of a recording in c and writes the result.
func (o *formatFlags) count(command string, in *openInput, c *export.StackSet, stdout, stderr io.Writer) error {
	skipped, err := c.Add(in.session)
	if err != nil {
		in.warn(stderr, skipped)
		return unknownKey(cmp.Or(o.byFlag, "--by"), in.recording.Wrap(err))
	}
	o.warnCounted(command, c, in.hasCallchains(), stderr)
	// This reads symbols: warnings about them come later.
	err = o.write(stdout, func(w io.Writer) error { return o.writeTo(w, c) })
	incomplete := in.warn(stderr, skipped)
	return cmp.Or(err, incomplete)
}

// countMany counts the stacks of several recordings in c and writes the result. The first ones are the baseline.
func (o *formatFlags) countMany(command string, paths []string, from *inputFlags, c *export.StackSet,
	stdout, stderr io.Writer) error {
	m, err := from.readMany(paths, stderr, nil)
	if err != nil {
		return err
	}
	all, chains := export.NewStackMerger(c), false
	err = countMany(m, func(in *openInput, src *source) (*export.StackSet, format.Skipped, error) {
		part := all.Part()
		add := part.Add
		if src.number < o.baselines {
			add = part.AddBaseline
		}
		skipped, err := add(in.session)
		return part, skipped, unknownKey(cmp.Or(o.byFlag, "--by"), err)
	}, func(in *openInput, part *export.StackSet) {
		all.Merge(part)
		chains = chains || in.hasCallchains()
	})
	if err == nil {
		o.warnCounted(command, c, chains, stderr)
		err = o.write(stdout, func(w io.Writer) error { return o.writeTo(w, c) })
	}
	incomplete := m.close()
	return cmp.Or(err, incomplete)
}

// warnCounted reports samples that the format leaves out.
func (o *formatFlags) warnCounted(command string, c *export.StackSet, chains bool, stderr io.Writer) {
	if !chains {
		fmt.Fprintf(stderr, "gperf %s: no callchains%s: record them with -g\n", command,
			map[bool]string{true: " to fold"}[o.format == "folded"])
	}
	if events, samples := c.NotFolded(); o.format == "folded" && !o.folded.Event && samples > 0 {
		fmt.Fprintf(stderr, "gperf %s: omitted %d samples of %s, as stackcollapse-perf.pl does; "+
			"--by-event folds all events\n", command, samples, strings.Join(events, ", "))
	}
	unlabeled := c.Unlabeled()
	for _, event := range slices.Sorted(maps.Keys(unlabeled)) {
		fmt.Fprintf(stderr, "gperf %s: %d samples of %s have no labels of their fields, which have too many values; "+
			"--by FIELD,... adds labels of these fields to all samples\n", command, unlabeled[event], event)
	}
}

// unknownKey adds the known keys to an error of package key; it returns other errors as they are.
func unknownKey(flag string, err error) error {
	if unknown := (*key.KeyError)(nil); errors.As(err, &unknown) {
		return cli.WrongUse("%s: %v%s", flag, unknown, suggestion(unknown.Key, unknown.Keys, "the keys are"))
	}
	return err
}

// checkOutput refuses to overwrite an input, and to write a program's format to a terminal.
func (o *formatFlags) checkOutput(from *inputFlags, stdout io.Writer) error {
	if o.output == "" || o.output == "-" {
		if _, ok := stdout.(*cli.Terminal); ok && !slices.Contains([]string{"folded", "json", "csv"}, o.format) {
			return cli.WrongUse("--format %s: standard output is a terminal, name a file with -o", o.format)
		}
		return nil
	}
	paths, err := from.inputs()
	if err == nil && overwrites(o.output, paths) {
		err = cli.WrongUse("-o %s would overwrite the recording", o.output)
	}
	return err
}

// overwrites reports whether an output is one of the recordings.
func overwrites(output string, recordings []string) bool {
	out, err := os.Stat(output)
	if err != nil {
		return false // it does not exist yet; Create reports other errors
	}
	return slices.ContainsFunc(recordings, func(path string) bool {
		in, err := os.Stat(cmp.Or(path, defaultFile))
		return err == nil && os.SameFile(in, out)
	})
}

// write passes the file of --output to a function, or standard output. Files whose names end with .gz are compressed.
func (o *formatFlags) write(stdout io.Writer, to func(io.Writer) error) error {
	if o.output == "" || o.output == "-" {
		return to(stdout)
	}
	f, err := untrusted.Create(o.output, 0o666)
	if err != nil {
		return err
	}
	if strings.HasSuffix(o.output, ".gz") && o.format != "pprof" { // profiles are compressed anyway
		z := gzip.NewWriter(f)
		err = cmp.Or(to(z), z.Close())
	} else {
		err = to(f)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("writing %s: %w", o.output, err)
	}
	return nil
}

func (o *formatFlags) writeTo(w io.Writer, c *export.StackSet) error {
	switch o.format {
	case "pprof":
		return c.Pprof(w)
	case "flamegraph":
		return view.Export(w, c.Table(), view.About{Title: c.Title()})
	case "svg":
		return c.SVG(w)
	}
	return c.Folded(w, o.folded)
}

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/input"
	"gperf/format"
	"gperf/report"
	"gperf/report/diff"
)

// diffFlags holds the flags of `gperf diff`.
type diffFlags struct {
	input inputFlags
	diff.Options
	compute string
	order   int
	dsos    string
	symbols string
	percent string
	formats formatFlags
	color   string
}

func (o *diffFlags) add(c *cobra.Command) {
	o.input.flags = c.Flags()
	cli.AddFlags(c, "Table", func(s *pflag.FlagSet) {
		s.StringVarP(&o.Sort, "sort", "s", diff.DefaultSort, "compare by these `keys`")
		s.StringVarP(&o.compute, "compute", "c", "delta-abs", "`method`, see above")
		s.IntVarP(&o.order, "order", "o", 1, "sort by recording `n`; 0: the baseline")
		cli.Instead(s, "order", "--output takes a file, with --format")
		s.BoolVarP(&o.BaselineOnly, "baseline-only", "b", false, "show only entries that the baseline has")
		s.BoolVarP(&o.Periods, "period", "p", false, "show the periods")
		s.BoolVarP(&o.Formula, "formula", "F", false, "show how each result is computed")
		s.BoolVar(&o.Noise, "noise", false, "distinguish changes from noise, see above")
		s.StringVarP(&o.Separator, "field-separator", "t", "", "separate columns by this `char`")
		addColor(s, &o.color)
		s.StringVar(&o.percent, "percentage", "absolute", "use this `base`: relative")
	})
	cli.AddFlags(c, "Formats for other tools", func(s *pflag.FlagSet) {
		s.StringVar(&o.formats.format, "format", "text", formatHelp)
		s.StringVar(&o.formats.output, "output", "", "with --format: write to this `file`, not to stdout")
		s.BoolVar(&o.formats.noInline, "no-inline", false, "do not show inline frames")
		s.IntVar(&o.MaxStack, "max-stack", maxStack, maxStackHelp)
	})
	cli.AddFlags(c, "Symbols", o.input.addSymbols)
	cli.AddFlags(c, "Filters", func(s *pflag.FlagSet) {
		s.StringVarP(&o.dsos, "dsos", "d", "", "count only samples in these DSOs, a `list`")
		s.StringVarP(&o.symbols, "symbols", "S", "", "count only samples in these functions, a `list`")
		f := &o.input.filters
		s.StringVarP(&f.comms, "comms", "C", "", "count only samples of threads with these names, a `list`")
		s.StringVar(&f.cpus, "cpu", "", "count only samples of these CPUs, a `list` such as 0,2-3")
		s.StringVar(&f.pids, "pid", "", "count only samples of these PIDs, a `list`")
		s.StringVar(&f.tids, "tid", "", "count only samples of these TIDs, a `list`")
		s.StringVar(&f.times, "time", "", "count only `ranges`, as 10%-20%, or A,B:C,D for two files")
		f.addFilter(s)
		f.addNoIdle(s)
		f.addWeight(s)
	})
	cli.AddFlags(c, cli.General, func(s *pflag.FlagSet) {
		addForce(s)
		o.input.addSandbox(s)
		s.BoolVarP(&o.input.verbose, "verbose", "v", false, "print the recordings' names, and addresses of symbols")
		s.BoolVarP(&o.Quiet, "quiet", "q", false, "print only the entries")
		cli.AddIdle(s, cli.DiffIdle)
	})
}

func diffCommand() *cobra.Command {
	var o diffFlags
	c := cli.NewCommand(cli.GroupAnalyse, "diff [FLAGS] [OLD] [NEW…]\ndiff [FLAGS] OLD… -- NEW…",
		"compare recordings function by function")
	o.add(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		sides, err := comparedSides(args, c.ArgsLenAtDash())
		if err == nil {
			err = o.run(sides, c.OutOrStdout(), c.ErrOrStderr())
		}
		return unknownSortKey(err)
	}
	return c
}

// comparedSides returns the recordings to compare: each one is a side, unless "--" separates
// sides of several ones; dash is the number of arguments before the first "--", negative for none.
func comparedSides(args []string, dash int) ([][]string, error) {
	if dash <= 0 && !slices.Contains(args, "--") {
		return slices.Collect(slices.Chunk(comparedFiles(args), 1)), nil
	}
	sides := [][]string{args[:max(dash, 0)], nil}
	for _, arg := range args[max(dash, 0):] {
		if arg == "--" {
			sides = append(sides, nil)
			continue
		}
		last := len(sides) - 1
		sides[last] = append(sides[last], arg)
	}
	if slices.ContainsFunc(sides, func(side []string) bool { return len(side) == 0 }) {
		return nil, cli.WrongUse("-- separates old and new recordings: " +
			"gperf diff old1.data old2.data -- new1.data new2.data")
	}
	return sides, nil
}

// comparedFiles returns the recordings to compare: as perf, perf.data.old and perf.data, or
// perf.data.old and the only argument.
func comparedFiles(args []string) []string {
	const old = defaultFile + ".old"
	switch len(args) {
	case 0:
		return []string{old, defaultFile}
	case 1:
		return []string{old, args[0]}
	}
	return args
}

func (o *diffFlags) run(sides [][]string, stdout, stderr io.Writer) (err error) {
	for i := range sides {
		if sides[i], err = input.Expand(sides[i]); err != nil {
			return err
		}
	}
	o.input.paths = slices.Concat(sides...)
	if err := o.apply(sides); err != nil {
		return err
	}
	if o.formats.stacks() {
		o.formats.baselines = len(sides[0])
		return o.formats.run("diff", &o.input, o.MaxStack, stdout, stderr)
	}
	if err := o.input.filters.toEntries(&o.Filter, o.dsos, o.symbols); err != nil {
		return err
	}
	if o.Look, err = lookOf(stdout, o.color); err != nil {
		return err
	}
	o.input.keepExited = true
	c := diff.New(sides, o.Options)
	if len(o.input.paths) > len(sides) {
		return o.compareMany(c, sides, stdout, stderr)
	}
	times, err := o.timesOf()
	if err != nil {
		return err
	}
	var incomplete error
	var warnings []func() error
	for i, path := range o.input.paths {
		one := o.input
		one.filters.times = times[i]
		in, err := one.openPath(path, stderr)
		if err != nil {
			return err
		}
		defer in.Close()
		hists, skipped, err := c.Histograms(in.session)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		c.Add(i, 0, in.session, hists)
		warnings = append(warnings, func() error { return in.warn(stderr, skipped) })
	}
	err = writeDiff(c, stdout, stderr)
	for _, warn := range warnings {
		incomplete = cmp.Or(incomplete, warn())
	}
	return cmp.Or(err, incomplete)
}

// compareMany compares sides of several recordings, of which few are open at a time.
func (o *diffFlags) compareMany(c *diff.Comparison, sides [][]string, stdout, stderr io.Writer) error {
	if strings.Contains(o.input.filters.times, ":") {
		return cli.WrongUse("--time %s: one range for each side is for sides of one recording", o.input.filters.times)
	}
	m, err := o.input.readMany(o.input.paths, stderr, nil)
	if err != nil {
		return err
	}
	m.needsAll = true
	if m.failed > 0 {
		return errReported // the means of a side are means of all its recordings
	}
	i, j := 0, 0
	err = countMany(m, func(in *openInput, _ *source) ([]*report.Hist, format.Skipped, error) {
		return c.Histograms(in.session)
	}, func(in *openInput, hists []*report.Hist) {
		for j == len(sides[i]) {
			i, j = i+1, 0
		}
		c.Add(i, j, in.session, hists)
		j++
	})
	if err == nil {
		err = writeDiff(c, stdout, stderr)
	}
	incomplete := m.close()
	return cmp.Or(err, incomplete)
}

// writeDiff writes the tables, and how the compared events differ.
func writeDiff(c *diff.Comparison, stdout, stderr io.Writer) error {
	for _, notice := range c.Notices() {
		fmt.Fprintf(stderr, "gperf diff: %s\n", notice)
	}
	return c.Write(stdout)
}

// timesOf returns the value of --time for each recording. Like perf, it reads a list that contains ":" as one range for
// each recording.
func (o *diffFlags) timesOf() ([]string, error) {
	times := strings.Split(o.input.filters.times, ":")
	if len(times) == 1 {
		times = slices.Repeat(times, len(o.input.paths))
	}
	if len(times) != len(o.input.paths) {
		return nil, cli.WrongUse("--time %s: name one range for each of the %d recordings, as 10,12:50,52",
			o.input.filters.times, len(o.input.paths))
	}
	return times, nil
}

// apply converts the flags to diff.Options and checks them.
func (o *diffFlags) apply(sides [][]string) error {
	o.Verbose = o.input.verbose
	o.Noise = o.Noise || len(o.input.paths) > len(sides)
	method, weights, _ := strings.Cut(o.compute, ":")
	switch method {
	case "delta-abs":
	case "delta":
		o.Compute = diff.Delta
	case "ratio":
		o.Compute = diff.Ratio
	case "wdiff":
		o.Compute = diff.Weighted
		if _, err := fmt.Sscanf(weights, "%d,%d", &o.Weights[0], &o.Weights[1]); err != nil {
			return cli.WrongUse("--compute %s: name two weights, as wdiff:1,2", o.compute)
		}
	case "cycles":
		return cli.WrongUse("--compute cycles: gperf diff does not compare cycles of basic blocks; use delta-abs, " +
			"delta, ratio or wdiff:W1,W2")
	default:
		return cli.WrongUse("--compute %s: use delta-abs, delta, ratio or wdiff:W1,W2", o.compute)
	}
	if o.By = o.order; o.order < 0 || o.order >= len(sides) {
		return cli.WrongUse("--order %d: there are %d recordings, from 0 on", o.order, len(sides))
	}
	switch o.percent {
	case "absolute":
	case "relative":
		o.Relative = true
	default:
		return cli.WrongUse("--percentage %s: use absolute or relative", o.percent)
	}
	if !slices.Contains(stackFormats, o.formats.format) {
		return cli.WrongUse("--format %s: use text, folded, pprof, flamegraph or svg", o.formats.format)
	}
	if o.formats.stacks() && (o.dsos != "" || o.symbols != "") {
		return cli.WrongUse("--dsos and --symbols are for --format text")
	}
	if len(o.Separator) > 1 || o.Separator == "." {
		return cli.WrongUse("--field-separator %q: use one character other than '.'", o.Separator)
	}
	return nil
}

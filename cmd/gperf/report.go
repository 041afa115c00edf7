package main

import (
	"cmp"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/tui"
	"gperf/format"
	"gperf/internal/inspect"
	"gperf/internal/session"
	"gperf/report"
	"gperf/report/key"
	"gperf/report/spans"
	"gperf/script"
)

// reportFlags holds the flags of `gperf report`.
type reportFlags struct {
	input   inputFlags
	formats formatFlags
	report.Options
	children bool
	graph    string
	noGraph  bool
	inverted bool
	dsos     string
	symbols  string
	parent   string
	head     headerFlags
	view     displayFlags
	stats    bool
	latHist  bool

	branches, noBranches, branchHistory bool
	memory                              bool
	idle                                bool
	slowest                             int
	why                                 float64 // percentile, 0 for none
	where                               string  // of spans that are explained
	group, noGroup                      bool
}

// graphDefault is the default value of -g.
const graphDefault = "graph,0.5,caller,function,percent"

func (o *reportFlags) add(c *cobra.Command) {
	o.input.addTo(c)
	cli.AddFlags(c, "Table", o.addTable)
	cli.AddFlags(c, "Callchains", o.addCallchains)
	cli.AddFlags(c, "Selection", func(s *pflag.FlagSet) {
		s.StringVarP(&o.dsos, "dsos", "d", "", "show only samples in these DSOs, a `list`")
		s.StringVarP(&o.symbols, "symbols", "S", "", "show only samples in these functions, a `list`")
		s.BoolVar(&o.idle, "idle", false, "show waits of threads without work, too")
		o.view.addSelection(s)
	})
	cli.AddFlags(c, "Columns", func(s *pflag.FlagSet) {
		s.BoolVarP(&o.Samples, "show-nr-samples", "n", false, "show the number of samples of each entry")
		s.BoolVar(&o.Period, "show-total-period", false, "show the sum of periods of each entry")
		s.BoolVar(&o.CPUModes, "show-cpu-utilization", false, "show the shares of kernel and user space")
		s.BoolVar(&o.CPUModes, "showcpuutilization", false, "") // the name in perf's manual
		s.StringVarP(&o.Separator, "field-separator", "t", "", "separate columns by this `char`, without padding")
		cli.Hide(s, "showcpuutilization")
		o.view.addColumns(s)
	})
	cli.AddFlags(c, "Other output", func(s *pflag.FlagSet) {
		o.head.add(s)
		s.BoolVar(&o.stats, "stats", false, "print only the numbers of records and samples by type")
		o.view.addOther(s)
	})
	cli.AddFlags(c, "Formats for other tools", o.formats.add)
	cli.AddFlags(c, "Formats for other tools", o.formats.addRows)
	cli.AddFlags(c, cli.General, o.view.addGeneral)
}

func (o *reportFlags) addTable(s *pflag.FlagSet) {
	s.StringVarP(&o.Sort, "sort", "s", "", "sort by these `keys` (gperf help sort)")
	s.StringVarP(&o.Fields, "fields", "F", "", "show these `keys` as columns (gperf help sort)")
	s.StringVarP(&o.parent, "parent", "p", report.DefaultParent, "key parent: this `regex`")
	s.BoolVar(&o.RawTrace, "raw-trace", false, "print tracepoint fields as raw numbers")
	s.BoolVarP(&o.branches, "branch-stack", "b", false, "count branches (default for recordings with -b)")
	s.BoolVar(&o.noBranches, "no-branch-stack", false, "count samples even if branches were recorded")
	s.BoolVar(&o.branchHistory, "branch-history", false, "add the branches of samples to callchains")
	s.BoolVar(&o.memory, "mem-mode", false, "count memory accesses by their weights")
	s.BoolVar(&o.group, "group", false, "show all events in one table, as a recorded group")
	s.BoolVar(&o.noGroup, "no-group", false, "show each event of a group in its own table")
	s.BoolVar(&o.latHist, "latency-hist", false, "print histograms of the durations of spans, by --sort")
	s.IntVar(&o.slowest, "slowest", 0, "print the `n` longest spans, and why they were long")
	s.Float64Var(&o.why, "why", 0, "compare spans above this `percentile` (99) with others")
	s.SetAnnotation("why", cli.BareKey, []string{"--why=99"})
	s.BoolVar(&o.FullPath, "full-source-path", false, "keys srcline, srcfile: show the full path")
	addViews(s)
	o.view.addTable(s)
}

func (o *reportFlags) addCallchains(s *pflag.FlagSet) {
	s.StringVarP(&o.graph, "call-graph", "g", "graph", "use this `form`, see above")
	s.SetAnnotation("call-graph", cli.BareKey, []string{"--call-graph=" + graphDefault})
	s.BoolVar(&o.noGraph, "no-call-graph", false, "do not show callchains, as -g none")
	s.BoolVarP(&o.inverted, "inverted", "G", false, "start callchains at the caller, as -g caller")
	s.BoolVar(&o.children, "children", true, "callers include the samples of their callees")
	s.BoolVar(&o.NoChildren, "no-children", false, "count samples only in the function itself")
	s.IntVar(&o.MaxStack, "max-stack", maxStack, maxStackHelp)
	o.view.addCallchains(s)
	cli.Hide(s, "children")
}

func reportCommand() *cobra.Command {
	var o reportFlags
	c := readCommand(cli.GroupAnalyse, "report", "count samples by command, DSO, symbol or tracepoint field")
	o.add(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return unknownSortKey(o.run(c.Flags(), c.OutOrStdout(), c.ErrOrStderr()))
	}
	return c
}

// unknownSortKey adds sort keys similar to an unknown one, or all keys, to an error of package report; it returns
// other errors as they are.
func unknownSortKey(err error) error {
	var e *report.KeyError
	switch {
	case !errors.As(err, &e):
		return err
	case e.Mode != report.ModeSamples:
		return cli.WrongUse("%v", err)
	}
	return cli.WrongUse("%v%s", err, suggestion(e.Key, slices.Concat(e.Fields, report.Keys()), "the keys are"))
}

func (o *reportFlags) run(s *pflag.FlagSet, stdout, stderr io.Writer) error {
	for _, name := range []string{"sort", "fields"} {
		if s.Changed(name) && s.Lookup(name).Value.String() == "" {
			return cli.WrongUse("--%s '': name one key or more, such as comm,symbol (gperf help sort)", name)
		}
	}
	if err := o.formats.check(s, reportNames); err != nil {
		return err
	}
	err := o.apply()
	if err == nil {
		o.Look, err = lookOf(stdout, o.view.color)
	}
	screen := false
	if err == nil {
		screen, err = mayBrowse(s, stdout)
	}
	if err != nil {
		return err
	}
	switch {
	case s.Changed("slowest") && o.slowest <= 0:
		return cli.WrongUse("--slowest %d: use a number above 0", o.slowest)
	case s.Changed("why") && (o.why <= 0 || o.why >= 100):
		return cli.WrongUse("--why %v: use a percentile between 0 and 100, such as 99", o.why)
	}
	explains := o.slowest > 0 || o.why > 0
	o.input.filters.hideWaits = !o.idle && o.formats.sums() && !explains
	if f := &o.input.filters; explains { // --filter selects spans, not what is in them
		o.where, f.expression, f.kinds = f.where(), "", ""
	}
	if o.formats.stacks() {
		if o.Sort != "" {
			o.formats.byFlag = "--sort"
		}
		o.formats.by = strings.Trim(o.formats.by+","+o.Sort, ",+")
		o.formats.quantum = o.TimeQuantum
		return o.formats.run("report", &o.input, o.MaxStack, stdout, stderr)
	}
	if err := o.input.filters.toEntries(&o.Filter, o.dsos, o.symbols); err != nil {
		return err
	}
	if o.view.quiet {
		stderr, o.head.header, o.head.headerOnly = io.Discard, false, false
	}
	o.input.keepExited = true
	paths, err := o.input.inputs()
	if err != nil {
		return err
	}
	if len(paths) > 1 {
		return o.runMany(paths, s, stdout, stderr)
	}
	in, err := o.input.openPath(paths[0], stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	in.lines = strings.Contains(o.Sort+o.Fields, "src")
	if !s.Changed("max-stack") {
		o.MaxStack = in.recordedDepth()
	}
	if done, err := o.head.print(stdout, in); done || err != nil {
		return cmp.Or(err, in.warn(stderr, format.Skipped{}))
	}
	o.Options.Weight = o.input.filters.weight
	o.Options.Header, o.Options.Verbose, o.Parents.Show = o.head.header, o.input.verbose, s.Changed("parent")
	if o.formats.format == "csv" {
		return o.csv(in, stdout, stderr)
	}
	if list, err := o.listing(s, in.recording.File); list != nil || err != nil {
		if err != nil {
			return err
		}
		skipped, err := list(stdout, in)
		incomplete := in.warn(stderr, skipped)
		return cmp.Or(unknownKey("--sort", err), incomplete)
	}
	keys, ok := browsedKeys(in.recording.File, o.Sort)
	if screen && ok && !in.recording.File.Has(format.FeatureBranchStack) {
		return in.browse("report", &o.input, tui.Options{Keys: keys, Limit: o.PercentLimit, Search: o.SymbolFilter,
			Children: !o.NoChildren},
			tui.Recording{MaxStack: o.MaxStack, NoInline: !o.Inline}, o.Filter, stdout, stderr)
	}
	if s.Changed("call-graph") && o.Graph.Mode != report.GraphNone && !in.recording.File.Pipe && !o.hasGraph(in) {
		return errors.New("the recording has no callchains: record them with -g")
	}
	skipped, err := report.Text(stdout, in.session, o.Options)
	incomplete := in.warn(stderr, skipped)
	if errors.Is(err, report.ErrNoSamples) {
		in.warnNoSamples("report", incomplete, stderr)
		err = nil
	}
	return cmp.Or(err, incomplete)
}

// csv writes the table for other tools.
func (o *reportFlags) csv(in *openInput, stdout, stderr io.Writer) error {
	if err := o.formats.checkOutput(&o.input, stdout); err != nil {
		return err
	}
	var skipped format.Skipped
	err := o.formats.write(stdout, func(w io.Writer) (err error) {
		skipped, err = report.CSV(w, in.session, o.Options)
		return err
	})
	incomplete := in.warn(stderr, skipped)
	return cmp.Or(err, incomplete)
}

// lister prints a list instead of the report.
type lister func(io.Writer, *openInput) (format.Skipped, error)

// listing returns the list that the flags ask for, or nil.
func (o *reportFlags) listing(s *pflag.FlagSet, f *format.File) (lister, error) {
	if err := o.checkSelection(s); err != nil {
		return nil, err
	}
	opts := key.Options{Words: cli.Words(o.Sort), Quantum: o.TimeQuantum}
	chains := slices.ContainsFunc(f.Attrs, func(a format.Attr) bool { return a.SampleType&format.SampleCallchain != 0 })
	switch tasks := o.view.tasks || o.view.mmaps; {
	case tasks && o.stats:
		return nil, cli.WrongUse("--tasks and --mmaps cannot be used together with --stats")
	case tasks:
		return func(w io.Writer, in *openInput) (format.Skipped, error) {
			return report.Tasks(w, in.session, o.view.mmaps)
		}, nil
	case o.view.dump:
		return o.dump, nil
	case o.stats:
		return func(w io.Writer, in *openInput) (format.Skipped, error) { return inspect.Stats(w, in.session) }, nil
	case o.latHist:
		return o.spans(spans.Histograms, opts), nil
	case o.slowest > 0:
		return o.spans(spans.Slowest(o.slowest, o.where), opts), nil
	case o.why > 0:
		return o.spans(spans.Why(o.why, o.where), opts), nil
	case o.head.header || slices.ContainsFunc(tableFlags, s.Changed):
	case spans.AllSpans(f) && !report.HasFigures(o.Sort) && (o.Sort != "" || !spans.Summarizes(f) && !chains):
		opts.Words = cli.Words(cmp.Or(o.Sort, "event"))
		return o.spans(spans.Table, opts), nil
	case spans.Summarizes(f):
		return o.spans(spans.Summary, opts), nil
	}
	return nil, nil
}

// tableFlags lists the flags that make the report of spans a table like other events'.
var tableFlags = []string{"fields", "call-graph", "no-call-graph", "inverted", "children", "no-children",
	"hierarchy", "weight", "dsos", "symbols", "symbol-filter", "percent-limit", "field-separator", "latency", "quiet",
	"show-nr-samples", "show-total-period", "raw-trace", "parent", "threads", "parallelism", "group", "column-widths",
	"exclude-other", "hide-unresolved"}

// spans returns a list of spans that records why the filters selected no sample.
func (o *reportFlags) spans(write func(io.Writer, *session.Session, spans.Keep, key.Options) (format.Skipped, error),
	opts key.Options) lister {
	return func(w io.Writer, in *openInput) (format.Skipped, error) {
		defer func() { in.session.Misses = o.Filter.Misses() }()
		return write(w, in.session, o.Filter.Selects, opts)
	}
}

// Flags that select samples, flags about the entries of a table, and those that explain spans.
var (
	selectionFlags = []string{"cpu", "pid", "tid", "comms", "no-idle", "idle", "kind", "time", "filter", "dsos",
		"symbols"}
	entryFlags = []string{"symbol-filter", "percent-limit", "exclude-other", "hide-unresolved", "weight",
		"parallelism"}
	explainFlags = []string{"slowest", "why"}
)

// checkSelection refuses flags that select less than a list shows.
func (o *reportFlags) checkSelection(s *pflag.FlagSet) error {
	for _, list := range []string{"tasks", "mmaps", "dump-raw-trace", "stats"} {
		if err := refuse(s, list, "all records", selectionFlags, entryFlags, explainFlags); err != nil {
			return err
		}
	}
	return cmp.Or(refuse(s, "latency-hist", "durations", entryFlags, explainFlags),
		refuse(s, "slowest", "single spans", entryFlags, []string{"sort", "why"}),
		refuse(s, "why", "spans by function or system call", entryFlags, []string{"sort"}))
}

// refuse returns an error if one of the flags is given together with the flag of a view, which they have no effect on.
func refuse(s *pflag.FlagSet, view, shows string, flags ...[]string) error {
	if f := s.Lookup(view); f.Value.String() == f.DefValue {
		return nil
	}
	refused := slices.Concat(flags...)
	if i := slices.IndexFunc(refused, s.Changed); i >= 0 {
		return cli.WrongUse("--%s shows %s: it cannot be used together with --%s", view, shows, refused[i])
	}
	return nil
}

// dump prints all records. For input that can be read twice, it also counts them.
func (o *reportFlags) dump(w io.Writer, in *openInput) (format.Skipped, error) {
	if !o.view.quiet && !o.head.header {
		if _, err := io.WriteString(w, report.HeaderHint); err != nil {
			return format.Skipped{}, err
		}
	}
	skipped, err := script.Dump(w, in.session, in.recording.Path)
	if err != nil || len(in.recording.Parts) == 0 {
		return skipped, err
	}
	_, err = inspect.Stats(w, in.session)
	return skipped, err
}

// apply converts the flags to report.Options and checks them.
func (o *reportFlags) apply() error {
	o.NoChildren = o.NoChildren || !o.children
	o.Inline = !o.formats.noInline
	if err := o.Graph.Set(o.graph); err != nil {
		return cli.WrongUse("--call-graph %s: %v", o.graph, err)
	}
	if o.noGraph {
		o.Graph.Mode = report.GraphNone
	}
	if o.inverted {
		o.Graph.Order = report.Caller
	}
	if o.view.percentLimit != "" {
		limit, err := cli.PercentLimit(o.view.percentLimit)
		if err != nil {
			return err
		}
		o.PercentLimit, o.Graph.Percent = limit, limit
	}
	if o.MaxStack < 0 {
		return cli.WrongUse("--max-stack %d is negative", o.MaxStack)
	}
	if len(o.Separator) > 1 || o.Separator == "." {
		return cli.WrongUse("--field-separator %q: use one character other than '.', which replaces it in names",
			o.Separator)
	}
	if err := o.applyMode(); err != nil {
		return err
	}
	return o.view.apply(&o.Options)
}

// applyMode chooses between samples, branches and memory accesses, and how to show groups.
func (o *reportFlags) applyMode() error {
	switch {
	case o.branchHistory && (o.branches || o.memory):
		return cli.WrongUse("--branch-history, -b and --mem-mode exclude each other")
	case o.branches && o.memory:
		return cli.WrongUse("-b and --mem-mode exclude each other")
	case o.branches:
		o.Mode = report.ModeBranches
	case o.memory:
		o.Mode = report.ModeMemory
	case o.branchHistory:
		o.SetBranchHistory()
	}
	var err error
	if o.Parents.Match, err = regexp.Compile(o.parent); err != nil {
		return cli.WrongUse("--parent: %v", err)
	}
	if o.noBranches {
		o.Branches = report.BranchesOff
	}
	switch {
	case o.noGroup:
		o.Groups = report.GroupsApart
	case o.group:
		o.Groups = report.GroupsTogether
	}
	return nil
}

// hasGraph reports whether a recording contains callchains, or branches that the report adds to them.
func (o *reportFlags) hasGraph(in *openInput) bool {
	return in.hasCallchains() || o.Graph.Branches && in.hasBranches()
}

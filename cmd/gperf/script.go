package main

import (
	"cmp"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/internal/procfs"
	"gperf/internal/session"
	"gperf/report/spans"
	"gperf/script"
)

// scriptFlags holds the flags of `gperf script`.
type scriptFlags struct {
	input      inputFlags
	formats    formatFlags
	fields     []string
	compat     string
	maxStack   int
	anyDepth   bool // --max-stack was not given
	noChain    bool
	ns         bool
	showUnwind bool
	fullPath   bool
	head       headerFlags
	lines      lineFlags
	dump       bool
	tree       treeFlags
	packets    hopFlags
	shown      [len(shownRecords)]bool
}

// shownRecords lists the flags that print records between the samples.
var shownRecords = [...]struct {
	name, usage string
	types       []format.Type
}{
	{"show-task-events", "print COMM, FORK and EXIT records",
		[]format.Type{format.TypeComm, format.TypeFork, format.TypeExit}},
	{"show-mmap-events", "print MMAP and MMAP2 records", []format.Type{format.TypeMmap, format.TypeMmap2}},
	{"show-switch-events", "print context switches", []format.Type{format.TypeSwitch, format.TypeSwitchCPUWide}},
	{"show-namespace-events", "print NAMESPACES records", []format.Type{format.TypeNamespaces}},
	{"show-cgroup-events", "print CGROUP records", []format.Type{format.TypeCgroup}},
	{"show-lost-events", "print LOST records", []format.Type{format.TypeLost}},
	{"show-bpf-events", "print KSYMBOL and BPF_EVENT records", []format.Type{format.TypeKSymbol, format.TypeBPFEvent}},
	{"show-text-poke-events", "print TEXT_POKE and KSYMBOL records",
		[]format.Type{format.TypeTextPoke, format.TypeKSymbol}},
	{"show-round-events", "print FINISHED_ROUND records; file order", []format.Type{format.TypeFinishedRound}},
}

func (o *scriptFlags) add(c *cobra.Command) {
	o.input.addTo(c)
	cli.AddFlags(c, "Selection", func(s *pflag.FlagSet) { o.lines.where.add(s, "") })
	cli.AddFlags(c, "Lines", func(s *pflag.FlagSet) {
		s.StringArrayVarP(&o.fields, "fields", "F", nil, "print these `fields` (gperf help fields)")
		s.StringVar(&o.compat, "compat", "7.3", "print as `perf` 7.3 or 6.1 does")
		s.BoolVar(&o.ns, "ns", false, "print times in nanoseconds")
		s.BoolVar(&o.fullPath, "full-source-path", false, "print the full path in fields srcline and srcfile")
		o.lines.add(s)
	})
	cli.AddFlags(c, "Callchains", func(s *pflag.FlagSet) {
		s.IntVar(&o.maxStack, "max-stack", perfMaxStack, maxStackHelp)
		s.BoolVarP(&o.noChain, "hide-call-graph", "G", false, "print the sampled address only, without the callchain")
		s.BoolVar(&o.showUnwind, "show-unwind", false, "print after each callchain how unwinding ended")
		s.StringVar(&o.lines.stopAt, "stop-bt", "", "end callchains at these functions, a `list`")
	})
	cli.AddFlags(c, "Spans", o.tree.add)
	cli.AddFlags(c, "Packets", o.packets.add)
	cli.AddFlags(c, "Other records", func(s *pflag.FlagSet) {
		for i, f := range shownRecords {
			s.BoolVar(&o.shown[i], f.name, false, f.usage)
		}
	})
	cli.AddFlags(c, "Other output", func(s *pflag.FlagSet) {
		o.head.add(s)
		s.BoolVarP(&o.dump, "dump-raw-trace", "D", false, "print the offset, bytes and fields of each record")
		s.BoolVarP(&o.lines.list, "list", "l", false, "list perf's scripts that gperf implements")
		cli.AddIdle(s, cli.ScriptIdle)
	})
	cli.AddFlags(c, "Formats for other tools", o.formats.add)
}

// treeFlags print spans as a tree.
type treeFlags struct {
	on    bool
	depth int
	min   string
}

func (o *treeFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&o.on, "tree", false, "print the spans of each thread as a tree, with self times")
	s.IntVar(&o.depth, "max-depth", 0, "with --tree: print `n` levels, 0 for all")
	s.StringVar(&o.min, "min", "", "with --tree: omit spans shorter than this `time`")
}

// options checks the flags.
func (o *treeFlags) options() (spans.TreeOptions, error) {
	opts := spans.TreeOptions{MaxDepth: o.depth}
	if o.depth < 0 {
		return opts, cli.WrongUse("--max-depth %d is negative", o.depth)
	}
	if !o.on && (o.depth > 0 || o.min != "") {
		return opts, cli.WrongUse("--max-depth and --min are for --tree")
	}
	if o.min != "" {
		shortest, err := time.ParseDuration(o.min)
		if err != nil || shortest < 0 {
			return opts, cli.WrongUse("--min %s: use a number with ns, us, ms or s, such as 10us", o.min)
		}
		opts.Min = uint64(shortest)
	}
	return opts, nil
}

func scriptCommand() *cobra.Command {
	var o scriptFlags
	c := readCommand(cli.GroupAnalyse, "script", "print samples as text, or stacks (folded, pprof, flamegraph)")
	o.add(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := cmp.Or(o.packets.check(c.Flags()), o.formats.check(c.Flags(), formatNames)); err != nil {
			return err
		}
		if _, err := o.tree.options(); err != nil {
			return err
		}
		where := []string{"dsos", "symbols", "addr-range"}
		err := cmp.Or(refuse(c.Flags(), "dump-raw-trace", "all records", where, selectionFlags),
			refuse(c.Flags(), "packets", "packets", where))
		if err != nil {
			return err
		}
		o.anyDepth = !c.Flags().Changed("max-stack")
		if o.lines.list {
			return listScripts(c.OutOrStdout(), c.ErrOrStderr())
		}
		return o.run(c.OutOrStdout(), c.ErrOrStderr())
	}
	return c
}

func (o *scriptFlags) run(stdout, stderr io.Writer) error {
	opts, err := o.options()
	if err != nil {
		return err
	}
	if o.formats.stacks() {
		if o.anyDepth {
			o.maxStack = maxStack
		}
		return o.formats.run("script", &o.input, o.maxStack, stdout, stderr)
	}
	if o.packets.on {
		return o.packets.print(&o.input, opts.Nanosecs, stdout, stderr)
	}
	o.input.keepExited = opts.Compat == script.Perf6
	paths, err := o.input.inputs()
	if err != nil {
		return err
	}
	if len(paths) > 1 {
		return o.printMany(paths, opts, stdout, stderr)
	}
	in, err := o.input.openPath(paths[0], stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	skipped, err := o.printOne(stdout, in, opts)
	incomplete := in.warn(stderr, skipped)
	return cmp.Or(err, incomplete)
}

func (o *scriptFlags) printOne(stdout io.Writer, in *openInput, opts script.Options) (format.Skipped, error) {
	in.lines = opts.Fields.Asks(script.FieldSrcline | script.FieldSrcfile)
	if o.anyDepth {
		opts.MaxStack = in.recordedDepth()
	}
	return o.print(stdout, in, opts)
}

// printMany prints several recordings, one after the other.
func (o *scriptFlags) printMany(paths []string, opts script.Options, stdout, stderr io.Writer) error {
	m, err := o.input.readMany(paths, stderr, nil)
	if err != nil {
		return err
	}
	err = m.each(func(in *openInput, _ *source) (format.Skipped, error) { return o.printOne(stdout, in, opts) })
	incomplete := m.close()
	return cmp.Or(err, incomplete)
}

func (o *scriptFlags) options() (script.Options, error) {
	opts := script.Options{MaxStack: o.maxStack, NoChain: o.noChain, Nanosecs: o.ns, ShowUnwind: o.showUnwind,
		Source: script.Source{Inline: !o.formats.noInline, FullPath: o.fullPath}}
	if err := errors.Join(o.showRecords(&opts), o.lines.options(&opts)); err != nil {
		return opts, err
	}
	for _, arg := range o.fields {
		if err := opts.Fields.ParseFields(arg); err != nil {
			hint := ""
			if unknown := new(script.FieldError); errors.As(err, &unknown) {
				hint = suggestion(unknown.Name, script.FieldNames(), "the fields are")
			}
			return opts, cli.WrongUse("-F %s: %v%s", arg, err, hint)
		}
	}
	switch o.compat {
	case "7.3", "7":
	case "6.1", "6":
		opts.Compat = script.Perf6
	default:
		return opts, cli.WrongUse("--compat %s: use 7.3 or 6.1", o.compat)
	}
	if o.maxStack < 0 {
		return opts, cli.WrongUse("--max-stack %d is negative", o.maxStack)
	}
	return opts, nil
}

// showRecords sets the records to print between the samples. As in perf, --cpu is the only
// filter that applies to them.
func (o *scriptFlags) showRecords(opts *script.Options) (err error) {
	for i, f := range shownRecords {
		if o.shown[i] {
			opts.Records = append(opts.Records, f.types...)
		}
	}
	if o.input.filters.cpus != "" {
		if opts.RecordCPUs, err = procfs.ParseCPUList(o.input.filters.cpus); err != nil {
			return cli.WrongUse("--cpu %s: %v", o.input.filters.cpus, err)
		}
	}
	return nil
}

func (o *scriptFlags) print(stdout io.Writer, in *openInput, opts script.Options) (format.Skipped, error) {
	if done, err := o.head.print(stdout, in); done || err != nil {
		return format.Skipped{}, err
	}
	if o.dump {
		return script.Dump(stdout, in.session, in.recording.Path)
	}
	if o.tree.on {
		limits, err := o.tree.options()
		if err != nil {
			return format.Skipped{}, err
		}
		if !opts.Where.All() {
			limits.Keep = func(s *session.Sample) bool { return opts.Where.Matches(s.Leaf) }
		}
		skipped, err := spans.Tree(stdout, in.session, limits)
		in.session.Misses = opts.Where.Misses()
		return skipped, err
	}
	if o.lines.perEvent {
		return o.printPerEvent(stdout, in, opts)
	}
	return script.Print(stdout, in.session, opts)
}

// printPerEvent prints the samples of each event to a separate file.
func (o *scriptFlags) printPerEvent(stdout io.Writer, in *openInput, opts script.Options) (format.Skipped, error) {
	var err error
	if opts.Events, err = createEventFiles(in.recording.Path, in.recording.File); err != nil {
		return format.Skipped{}, err
	}
	skipped, err := script.Print(stdout, in.session, opts)
	if cerr := closeEventFiles(opts.Events); err == nil {
		err = cerr
	}
	if err == nil {
		err = printEventFiles(stdout, opts.Events)
	}
	return skipped, err
}

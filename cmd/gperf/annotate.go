package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/tui"
	"gperf/report"
	"gperf/report/annotate"
	"gperf/report/annotate/disasm"
)

// annotateFlags holds the flags of `gperf annotate`.
type annotateFlags struct {
	input inputFlags
	annotate.Options
	symbol       string
	dsos         string
	style        string
	percentType  string
	percentLimit string
	source       bool
	samples      bool
	period       bool
	color        string
}

func (o *annotateFlags) add(c *cobra.Command) {
	o.input.addTo(c)
	cli.AddFlags(c, "Functions", func(s *pflag.FlagSet) {
		s.StringVarP(&o.symbol, "symbol", "s", "", "annotate this `symbol`, as the argument")
		s.StringVarP(&o.dsos, "dsos", "d", "", "annotate only functions of these DSOs, a `list`")
		s.BoolVarP(&o.Callers, "children", "g", false, "callers include the samples of their callees")
		s.IntVar(&o.Context, "context", 10, "`n` instructions around an address")
		s.StringVar(&o.percentLimit, "percent-limit", "", "hide functions below this `percent`")
	})
	cli.AddFlags(c, "Columns", func(s *pflag.FlagSet) {
		s.BoolVarP(&o.samples, "show-nr-samples", "n", false, "print numbers of samples instead of percentages")
		s.BoolVar(&o.period, "show-total-period", false, "print sums of periods instead of percentages")
		addColor(s, &o.color)
		s.StringVar(&o.percentType, "percent-type", "local-period", "`type` local|global-period|hits")
	})
	cli.AddFlags(c, "Code", o.addCode)
	cli.AddFlags(c, cli.General, func(s *pflag.FlagSet) { cli.AddIdle(s, cli.AnnotateIdle) })
}

func (o *annotateFlags) addCode(s *pflag.FlagSet) {
	s.StringVarP(&o.style, "disassembler-style", "M", "att", "use this `style`: att or intel")
	s.BoolVar(&o.Raw, "asm-raw", false, "print the bytes of instructions")
	s.BoolVar(&o.source, "source", true, "print source lines between the instructions")
	s.BoolVarP(&o.NoSource, "no-source", "S", false, "do not print source lines")
	s.BoolVarP(&o.Lines, "print-line", "l", false, "sum up source lines first, and print them")
	s.BoolVarP(&o.FullPaths, "full-paths", "P", false, "print full paths of source files")
	s.StringVar(&o.Sources.Prefix, "prefix", "", "read source files below this `directory`")
	s.IntVar(&o.Sources.Strip, "prefix-strip", 0, "with --prefix: strip `n` directories of paths")
	addViews(s)
	s.String("objdump", "", "")
	s.Bool("skip-missing", false, "")
	s.BoolP("quiet", "q", false, "")
	cli.Hide(s, "source", "objdump", "skip-missing", "quiet")
}

func annotateCommand() *cobra.Command {
	var o annotateFlags
	c := cli.NewCommand(cli.GroupAnalyse, "annotate [FLAGS] [SYMBOL|SYMBOL+OFFSET|ADDRESS]",
		"print the instructions of functions with their samples")
	o.add(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := o.apply(args); err != nil {
			return err
		}
		err := o.run(c.Flags(), c.OutOrStdout(), c.ErrOrStderr())
		var offset *annotate.OffsetError
		if errors.As(err, &offset) {
			return cli.WrongUse("%v", err)
		}
		return err
	}
	return c
}

// apply converts the flags to annotate.Options and checks them.
func (o *annotateFlags) apply(args []string) (err error) {
	if o.symbol != "" {
		args = append([]string{o.symbol}, args...)
	}
	if len(args) > 0 && isRecordingName(args[0]) && len(o.input.paths) == 0 {
		o.input.paths, args = args[:1], args[1:]
	}
	switch {
	case len(args) > 1:
		return cli.WrongUse("unexpected argument %q: give one symbol or address, and the file with -i", args[1])
	case len(args) == 1:
		if o.Place, err = annotate.ParsePlace(args[0]); err != nil {
			return cli.WrongUse("%v", err)
		}
	}
	if o.PercentLimit, err = cli.PercentLimit(o.percentLimit); err != nil {
		return err
	}
	if o.Context < 0 {
		return cli.WrongUse("--context %d is negative", o.Context)
	}
	if o.Sources.Strip < 0 {
		return cli.WrongUse("--prefix-strip %d is negative", o.Sources.Strip)
	}
	o.NoSource = o.NoSource || !o.source
	o.DSOs = cli.Words(o.dsos)
	return o.applyShown()
}

// isRecordingName reports whether an argument names a recording rather than a function.
func isRecordingName(arg string) bool {
	_, err := os.Stat(arg)
	return strings.HasSuffix(arg, ".data") || err == nil && strings.Contains(arg, "/")
}

// applyShown applies -M, --percent-type and the flags that choose the column.
func (o *annotateFlags) applyShown() error {
	switch o.style {
	case "att":
	case "intel":
		o.Syntax = disasm.Intel
	default:
		return cli.WrongUse("-M %s: use att or intel", o.style)
	}
	switch {
	case o.samples && o.period:
		return cli.WrongUse("--show-nr-samples and --show-total-period exclude each other")
	case o.samples:
		o.Column = annotate.Samples
	case o.period:
		o.Column = annotate.Periods
	}
	of, by, _ := strings.Cut(o.percentType, "-")
	if of != "local" && of != "global" || by != "period" && by != "hits" {
		return cli.WrongUse("--percent-type %s: use local-period, local-hits, global-period or global-hits",
			o.percentType)
	}
	o.Percent = annotate.PercentType{Global: of == "global", Hits: by == "hits"}
	return nil
}

func (o *annotateFlags) run(s *pflag.FlagSet, stdout, stderr io.Writer) error {
	o.input.keepExited = true
	screen, err := mayBrowse(s, stdout)
	if err == nil {
		o.Look, err = lookOf(stdout, o.color)
	}
	if err != nil {
		return err
	}
	in, err := o.input.open("annotate", stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	if screen && !o.Place.IsAddress() {
		return in.browse("annotate", &o.input, tui.Options{Function: o.Place.String(), Keys: []string{"symbol"}},
			tui.Recording{MaxStack: maxStack, Annotate: o.Options}, report.Filter{}, stdout, stderr)
	}
	skipped, missing, err := annotate.Text(stdout, in.session, o.Options)
	incomplete := in.warn(stderr, skipped)
	for _, m := range missing {
		fmt.Fprintf(stderr, "gperf annotate: %v\n%s", m, hintOf(m))
	}
	if errors.Is(err, annotate.ErrNoSamples) {
		return fmt.Errorf("%s has no samples", in.recording.Path)
	}
	return cmp.Or(err, incomplete)
}

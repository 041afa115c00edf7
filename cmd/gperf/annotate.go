package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"gperf/report/annotate"
	"gperf/symbolize/disasm"
)

// annotateFlags are the flags of `gperf annotate`.
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
}

const annotateUsage = "[FLAGS] [SYMBOL|SYMBOL+OFFSET|ADDRESS]"

const annotateHelp = `Prints the code of functions, as perf annotate --stdio does: each instruction with its part of the function's
samples, among the lines of its source where they are known. Without a SYMBOL, all functions in which samples were
taken, the most sampled first. It takes no debug information, and no objdump.

Of a tracepoint's samples, places in its fields count besides what was sampled: the location of skb:kfree_skb. SYMBOL+OFFSET
and ADDRESS, as gperf script prints them, show the instructions around that one place, and > marks the call that returns
there. So a dropped packet leads to the call that dropped it:

    gperf annotate __udp4_lib_rcv+0x4bc

Kernel code is read from a vmlinux with the recorded build ID, or from /proc/kcore if that kernel is running.`

func (o *annotateFlags) set() *pflag.FlagSet {
	s := newFlagSet("annotate")
	o.input.add(s)
	s.StringVarP(&o.symbol, "symbol", "s", "", "the `symbol` to annotate, instead of the argument")
	s.StringVarP(&o.dsos, "dsos", "d", "", "only functions of these DSOs, a `list`")
	s.BoolVarP(&o.Callers, "children", "g", false, "count the calls in callchains, too: callers have the samples of what they called")
	s.IntVar(&o.Context, "context", 10, "of one place, so many `instructions` before and after it")
	s.StringVarP(&o.style, "disassembler-style", "M", "att", "the `syntax` of x86 instructions: att or intel")
	s.BoolVar(&o.Raw, "asm-raw", false, "the bytes of the instructions")
	s.BoolVar(&o.source, "source", true, "source lines among the instructions")
	s.BoolVarP(&o.NoSource, "no-source", "S", false, "no source lines")
	s.BoolVarP(&o.Lines, "print-line", "l", false, "the samples of each source line ahead, and the line behind each instruction with samples")
	s.BoolVarP(&o.FullPaths, "full-paths", "P", false, "files with their folders")
	s.StringVar(&o.Sources.Prefix, "prefix", "", "source files lie in this `folder`")
	s.IntVar(&o.Sources.Strip, "prefix-strip", 0, "with --prefix, leave out so many `folders` of their paths")
	s.BoolVarP(&o.samples, "show-nr-samples", "n", false, "numbers of samples instead of percentages")
	s.BoolVar(&o.period, "show-total-period", false, "sums of periods instead of percentages")
	s.StringVar(&o.percentType, "percent-type", "local-period", "percentages of the function (local) or the event (global), by period or hits: `local-period`, local-hits, global-period, global-hits")
	s.StringVar(&o.percentLimit, "percent-limit", "", "leave out functions with less `percent` of the event")
	s.Bool("stdio", false, "")
	s.String("objdump", "", "")
	s.Bool("skip-missing", false, "")
	s.BoolP("quiet", "q", false, "")
	hide(s, "source", "stdio", "objdump", "skip-missing", "quiet")
	return s
}

func annotateCommand(args []string, stdout, stderr io.Writer) int {
	var o annotateFlags
	s := o.set()
	done, err := parseAll(s, args, annotateUsage, annotateHelp, stdout)
	return finish(s, done, err, stderr, func() error {
		if err := o.settle(s.Args()); err != nil {
			return err
		}
		err := o.run(stdout, stderr)
		var offset *annotate.OffsetError
		if errors.As(err, &offset) {
			return wrongUse("%v", err)
		}
		return err
	})
}

// settle makes the options of the flags that are more than one value.
func (o *annotateFlags) settle(args []string) (err error) {
	if o.symbol != "" {
		args = append([]string{o.symbol}, args...)
	}
	if len(args) > 0 && isRecordingName(args[0]) && len(o.input.paths) == 0 {
		o.input.paths, args = args[:1], args[1:]
	}
	switch {
	case len(args) > 1:
		return wrongUse("unexpected argument %q: one place is annotated at a time; a file is named with -i", args[1])
	case len(args) == 1:
		if o.Place, err = annotate.ParsePlace(args[0]); err != nil {
			return wrongUse("%v", err)
		}
	}
	if o.percentLimit != "" {
		o.PercentLimit, err = strconv.ParseFloat(strings.TrimSuffix(o.percentLimit, "%"), 64)
		if err != nil || o.PercentLimit < 0 {
			return wrongUse("--percent-limit %s: it is a number of percent", o.percentLimit)
		}
	}
	if o.Context < 0 {
		return wrongUse("--context %d is negative", o.Context)
	}
	if o.Sources.Strip < 0 {
		return wrongUse("--prefix-strip %d is negative", o.Sources.Strip)
	}
	o.NoSource = o.NoSource || !o.source
	o.DSOs = words(o.dsos)
	return o.settleShown()
}

// isRecordingName reports whether an argument is the name of a recording, and not of a
// function.
func isRecordingName(arg string) bool {
	_, err := os.Stat(arg)
	return strings.HasSuffix(arg, ".data") || err == nil && strings.Contains(arg, "/")
}

// settleShown chooses the syntax and the column.
func (o *annotateFlags) settleShown() error {
	switch o.style {
	case "att":
	case "intel":
		o.Syntax = disasm.Intel
	default:
		return wrongUse("-M %s: it is att or intel", o.style)
	}
	switch {
	case o.samples && o.period:
		return wrongUse("--show-nr-samples and --show-total-period: there is one column")
	case o.samples:
		o.Column = annotate.Samples
	case o.period:
		o.Column = annotate.Periods
	}
	of, by, _ := strings.Cut(o.percentType, "-")
	if of != "local" && of != "global" || by != "period" && by != "hits" {
		return wrongUse("--percent-type %s: it is local-period, local-hits, global-period or global-hits", o.percentType)
	}
	o.Percent = annotate.PercentType{Global: of == "global", Hits: by == "hits"}
	return nil
}

func (o *annotateFlags) run(stdout, stderr io.Writer) error {
	in, err := o.input.open(stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	skipped, missing, err := annotate.Text(stdout, in.file, in.sym, in.history, in.keep, o.Options)
	incomplete := in.tell(stderr, skipped)
	for _, m := range missing {
		fmt.Fprintf(stderr, "gperf annotate: %v\n%s", m, hint(m))
	}
	if errors.Is(err, annotate.ErrNoSamples) {
		return fmt.Errorf("%s has no samples", in.path)
	}
	return cmp.Or(err, incomplete)
}

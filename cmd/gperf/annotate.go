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
}

const annotateUsage = "[FLAGS] [SYMBOL|SYMBOL+OFFSET|ADDRESS]"

const annotateHelp = `Prints the code of functions, as perf annotate --stdio does: each instruction with
its percentage of the function's samples, between the source lines if they are
known. Without SYMBOL, it prints all functions with samples, the most sampled
first. It needs neither debug information nor objdump.

For tracepoints, code addresses in the fields count in addition to the sampled
address, such as location of skb:kfree_skb. SYMBOL+OFFSET and ADDRESS, as printed
by gperf script, show the instructions around this address; > marks the call that
returns there. This finds the call that dropped a packet:

    gperf annotate __udp4_lib_rcv+0x4bc

gperf reads kernel code from a vmlinux with the recorded build ID, or from
/proc/kcore if the recorded kernel is running.`

func (o *annotateFlags) set() *pflag.FlagSet {
	s := newFlagSet("annotate")
	o.input.add(s)
	s.StringVarP(&o.symbol, "symbol", "s", "", "annotate this `symbol`, as the argument")
	s.StringVarP(&o.dsos, "dsos", "d", "", "annotate only functions of these DSOs, a comma-separated `list`")
	s.BoolVarP(&o.Callers, "children", "g", false, "include callchains: callers include the samples of their callees")
	s.IntVar(&o.Context, "context", 10, "number of `instructions` before and after an address")
	s.StringVarP(&o.style, "disassembler-style", "M", "att", "`syntax` of x86 instructions: att or intel")
	s.BoolVar(&o.Raw, "asm-raw", false, "print the bytes of instructions")
	s.BoolVar(&o.source, "source", true, "print source lines between the instructions")
	s.BoolVarP(&o.NoSource, "no-source", "S", false, "do not print source lines")
	s.BoolVarP(&o.Lines, "print-line", "l", false, "sum up source lines first, and print the line of sampled instructions")
	s.BoolVarP(&o.FullPaths, "full-paths", "P", false, "print full paths of source files")
	s.StringVar(&o.Sources.Prefix, "prefix", "", "read source files below this `directory`")
	s.IntVar(&o.Sources.Strip, "prefix-strip", 0, "with --prefix: strip this number of leading `directories` from paths")
	s.BoolVarP(&o.samples, "show-nr-samples", "n", false, "print numbers of samples instead of percentages")
	s.BoolVar(&o.period, "show-total-period", false, "print sums of periods instead of percentages")
	s.StringVar(&o.percentType, "percent-type", "local-period", "percentage `type`: local-period, local-hits, global-period, global-hits")
	s.StringVar(&o.percentLimit, "percent-limit", "", "hide functions below this `percent` of the event")
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

// settle converts the flags to annotate.Options and checks them.
func (o *annotateFlags) settle(args []string) (err error) {
	if o.symbol != "" {
		args = append([]string{o.symbol}, args...)
	}
	if len(args) > 0 && isRecordingName(args[0]) && len(o.input.paths) == 0 {
		o.input.paths, args = args[:1], args[1:]
	}
	switch {
	case len(args) > 1:
		return wrongUse("unexpected argument %q: give one symbol or address, and the file with -i", args[1])
	case len(args) == 1:
		if o.Place, err = annotate.ParsePlace(args[0]); err != nil {
			return wrongUse("%v", err)
		}
	}
	if o.percentLimit != "" {
		o.PercentLimit, err = strconv.ParseFloat(strings.TrimSuffix(o.percentLimit, "%"), 64)
		if err != nil || o.PercentLimit < 0 {
			return wrongUse("--percent-limit %s: invalid percentage", o.percentLimit)
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

// isRecordingName reports whether an argument names a recording rather than a function.
func isRecordingName(arg string) bool {
	_, err := os.Stat(arg)
	return strings.HasSuffix(arg, ".data") || err == nil && strings.Contains(arg, "/")
}

// settleShown applies -M, --percent-type and the flags that choose the column.
func (o *annotateFlags) settleShown() error {
	switch o.style {
	case "att":
	case "intel":
		o.Syntax = disasm.Intel
	default:
		return wrongUse("-M %s: use att or intel", o.style)
	}
	switch {
	case o.samples && o.period:
		return wrongUse("--show-nr-samples and --show-total-period exclude each other")
	case o.samples:
		o.Column = annotate.Samples
	case o.period:
		o.Column = annotate.Periods
	}
	of, by, _ := strings.Cut(o.percentType, "-")
	if of != "local" && of != "global" || by != "period" && by != "hits" {
		return wrongUse("--percent-type %s: use local-period, local-hits, global-period or global-hits", o.percentType)
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

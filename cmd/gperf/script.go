package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"gperf/format"
	"gperf/report"
	"gperf/script"
)

// scriptFlags are the flags of `gperf script`.
type scriptFlags struct {
	inputFlags
	fields     []string
	format     string
	compat     string
	maxStack   int
	noChain    bool
	ns         bool
	showUnwind bool
	headerFlags
}

const scriptHelp = `Prints the samples of a recording as text, a block for each, as perf script does.`

func (o *scriptFlags) set() *pflag.FlagSet {
	s := newFlagSet("script")
	o.inputFlags.add(s)
	s.StringArrayVarP(&o.fields, "fields", "F", nil, "print these `fields`: [hw|sw|trace|raw|cache|break:]name,...; or change the usual ones: +name,-name.\nThey are "+strings.Join(script.FieldNames(), ","))
	s.StringVar(&o.format, "format", "text", "`text`, or folded: a line for each distinct stack, for flame graphs")
	s.StringVar(&o.compat, "compat", "7.3", "print as this `version` of perf does: 7.3 or 6.1")
	s.IntVar(&o.maxStack, "max-stack", maxStack, "at most this many `frames` of a callchain")
	s.BoolVarP(&o.noChain, "hide-call-graph", "G", false, "the sampled address instead of the callchain")
	s.BoolVar(&o.showUnwind, "show-unwind", false, "below each callchain, how the user stack ended")
	s.BoolVar(&o.ns, "ns", false, "times with nine digits")
	o.headerFlags.add(s)
	s.Bool("no-inline", false, "")
	s.BoolP("force", "f", false, "")
	hide(s, "no-inline", "force")
	return s
}

func scriptCommand(args []string, stdout, stderr io.Writer) int {
	var o scriptFlags
	s := o.set()
	done, err := parseFlags(s, args, scriptHelp, stdout)
	if err == nil && !done {
		err = o.run(stdout, stderr)
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) { // the reader at the pipe's end has seen enough
		return fail("script", err, stderr)
	}
	return exitOK
}

func (o *scriptFlags) run(stdout, stderr io.Writer) error {
	opts, err := o.options()
	if err != nil {
		return err
	}
	in, err := o.open(stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	in.history.KeepExited = opts.Compat == script.Perf6
	skipped, err := o.print(stdout, stderr, in, opts)
	in.tell(stderr, skipped)
	return err
}

func (o *scriptFlags) options() (script.Options, error) {
	opts := script.Options{MaxStack: o.maxStack, NoChain: o.noChain, Nanosecs: o.ns, ShowUnwind: o.showUnwind}
	for _, arg := range o.fields {
		if err := opts.Fields.ParseFields(arg); err != nil {
			return opts, wrongUse("-F %s: %v", arg, err)
		}
	}
	switch o.compat {
	case "7.3", "7":
	case "6.1", "6":
		opts.Compat = script.Perf6
	default:
		return opts, wrongUse("--compat %s: it is 7.3 or 6.1", o.compat)
	}
	switch {
	case o.format != "text" && o.format != "folded":
		return opts, wrongUse("--format %s: it is text or folded", o.format)
	case o.maxStack < 0:
		return opts, wrongUse("--max-stack %d is negative", o.maxStack)
	}
	return opts, nil
}

func (o *scriptFlags) print(stdout, stderr io.Writer, in *input, opts script.Options) (format.Skipped, error) {
	if done, err := o.headerFlags.print(stdout, in); done || err != nil {
		return format.Skipped{}, err
	}
	if o.format == "folded" {
		if !in.hasCallchains() {
			fmt.Fprintf(stderr, "gperf script: there are no callchains to fold: record them with -g\n")
		}
		return report.Folded(stdout, in.file, in.history, in.keep, o.maxStack)
	}
	return script.Print(stdout, in.file, in.sym, in.history, in.keep, opts)
}

package main

import (
	"errors"
	"fmt"

	"gperf/cmd/gperf/cli"
	"gperf/record/probe"
	"gperf/report/annotate"
)

// probeIdle lists the flags of perf probe without effect, and those that are refused.
var probeIdle = []cli.Idle{
	{Name: "demangle", Why: "C++ and Rust names are demangled"},
	{Name: "demangle-kernel", Why: "the kernel's names are demangled like others"},
	{Name: "cache", Why: "gperf reads files each time, without a cache of probes"},
	{Name: "no-inlines", Why: "gperf never probes inlined functions"},
	{Name: "max-probes", Value: true, Why: "gperf adds all probes of a definition"},
	{Name: "range", Why: "gperf finds the location of a variable at the probe's address", Refused: true},
	{Name: "target-ns", Value: true, Why: "gperf record -p PID finds files in the mount namespace of the process",
		Refused: true},
	{Name: "bootconfig", Why: "gperf prints definitions for tracefs only (-D)", Refused: true},
	{Name: "k,vmlinux", Value: true, Refused: true,
		Why: "gperf reads kernel functions from /proc/kallsyms, and parameters from BTF"},
	{Name: "symfs", Value: true, Why: "-x names the file itself", Refused: true},
}

// nameFilter returns the filter of --filter. Without the flag, it accepts every name.
func (f *probeFlags) nameFilter() (probe.NameFilter, error) {
	if f.filter == "" {
		return func(string) bool { return true }, nil
	}
	keep, err := probe.ParseNameFilter(f.filter)
	if err != nil {
		return nil, cli.WrongUse("--%v", err)
	}
	return keep, nil
}

// extraLines is the number of lines that perf shows after the last line with code.
const extraLines = 2

// showLines prints source lines as perf does, with numbers for lines with code.
func (f *probeFlags) showLines() error {
	l, err := f.finder().List(f.line, f.where)
	if err != nil {
		return err
	}
	sources := annotate.Sources{Prefix: f.where.Source}
	lines, err := sources.Lines(l.Path, l.Owner)
	if hidden := (*annotate.HiddenError)(nil); errors.As(err, &hidden) {
		return &hiddenLines{hidden}
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(f.stdout, l.Title())
	end := l.End
	if end == 0 {
		end = l.Code[len(l.Code)-1] + 1 + extraLines
	}
	code := map[int]bool{}
	for _, n := range l.Code {
		code[n] = true
	}
	for n := 1; n <= min(end, len(lines)); n++ {
		switch {
		case n < l.Start:
		case code[n]:
			fmt.Fprintf(f.stdout, "%7d  %s\n", n-l.Base, lines[n-1])
		default:
			fmt.Fprintf(f.stdout, "%7s  %s\n", "", lines[n-1])
		}
	}
	return nil
}

// hiddenLines is annotate's error with the flag of gperf probe.
type hiddenLines struct{ *annotate.HiddenError }

// Hint returns advice for the user.
func (e *hiddenLines) Hint() string {
	return "Is it the program's source? Then add --source /. Or run gperf as an ordinary user.\n"
}

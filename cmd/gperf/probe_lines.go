package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"

	"gperf/record/probe"
)

// probeIdleFlags lists the flags of perf probe that have no effect or are refused.
var probeIdleFlags = []idleFlag{
	{name: "demangle", why: "C++ and Rust names are demangled"},
	{name: "demangle-kernel", why: "the kernel's names are demangled like others"},
	{name: "cache", why: "gperf reads files each time, without a cache of probes"},
	{name: "no-inlines", why: "gperf never probes inlined functions"},
	{name: "max-probes", value: true, why: "gperf adds all probes of a definition"},
	{name: "range", why: "gperf finds the location of a variable at the probe's address", refused: true},
	{name: "target-ns", value: true, why: "gperf record -p PID finds files in the mount namespace of the process",
		refused: true},
	{name: "bootconfig", why: "gperf prints definitions for tracefs only (-D)", refused: true},
	{name: "k,vmlinux", value: true, refused: true,
		why: "gperf reads kernel functions from /proc/kallsyms, and parameters from BTF"},
	{name: "symfs", value: true, why: "-x names the file itself", refused: true},
}

// nameFilter returns the filter of --filter. Without the flag, it accepts every name.
func (f *probeFlags) nameFilter() (probe.NameFilter, error) {
	if f.filter == "" {
		return func(string) bool { return true }, nil
	}
	keep, err := probe.ParseNameFilter(f.filter)
	if err != nil {
		return nil, wrongUse("--%v", err)
	}
	return keep, nil
}

// extraLines is the number of lines that perf shows after the last line with code.
const extraLines = 2

// showLines prints source lines as perf does, with numbers for those that have code.
func (f *probeFlags) showLines() error {
	l, err := f.finder().List(f.line, f.where)
	if err != nil {
		return err
	}
	source, err := os.Open(filepath.Join(f.where.Source, l.Path))
	if err != nil {
		return err
	}
	defer source.Close()
	fmt.Fprintln(f.stdout, l.Title())
	end := l.End
	if end == 0 {
		end = l.Code[len(l.Code)-1] + 1 + extraLines
	}
	code := map[int]bool{}
	for _, n := range l.Code {
		code[n] = true
	}
	lines := bufio.NewScanner(source)
	for n := 1; n <= end && lines.Scan(); n++ {
		switch {
		case n < l.Start:
		case code[n]:
			fmt.Fprintf(f.stdout, "%7d  %s\n", n-l.Base, lines.Text())
		default:
			fmt.Fprintf(f.stdout, "%7s  %s\n", "", lines.Text())
		}
	}
	return lines.Err()
}

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"

	"gperf/record/probe"
)

// probeIdleFlags are flags of perf probe that change nothing here.
var probeIdleFlags = []idleFlag{
	{name: "demangle", why: "C++ and Rust names are demangled"},
	{name: "demangle-kernel", why: "the kernel's names are demangled like others"},
	{name: "cache", why: "gperf reads what it needs of a file each time"},
	{name: "no-inlines", why: "gperf never probes inlined functions"},
	{name: "max-probes", value: true, why: "gperf adds all that a definition means"},
	{name: "range", why: "gperf finds a variable where it is at the probe", refused: true},
	{name: "target-ns", value: true, why: "-p PID of gperf record finds files as the process has them", refused: true},
	{name: "bootconfig", why: "gperf prints definitions as tracefs takes them (-D)", refused: true},
	{name: "k,vmlinux", value: true, why: "the kernel's functions are those of /proc/kallsyms, their parameters those of its BTF", refused: true},
	{name: "symfs", value: true, why: "-x names the file itself", refused: true},
}

// nameFilter is what --filter chooses; without it every name.
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

// extraLines is how many lines perf shows after the last that has code.
const extraLines = 2

// showLines prints source lines as perf does: with their numbers those that can be
// probed.
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

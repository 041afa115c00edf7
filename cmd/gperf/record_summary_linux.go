// This file describes the user stacks of a recording in a few lines: each cause of incomplete stacks, with the file
// and a remedy.

package main

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"gperf/bpf"
	"gperf/internal/dso"
	"gperf/internal/text"
	"gperf/record/stacks"
)

// Limits of the list of causes of incomplete stacks.
const (
	maxCauses    = 4
	minCausePart = 1000 // list a cause of at least 1/1000 of the stacks
)

// maxNames limits lists of names, which other users' programs may make long.
const maxNames = 5

// eventTimes lists events with numbers.
func eventTimes(times map[string]uint64) string {
	var events []string
	for _, event := range slices.Sorted(maps.Keys(times)) {
		events = append(events, fmt.Sprintf("%s (%d times)", event, times[event]))
	}
	return text.JoinFirst(events, maxNames)
}

// stackLines returns lines about a recording's user stacks: how many are complete, and the frequent
// causes of incomplete ones with the remedies.
func stackLines(u *stacks.Summary) []string {
	early := uint64(0)
	for _, n := range u.Early {
		early += n
	}
	all := u.Complete + early
	s := fmt.Sprintf("User stacks: %d complete", u.Complete)
	if all > 0 {
		s += fmt.Sprintf(" (%s)", percent(u.Complete, all))
	}
	if early > 0 {
		s += fmt.Sprintf(", %d incomplete", early)
	}
	if u.None > 0 {
		s += fmt.Sprintf("; %d samples have none", u.None)
	}
	if u.Missing > 0 {
		s += fmt.Sprintf("; %d were lost", u.Missing)
	}
	if u.Missed > 0 {
		s += fmt.Sprintf("; %d samples were lost while another BPF program ran", u.Missed)
	}
	lines := []string{s}
	for _, c := range byCause(u.Incomplete) {
		if len(lines) <= maxCauses && c.N*minCausePart >= all {
			lines = append(lines, "  "+causeText(c))
		}
	}
	if len(u.Contested) > 0 {
		lines = append(lines, "  files have one build ID, but different unwind information, and each its own walks: "+
			text.JoinFirst(slices.Compact(slices.Sorted(slices.Values(u.Contested))), maxNames))
	}
	if len(u.Nameless) > 0 {
		lines = append(lines, "  "+namelessText(u.Nameless))
	}
	return append(lines, functionLines(&u.Interpreted)...)
}

// functionLines returns lines about the functions of interpreters: why some lack names.
func functionLines(c *stacks.InterpretedCounts) (lines []string) {
	all := c.Named + c.Unnamed
	if c.Unnamed*minCausePart > all {
		why := "their processes exited or freed them before gperf read the names"
		switch {
		case c.Denied:
			why = "their processes may not be read, which requires CAP_SYS_PTRACE (or kernel.yama.ptrace_scope=0)"
		case c.Full:
			why = "there are too many functions for one recording"
		}
		part := percent(c.Unnamed, all)
		lines = append(lines, fmt.Sprintf("  %s of the interpreted frames have no name: %s", part, why))
	}
	for _, why := range c.Unknown[:min(len(c.Unknown), maxNames)] {
		lines = append(lines, "  functions have no names: "+why)
	}
	if more := len(c.Unknown) - maxNames; more > 0 {
		lines = append(lines, fmt.Sprintf("  functions have no names: %d more", more))
	}
	return lines
}

// percent returns a part with two decimals, or more if it would look like 100 %.
func percent(part, all uint64) string {
	const least, most = 2, 6
	for digits := least; ; digits++ {
		s := fmt.Sprintf("%.*f%%", digits, 100*float64(part)/float64(all))
		if part == all || digits == most || !strings.HasPrefix(s, "100") {
			return s
		}
	}
}

// byCause merges the entries that differ only in number, and sorts them by it.
func byCause(l []stacks.Incomplete) []stacks.Incomplete {
	var merged []stacks.Incomplete
	for _, c := range l {
		if dso.KindOf(c.DSO) == dso.KindFile {
			c.Program = "" // the DSO is sufficient
		}
		c.Copied = c.Copied && c.Cause == bpf.EndUnreadable // else it makes no difference
		i := slices.IndexFunc(merged, func(m stacks.Incomplete) bool {
			m.N = c.N
			return m == c
		})
		if i < 0 {
			merged = append(merged, c)
		} else {
			merged[i].N += c.N
		}
	}
	slices.SortStableFunc(merged, func(a, b stacks.Incomplete) int { return int(b.N) - int(a.N) })
	return merged
}

// recordAgain helps if a table was not ready in time, and the cache contains it now.
const recordAgain = "record again: the table is cached now"

// withFrames helps if the compiler wrote neither unwind information nor frame pointers.
const withFrames = "compile it with -fasynchronous-unwind-tables or -fno-omit-frame-pointer; " +
	"assembly needs .cfi directives"

// causes describes why stacks end early, and the remedy, if there is one.
var causes = map[bpf.End]struct{ why, remedy string }{
	bpf.EndCompat:      {"32-bit code is not unwound", "try --call-graph fp"},
	bpf.EndNoProcess:   {"mappings of the process were not known in time", "try larger rings (-m)"},
	bpf.EndNoMapping:   {"code in no known mapping, such as JIT code", ""},
	bpf.EndNoTable:     {"the unwind table was not ready", ""},
	bpf.EndNoRule:      {"no unwind information", withFrames},
	bpf.EndUnsupported: {"unwind information that BPF cannot follow", "try --call-graph dwarf,copy"},
	bpf.EndUnreadable:  {"stack memory could not be read", ""},
	bpf.EndFP:          {"neither unwind information nor frame pointers", withFrames},
	bpf.EndZero:        {"the return address is 0, in a function that is no known entry point", ""},
	bpf.EndDepth:       {fmt.Sprintf("deeper than %d frames", bpf.MaxFrames), ""},
	bpf.EndInternal:    {"an error of the BPF program", "please report it"},
}

// jitRemedies are flags of programs that generate code: with them, it keeps frame pointers, or
// there is none.
var jitRemedies = []struct{ program, remedy string }{
	{"java", "java -XX:+PreserveFramePointer"},
	{"php", "php -d opcache.jit=off"},
	{"luajit", "luajit -joff"},
	{"beam", "erl +JPperf true"},
}

// causeText formats a cause: "2475 of /usr/bin/prog: no unwind information (…)".
func causeText(c stacks.Incomplete) string {
	of, jit := c.DSO, false
	switch {
	case of == "" && c.Program == "":
		of = "unknown processes"
	case of == "":
		of, jit = c.Program, true
	case dso.KindOf(of) != dso.KindFile && c.Program != "":
		of, jit = fmt.Sprintf("%s (JIT code, %s)", c.Program, c.DSO), true
	}
	why, remedy := causes[c.Cause].why, causes[c.Cause].remedy
	switch {
	case c.Cause == bpf.EndUnreadable && c.Copied:
		why = "the stack goes on outside the copy that was walked"
	case jit:
		remedy = jitRemedy(c, remedy)
	}
	switch {
	case c.Unread != "":
		why, remedy = "no unwind table, because "+c.Unread, unreadRemedy(c.Unread, os.Geteuid() == 0)
	case c.Again:
		remedy = recordAgain
	}
	s := fmt.Sprintf("%d of %s: %s", c.N, of, why)
	if remedy != "" {
		s += " (" + remedy + ")"
	}
	return s
}

// unreadRemedy returns the remedy for an unreadable file. Root has no right where a file system's server refuses root.
func unreadRemedy(why string, root bool) string {
	switch {
	case why != stacks.NotAllowed:
		return ""
	case root:
		return "mount its file system so that root may read it: allow_root of FUSE, no_root_squash of NFS"
	}
	return "record as root"
}

// jitRemedy returns the remedy for generated code; other is the remedy for compiled code.
func jitRemedy(c stacks.Incomplete, other string) string {
	switch c.Cause {
	case bpf.EndNoMapping, bpf.EndNoRule, bpf.EndFP, bpf.EndUnreadable:
	default:
		return other
	}
	for _, r := range jitRemedies {
		if strings.HasPrefix(path.Base(c.Program), r.program) {
			return r.remedy
		}
	}
	return ""
}

// namelessText says how Java processes get names of compiled code.
func namelessText(l []stacks.Nameless) string {
	s := fmt.Sprintf("Java code of process %d", l[0].PID)
	if len(l) > 1 {
		s += fmt.Sprintf(" and %d others", len(l)-1)
	}
	s += " has no names: "
	if l[0].Exited {
		return s + "start java with -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit"
	}
	return s + fmt.Sprintf("run jcmd %d Compiler.perfmap before it exits", l[0].PID)
}

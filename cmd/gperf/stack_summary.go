package main

import (
	"fmt"
	"slices"
	"strings"

	"gperf/bpf"
	"gperf/record/stacks"
)

// Limits of the list of causes of incomplete stacks.
const (
	maxCauses    = 4
	minCausePart = 100 // list a cause of at least 1/100 of the stacks
)

// stackSummary returns lines about a recording's user stacks: how many are complete, and
// the frequent causes of incomplete ones with their remedies.
func stackSummary(u *stacks.Summary) []string {
	early := uint64(0)
	for _, n := range u.Early {
		early += n
	}
	all := u.Complete + early
	s := fmt.Sprintf("User stacks: %d complete", u.Complete)
	if all > 0 {
		s += fmt.Sprintf(" (%.2f%%)", 100*float64(u.Complete)/float64(all))
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
	return lines
}

// byCause merges the entries that differ only in their number, and sorts them by it.
func byCause(l []stacks.Incomplete) []stacks.Incomplete {
	var merged []stacks.Incomplete
	for _, c := range l {
		if c.DSO != "" && strings.HasPrefix(c.DSO, "/") && !strings.HasPrefix(c.DSO, "//") {
			c.Program = "" // the DSO is sufficient
		}
		i := slices.IndexFunc(merged, func(m stacks.Incomplete) bool {
			return m.Cause == c.Cause && m.DSO == c.DSO && m.Program == c.Program
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

// causes describes why stacks end early, and the remedy, if there is one.
var causes = map[bpf.End]struct{ why, remedy string }{
	bpf.EndCompat:      {"32-bit code is not unwound", "--call-graph fp"},
	bpf.EndNoProcess:   {"mappings of the process were lost", "larger rings (-m)"},
	bpf.EndNoMapping:   {"code in no known mapping, such as JIT code", "--call-graph fp"},
	bpf.EndNoTable:     {"the unwind table was not ready", "record again: it is cached now"},
	bpf.EndNoRule:      {"no unwind information", "--call-graph fp"},
	bpf.EndUnsupported: {"unwind information that BPF cannot follow", "--call-graph dwarf,copy"},
	bpf.EndUnreadable:  {"stack memory could not be read", ""},
	bpf.EndFP:          {"neither unwind information nor frame pointers", ""},
	bpf.EndDepth:       {fmt.Sprintf("deeper than %d frames", bpf.MaxFrames), ""},
	bpf.EndInternal:    {"an error of the BPF program", ""},
}

// causeText formats a cause: "2475 of /usr/bin/node: no unwind information (try --call-graph fp)".
func causeText(c stacks.Incomplete) string {
	of := c.DSO
	switch {
	case of == "" && c.Program == "":
		of = "unknown processes"
	case of == "":
		of = c.Program
	case c.Program != "":
		of = fmt.Sprintf("%s (JIT code, %s)", c.Program, c.DSO)
	}
	text := causes[c.Cause]
	s := fmt.Sprintf("%d of %s: %s", c.N, of, text.why)
	if text.remedy != "" {
		s += " (try " + text.remedy + ")"
	}
	return s
}

package main

import (
	"slices"
	"testing"

	"gperf/bpf"
	"gperf/record/stacks"
)

// The summary names what matters of the incomplete stacks: the file, the cause, the remedy.
func TestStackSummaryCauses(t *testing.T) {
	for _, c := range []struct {
		name string
		u    stacks.Summary
		want []string
	}{
		{"all complete", stacks.Summary{Complete: 7}, []string{"User stacks: 7 complete (100.00%)"}},
		{"of kernel threads only", stacks.Summary{None: 3}, []string{"User stacks: 0 complete; 3 samples have none"}},
		{"rare causes have no line", stacks.Summary{Complete: 999, Early: ends(bpf.EndUnreadable, 1), Incomplete: []stacks.Incomplete{{Cause: bpf.EndUnreadable, DSO: "/lib/libc.so.6", Program: "/bin/a", N: 1}}},
			[]string{"User stacks: 999 complete (99.90%), 1 incomplete"}},
		{"a file of several programs", stacks.Summary{Complete: 25, Early: ends(bpf.EndNoRule, 75), Incomplete: []stacks.Incomplete{
			{Cause: bpf.EndNoRule, DSO: "/usr/bin/node", Program: "/usr/bin/node", N: 40}, {Cause: bpf.EndNoRule, DSO: "/usr/lib/libx.so", Program: "/bin/a", N: 18}, {Cause: bpf.EndNoRule, DSO: "/usr/lib/libx.so", Program: "/bin/b", N: 17}}},
			[]string{"User stacks: 25 complete (25.00%), 75 incomplete", "  40 of /usr/bin/node: no unwind information (try --call-graph fp)",
				"  35 of /usr/lib/libx.so: no unwind information (try --call-graph fp)"}},
		{"code without a file", stacks.Summary{Early: ends(bpf.EndFP, 9), Incomplete: []stacks.Incomplete{{Cause: bpf.EndFP, DSO: "//anon", Program: "/usr/bin/java", N: 9}}},
			[]string{"User stacks: 0 complete (0.00%), 9 incomplete", "  9 of /usr/bin/java (JIT code, //anon): neither unwind information nor frame pointers"}},
		{"no process", stacks.Summary{Early: ends(bpf.EndNoProcess, 9), Incomplete: []stacks.Incomplete{{Cause: bpf.EndNoProcess, DSO: "", Program: "", N: 9}}, Missing: 2, Missed: 4},
			[]string{"User stacks: 0 complete (0.00%), 9 incomplete; 2 were lost; 4 samples were lost while another BPF program ran",
				"  9 of unknown processes: mappings of the process were lost (try larger rings (-m))"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := stackSummary(&c.u); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func ends(end bpf.End, n uint64) (l [bpf.NumEnds]uint64) {
	l[end] = n
	return l
}

// Each end that is no complete stack is explained.
func TestStackSummaryKnowsAllEnds(t *testing.T) {
	for end := range bpf.End(bpf.NumEnds) {
		switch end {
		case bpf.EndNone, bpf.EndEntry, bpf.EndNoUser:
		default:
			if causes[end].why == "" {
				t.Errorf("%v is not explained", end)
			}
		}
	}
}

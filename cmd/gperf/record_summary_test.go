package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"gperf/bpf"
	"gperf/record"
	"gperf/record/programs"
	"gperf/record/stacks"
)

// For incomplete stacks, the summary names the file, the cause, and the remedy.
func TestCauses(t *testing.T) {
	for _, c := range []struct {
		name string
		u    stacks.Summary
		want []string
	}{
		{"all complete", stacks.Summary{Complete: 7}, []string{"User stacks: 7 complete (100.00%)"}},
		{"of kernel threads only", stacks.Summary{None: 3}, []string{"User stacks: 0 complete; 3 samples have none"}},
		{"almost all complete", stacks.Summary{Complete: 99996, Early: countEnds(bpf.EndUnreadable, 4)},
			[]string{"User stacks: 99996 complete (99.996%), 4 incomplete"}},
		{"rare causes have no line", stacks.Summary{Complete: 9999, Early: countEnds(bpf.EndUnreadable, 1),
			Incomplete: []stacks.Incomplete{{Cause: bpf.EndUnreadable, DSO: "/lib/libc.so.6", Program: "/bin/a",
				N: 1}}},
			[]string{"User stacks: 9999 complete (99.99%), 1 incomplete"}},
		{"a file of several programs", stacks.Summary{Complete: 25, Early: countEnds(bpf.EndNoRule, 75),
			Incomplete: []stacks.Incomplete{
				{Cause: bpf.EndNoRule, DSO: "/opt/prog", Program: "/opt/prog", N: 40},
				{Cause: bpf.EndNoRule, DSO: "/usr/lib/libx.so", Program: "/bin/a", N: 18},
				{Cause: bpf.EndNoRule, DSO: "/usr/lib/libx.so", Program: "/bin/b", N: 17}}},
			[]string{"User stacks: 25 complete (25.00%), 75 incomplete",
				"  40 of /opt/prog: no unwind information " +
					"(" + withFrames + ")",
				"  35 of /usr/lib/libx.so: no unwind information " +
					"(" + withFrames + ")"}},
		{"a Java version whose structures are unknown", stacks.Summary{Early: countEnds(bpf.EndFP, 9),
			Incomplete: []stacks.Incomplete{{Cause: bpf.EndFP, DSO: "//anon", Program: "/usr/bin/java", N: 9}}},
			[]string{"User stacks: 0 complete (0.00%), 9 incomplete",
				"  9 of /usr/bin/java (JIT code, //anon): neither unwind information nor frame pointers " +
					"(java -XX:+PreserveFramePointer)"}},
		{"JIT code of PHP", stacks.Summary{Early: countEnds(bpf.EndUnreadable, 9),
			Incomplete: []stacks.Incomplete{{Cause: bpf.EndUnreadable, DSO: "/dev/zero (deleted)",
				Program: "/usr/bin/php8.2", N: 9}}},
			[]string{"User stacks: 0 complete (0.00%), 9 incomplete",
				"  9 of /usr/bin/php8.2 (JIT code, /dev/zero (deleted)): stack memory could not be read " +
					"(php -d opcache.jit=off)"}},
		{"JIT code of others", stacks.Summary{Early: countEnds(bpf.EndNoMapping, 9),
			Incomplete: []stacks.Incomplete{{Cause: bpf.EndNoMapping, Program: "/usr/bin/node", N: 9}}},
			[]string{"User stacks: 0 complete (0.00%), 9 incomplete",
				"  9 of /usr/bin/node: code in no known mapping, such as JIT code"}},
		{"many copies with a build ID", stacks.Summary{Complete: 1, Contested: strings.Fields("/g /f /e /d /c /b /a /a")},
			[]string{"User stacks: 1 complete (100.00%)",
				"  files have one build ID, but different unwind information, " +
					"and each its own walks: /a, /b, /c, /d, /e and 2 more"}},
		{"many interpreters that are not known", stacks.Summary{Complete: 1,
			Interpreted: stacks.InterpretedCounts{Unknown: strings.Fields("a b c d e f")}},
			[]string{"User stacks: 1 complete (100.00%)", "  functions have no names: a",
				"  functions have no names: b",
				"  functions have no names: c", "  functions have no names: d", "  functions have no names: e",
				"  functions have no names: 1 more"}},
		{"no process", stacks.Summary{Early: countEnds(bpf.EndNoProcess, 9), Missing: 2, Missed: 4,
			Incomplete: []stacks.Incomplete{{Cause: bpf.EndNoProcess, DSO: "", Program: "", N: 9}}},
			[]string{"User stacks: 0 complete (0.00%), 9 incomplete; 2 were lost; " +
				"4 samples were lost while another BPF program ran",
				"  9 of unknown processes: mappings of the process were not known in time (try larger rings (-m))"}},
		{"a large stack", stacks.Summary{Complete: 1, Early: countEnds(bpf.EndUnreadable, 1),
			Incomplete: []stacks.Incomplete{
				{Cause: bpf.EndUnreadable, DSO: "/bin/a", Program: "/bin/a", N: 1, Copied: true, Again: true}}},
			[]string{"User stacks: 1 complete (50.00%), 1 incomplete",
				"  1 of /bin/a: the stack goes on outside the copy that was walked (record again: the table is cached now)"}},
		{"several stacks, of a program whose table is not cached", stacks.Summary{Complete: 1, Early: countEnds(bpf.EndUnreadable, 1),
			Incomplete: []stacks.Incomplete{{Cause: bpf.EndUnreadable, DSO: "/bin/a", Program: "/bin/a", N: 1,
				Copied: true}}},
			[]string{"User stacks: 1 complete (50.00%), 1 incomplete",
				"  1 of /bin/a: the stack goes on outside the copy that was walked"}},
		{"a return address of 0", stacks.Summary{Complete: 1, Early: countEnds(bpf.EndZero, 1),
			Incomplete: []stacks.Incomplete{{Cause: bpf.EndZero, DSO: "/bin/a", Program: "/bin/a", N: 1}}},
			[]string{"User stacks: 1 complete (50.00%), 1 incomplete",
				"  1 of /bin/a: the return address is 0, in a function that is no known entry point"}},
		{"a file that could not be read", stacks.Summary{Complete: 1, Early: countEnds(bpf.EndFP, 1),
			Incomplete: []stacks.Incomplete{{Cause: bpf.EndFP, DSO: "/mnt/a", Program: "/mnt/a", N: 1,
				Unread: "its file system does not answer"}}},
			[]string{"User stacks: 1 complete (50.00%), 1 incomplete",
				"  1 of /mnt/a: no unwind table, because its file system does not answer"}},
		{"JIT code of Erlang", stacks.Summary{Early: countEnds(bpf.EndFP, 9),
			Incomplete: []stacks.Incomplete{{Cause: bpf.EndFP, DSO: "//anon", Program: "/usr/lib/erlang/bin/beam.smp",
				N: 9}}},
			[]string{"User stacks: 0 complete (0.00%), 9 incomplete",
				"  9 of /usr/lib/erlang/bin/beam.smp (JIT code, //anon): neither unwind information nor frame pointers " +
					"(erl +JPperf true)"}},
		{"Java without names", stacks.Summary{Complete: 1, Nameless: []stacks.Nameless{{PID: 7}, {PID: 8, Exited: true}}},
			[]string{"User stacks: 1 complete (100.00%)",
				"  Java code of process 7 and 1 others has no names: run jcmd 7 Compiler.perfmap before it exits"}},
		{"exited Java without names", stacks.Summary{Complete: 1, Nameless: []stacks.Nameless{{PID: 8, Exited: true}}},
			[]string{"User stacks: 1 complete (100.00%)", "  Java code of process 8 has no names: " +
				"start java with -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := stackLines(&c.u); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func countEnds(end bpf.End, n uint64) (l [bpf.NumEnds]uint64) {
	l[end] = n
	return l
}

// Each end that is no complete stack is explained.
func TestAllEndsExplained(t *testing.T) {
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

func TestUnreadRemedy(t *testing.T) {
	for _, c := range []struct {
		why  string
		root bool
		want string
	}{
		{"its file system does not answer", false, ""},
		{stacks.NotAllowed, false, "record as root"},
		{stacks.NotAllowed, true, "mount its file system so that root may read it: allow_root of FUSE, no_root_squash of NFS"},
	} {
		if got := unreadRemedy(c.why, c.root); got != c.want {
			t.Errorf("%s, root %v: %q, want %q", c.why, c.root, got, c.want)
		}
	}
}

// The summary says once which events the kernel throttled, and which probes missed hits.
func TestThrottledAndMissed(t *testing.T) {
	var b bytes.Buffer
	printSummary(&record.Summary{Throttled: map[string]uint64{"cycles": 1, "cpu-clock": 3},
		Summary: programs.Summary{MissedHits: map[string]uint64{"probe:f": 7}}}, &b)
	for _, want := range []string{"left out samples of cpu-clock (3 times), cycles (1 times), because",
		"missed hits of probe:f (7 times), in any process"} {
		if strings.Count(b.String(), want) != 1 {
			t.Errorf("%s\nlacks %q", b.String(), want)
		}
	}
}

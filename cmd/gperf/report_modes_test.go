package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gperf/format"
)

// TestReportModes compares reports of memory accesses and branches in recordings of others with perf 7.3.4. perf adds
// the column ipc_null to words with "symbol".
func TestReportModes(t *testing.T) {
	for _, c := range []struct{ name, file, line string }{
		{"memory callchains", "perfparser.vector_static_gcc.perf.data", "--mem-mode"},
		{"memory callers", "perfparser.vector_static_gcc.perf.data.zstd", "--mem-mode --sort mem,dso -g caller"},
		{"cache lines", "quipper.perf.data.weight_struct", "--mem-mode --sort dcacheline,mem"},
		{"code symbols", "rcppthread.perf-mem.data", "--mem-mode --sort symbol_iaddr,ipc_null"},
		{"branch history", "quipper.perf.data.branch-4.14", "--branch-history"},
		{"branch history with callchains", "quipper.perf.data.callgraph_and_branch-3.4",
			"--branch-history --no-children -g 2,caller"},
		{"branch history as a list", "quipper.perf.data.branch_stack_spec", "--branch-history -g folded,count,callee"},
		{"branch lines", "quipper.perf.data.branch-4.14", "--sort srcline_from,srcline_to,cycles"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(corpusDir, "perf-data", c.file)
			if _, err := os.Stat(path); err != nil {
				t.Skipf("the corpus is not there: %v", err)
			}
			args := append([]string{"report", "--stdio", "--no-inline", "-f", "--symfs", recordedFiles.dir, "-i", path},
				strings.Fields(c.line)...)
			got, _ := gperf(t, args...)
			want := perfPrints(t, "", args...)
			sameText(t, c.line, tip.ReplaceAllString(got, ""), want)
		})
	}
}

// TestReportBranchHistory compares --branch-history with perf 7.3.4 for cases that are not in the recordings of others:
// kinds of branches, aborts, loops, and callchains of --call-graph lbr.
func TestReportBranchHistory(t *testing.T) {
	const predicted, aborted, cond, call, faultData = 1 << 1, 1 << 3, 1 << 20, 4 << 20, 15<<20 | 1<<26
	branches := func(list ...[3]uint64) (b []byte) {
		b = u64s(uint64(len(list)))
		for _, l := range list {
			b = append(b, u64s(l[0], l[1], l[2])...)
		}
		return b
	}
	attr := format.Attr{Type: format.TypeHardware, SamplePeriod: 100, IDs: []uint64{7},
		SampleType: usual | format.SampleCallchain | format.SampleBranchStack}
	lbr := attr
	lbr.BranchSampleType = 1 << 11
	var samples []byte
	for i := range uint64(5) {
		chain := u64s(6, format.ContextKernel, 0xffffffff81000010, format.ContextUser, 0x400105, 0x400205, 0x400305)
		loop := [3]uint64{0x400180, 0x400170, predicted | cond | (10+i)<<4}
		stack := branches([3]uint64{0x400103, 0xffffffff81000000, predicted | call | 3<<4}, loop, loop, loop, loop,
			[3]uint64{0x400160, 0x400170 + 0x1000*(i%2), i%3<<1 | cond | 7<<4},
			[3]uint64{0x400150, 0x40015c, aborted*(i&1) | faultData | 300<<4}, [3]uint64{})
		samples = append(samples, sampleOf(format.MiscKernel, i, chain, stack)...)
	}
	for _, c := range []struct {
		name string
		attr format.Attr
	}{{"branches", attr}, {"lbr", lbr}} {
		file := makeRecording(t, "x86_64", []format.Attr{c.attr}, samples,
			format.Section{Feature: format.FeatureBranchStack})
		for _, line := range []string{"--no-children", "-g caller", "-g fractal --no-children", "--max-stack 3"} {
			args := append([]string{"report", "--stdio", "--branch-history", "-f", "--no-inline", "-i", file,
				"--symfs", t.TempDir()}, strings.Fields(line)...)
			want := perfPrints(t, c.name+" "+line, args...)
			got, _ := gperf(t, args...)
			sameText(t, c.name+" "+line, tip.ReplaceAllString(got, ""), want)
		}
		for _, graph := range []string{"callee", "none"} { // where perf is wrong, or crashes
			got, _ := gperf(t, "report", "--stdio", "--branch-history", "-f", "--no-inline", "-i", file, "--symfs",
				t.TempDir(), "-g", graph)
			named := c.name == "lbr" || strings.Contains(got, "0xffffffff81000000") // the kernel's caller
			if !named || !strings.Contains(got, "Predicted  Abort  Cycles") {
				t.Errorf("%s -g %s prints\n%s", c.name, graph, got)
			}
		}
	}
}

// TestDiffBranches: diff counts the samples of recordings with branches, as perf does.
func TestDiffBranches(t *testing.T) {
	path := filepath.Join(corpusDir, "perf-data", "quipper.perf.data.branch-4.14")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the corpus is not there: %v", err)
	}
	out, _ := gperf(t, "diff", "-s", "dso", "--symfs", t.TempDir(), path, path)
	for _, want := range []string{"    53.47%     +0.00%  ld-2.23.so", "    46.53%     +0.00%  [kernel.kallsyms]"} {
		if !strings.Contains(out, want) {
			t.Errorf("no line %q in\n%s", want, out)
		}
	}
}

// TestStatRecording: recordings of perf stat are named, with the command that prints them.
func TestStatRecording(t *testing.T) {
	file := filepath.Join(t.TempDir(), "perf.data")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w, err := format.NewWriter(out, []format.Attr{{Type: format.TypeSoftware, SampleType: usual}},
		[]format.Section{{Feature: format.FeatureStat}})
	if err == nil {
		err = errors.Join(w.Write(format.AppendMark(nil, format.TypeFinishedRound)), w.Close(nil))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"report", "script"} {
		_, stderr := gperf(t, command, "-i", file)
		if want := "contains counts of perf stat record, no samples: perf stat report -i " + file; !strings.Contains(
			stderr, want) || strings.Contains(stderr, "never happened") {
			t.Errorf("%s prints\n%s", command, stderr)
		}
	}
}

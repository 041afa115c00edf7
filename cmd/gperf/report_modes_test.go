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

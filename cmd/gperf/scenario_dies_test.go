package main

import (
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

var diesPrograms = map[string]*programs.Program{
	"-O2": programs.C("testdata/dies.c", "-g", "-O2"), "-Os": programs.C("testdata/dies.c", "-Os"),
}

// TestScenarioCallerThatDies: the caller of a function that does not return has its own name in every output, though
// the return address may be in the function after it.
func TestScenarioCallerThatDies(t *testing.T) {
	needProbes(t, "uprobe")
	for flags, p := range diesPrograms {
		program, dir := p.Path(t), t.TempDir()
		mustRecord(t, dir, "-g", "-e", "uprobe:"+program+":die", program)
		file := filepath.Join(dir, "perf.data")
		if text, _ := gperf(t, "script", "-F", "ip,sym", "-i", file); !strings.Contains(text, " f\n") ||
			strings.Contains(text, "float") {
			t.Errorf("%s: the function f is not shown as f:\n%.300s", flags, text)
		}
		for _, args := range []string{"script -F ip,sym", "report --stdio --no-children", "report --format csv",
			"report --format folded", "report --format json", "report --format flamegraph -o -"} {
			words := strings.Fields(args)
			text, _ := gperf(t, append(words, "-i", file)...)
			for name, want := range map[string]bool{"fails_first": true, "fails_second": true, "never_called": false} {
				if got := strings.Contains(text, name); got != want {
					t.Errorf("%s: %s: %s: %v, want %v", flags, args, name, got, want)
				}
			}
		}
	}
}

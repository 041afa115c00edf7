package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

var (
	plugins = programs.C("testdata/plugins.c", "-ldl")
	plugin  = [2]*programs.Program{
		programs.C("testdata/plugin.c", "-shared", "-fPIC", "-O2", "-fomit-frame-pointer", "-DPREFIX=first", "-DROOM=200"),
		programs.C("testdata/plugin.c", "-shared", "-fPIC", "-O2", "-fomit-frame-pointer", "-DPREFIX=second",
			"-DROOM=400"),
	}
)

// Stacks are walked with the table of the library that is mapped, not with the table of one that was mapped there
// before.
func TestScenarioLibraryInPlaceOfAnother(t *testing.T) {
	needRecording(t, "no BPF", "-g")
	host, first, second := plugins.Path(t), plugin[0].Path(t), plugin[1].Path(t)
	if out, err := exec.Command(host, first, second).Output(); err != nil || strings.TrimSpace(string(out)) < "7" {
		t.Skipf("the libraries get other addresses: %s %v", out, err)
	}
	file := filepath.Join(t.TempDir(), "perf.data")
	mustRecord(t, "", "-F", "399", "-g", "-o", file, "--", host, first, second)
	script, _ := gperf(t, "script", "-F", "ip,sym", "-i", file)
	n, right := 0, 0
	for stack := range strings.SplitSeq(script, "\n\n") {
		for _, name := range []string{"first", "second"} {
			if strings.Contains(stack, name+"_inner") {
				n++
				if strings.Contains(stack, name+"_outer") && strings.Contains(stack, " main") {
					right++
				}
			}
		}
	}
	if n < 20 || right < n*95/100 {
		t.Errorf("%d of %d stacks have the callers", right, n)
	}
}

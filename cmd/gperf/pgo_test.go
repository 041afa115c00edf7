package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

var pgoProgram = programs.Go("./testdata/pgo")

// Go's compiler reads gperf's profiles: it sees the program's calls, and inlines the hot one, which it does not inline
// without a profile.
func TestScenarioProfileGuidedBuild(t *testing.T) {
	needRecording(t, "no BPF", "-g")
	dir := t.TempDir()
	profile, calls := filepath.Join(dir, "profile.pb.gz"), filepath.Join(dir, "calls")
	mustRecord(t, dir, "-g", "-e", "cpu-clock:u", "-F", "999", "--", pgoProgram.Path(t))
	mustGperf(t, "report", "-i", filepath.Join(dir, "perf.data"), "--format", "pprof", "-o", profile)

	goTool := func(args ...string) string {
		out, err := exec.Command("go", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	goTool("tool", "preprofile", "-i", profile, "-o", calls)
	edges, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	const hot = `gperf/cmd/gperf/testdata/pgo/hot.`
	found := false
	for _, edge := range regexp.MustCompile(`(?m)^(.*\n.*)\n\d+ \d+$`).FindAllStringSubmatch(string(edges), -1) {
		switch caller, callee, _ := strings.Cut(edge[1], "\n"); {
		case caller == hot+"Run" && callee == hot+"mix":
			found = true
		case caller == "runtime.main" && callee == "main.main", caller == "main.main" && callee == hot+"Run":
		case strings.HasPrefix(callee, hot) || strings.HasPrefix(callee, "main."):
			t.Errorf("%s does not call %s", caller, callee)
		}
	}
	if !found {
		t.Error("the profile has no call of hot.mix")
	}
	const inlines = "inlining call to mix"
	if out := goTool("build", "-pgo=off", "-gcflags=-m", "./testdata/pgo/hot"); strings.Contains(out, inlines) {
		t.Errorf("without a profile:\n%s", out)
	}
	if out := goTool("build", "-pgo="+profile, "-gcflags=-m", "./testdata/pgo/hot"); !strings.Contains(out, inlines) {
		t.Errorf("with gperf's profile, no %q in\n%s", inlines, out)
	}
}

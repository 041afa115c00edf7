package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// casesDir contains, next to the checkout, situations from bug reports about profilers. Each is a program and run.sh,
// which builds and records the program with $GPERF. It prints the expected and the actual result, and exits with 0 if
// these agree or if the machine lacks something ("skipped: …"), 1 if they differ, and 2 if it cannot run.
const casesDir = "../../../shared/cases"

// withoutNode runs the script $0 as if node were not installed: node works for a second there, and the machine's
// other load decides which share of the time is node's start.
const withoutNode = `node() { return 1; }; . "$0"`

// Situations from bug reports yield the expected result.
func TestScenarioFromBugReports(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(casesDir, "*", "run.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if len(scripts) == 0 {
		t.Skipf("%s is missing", casesDir)
	}
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	needPrograms(t, "gcc", "g++", "go")
	needProbes(t, "uprobe")
	needEmitted(t)
	gperf := binary(t, "./cmd/gperf")
	for _, script := range scripts {
		t.Run(filepath.Base(filepath.Dir(script)), func(t *testing.T) {
			t.Parallel() // the scripts mostly sleep, and record only their own programs
			cmd := exec.Command("sh", "-c", withoutNode, script)
			cmd.Env = append(cmd.Environ(), "GPERF="+gperf)
			out, err := cmd.CombinedOutput()
			switch code := cmd.ProcessState.ExitCode(); {
			case code == 2:
				t.Skipf("run.sh cannot run here:\n%s", out)
			case err != nil:
				t.Errorf("%v:\n%s", err, out)
			case strings.Contains(string(out), "skipped: "):
				t.Skip(string(out))
			}
		})
	}
}

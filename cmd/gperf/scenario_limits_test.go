package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// With few open files allowed, gperf records what it can, and says what to raise. On
// two CPUs, 32 are enough for the events, but not for walking stacks in the kernel.
func TestScenarioFewFiles(t *testing.T) {
	needTracepoints(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	for _, files := range []string{"32", "24"} {
		t.Run("ulimit -n "+files, func(t *testing.T) {
			var errs strings.Builder
			cmd := exec.Command("sh", "-c", `ulimit -n `+files+` && exec "$@"`, "sh", binary(t, "./cmd/gperf"), "record", "-C", "0", "-g", "-e", "cpu-clock", "-o", file, "--", "true")
			cmd.Stderr = &errs
			err := cmd.Run()
			switch out := errs.String(); {
			case err != nil:
				t.Errorf("%v\n%s", err, out)
			case strings.Contains(out, "cannot unwind stacks") && !strings.Contains(out, "Raise the limit of open files (ulimit -n)."):
				t.Errorf("no word of what to raise:\n%s", out)
			case files == "24" && !strings.Contains(out, "copying 8192 bytes"):
				t.Errorf("with 24 files:\n%s", out)
			}
		})
	}
}

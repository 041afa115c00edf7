package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gperf/internal/testutil/programs"
)

var unansweredProgram = programs.C(ownPrograms+"unanswered.c", "-O1")

// TestHostileUnansweredAlone: a process whose program is in a file system that never answers costs neither other
// programs' stacks nor more than a wait. Alone, because each recording of all processes waits meanwhile.
func TestHostileUnansweredAlone(t *testing.T) {
	needEvents(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("this kernel has no FUSE")
	}
	dir := t.TempDir()
	mounted := filepath.Join(dir, "mounted")
	os.Mkdir(mounted, 0o755)
	path := filepath.Join(mounted, "program")
	copyFile(t, unansweredProgram.Path(t), path)
	program := exec.Command(path, mounted)
	if startLoudly(t, program) != nil {
		t.Skip("a file system of FUSE cannot be mounted here")
	}
	honest := filepath.Join(dir, "honest")
	copyFile(t, deepProgram.Path(t), honest)
	start := time.Now()
	r := mustRecord(t, dir, "-a", "-g", "-F", "499", "--", honest, "200000")
	if d := time.Since(start); d > patience(time.Minute) {
		t.Errorf("recording takes %v", d)
	}
	for _, want := range []string{mounted + ": the file system does not answer",
		path + ": no unwind table, because its file system does not answer"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("no message %q:\n%s", want, r.stderr)
		}
	}
	file := filepath.Join(dir, "perf.data")
	deepStacksWhole(t, file, r.stderr)
	s := mustGperf(t, "report", "--stdio", "--sort", "comm", "-g", "none", "-i", file)
	if !strings.Contains(s, "program") {
		t.Errorf("the process has no samples:\n%s", s)
	}

	// A recording that stays says it with the first file.
	config := filepath.Join(dir, "gperf.conf")
	os.WriteFile(config, []byte("--file-time 1s --max-cpu 100%\n"), 0o600)
	stays := startContinuous(t, filepath.Join(dir, "continuous"), config)
	stays.await(nil, 6) // the file system counts as silent after two seconds
	stays.cmd.Process.Kill()
	stays.cmd.Wait()
	if s := stays.errs.String(); strings.Count(s, mounted+": the file system does not answer") != 1 {
		t.Errorf("the recording that stays does not say it once:\n%s", s)
	}
}

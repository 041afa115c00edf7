package main

import (
	"bufio"
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
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	program.Stderr = os.Stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer program.Wait()
	defer program.Process.Kill()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Skip("a file system of FUSE cannot be mounted here")
	}
	honest := filepath.Join(dir, "honest")
	copyFile(t, deepProgram.Path(t), honest)
	start := time.Now()
	r := mustRecord(t, dir, "-a", "-g", "-F", "499", "--", honest, "200000")
	if d := time.Since(start); d > patience(time.Minute) {
		t.Errorf("recording takes %v", d)
	}
	if !strings.Contains(r.stderr, mounted+": the file system does not answer") {
		t.Errorf("no message:\n%s", r.stderr)
	}
	file := filepath.Join(dir, "perf.data")
	all, right := 0, 0
	for s := range strings.SplitSeq(mustGperf(t, "script", "--comm", "honest", "-F", "ip,sym", "-i", file), "\n\n") {
		if strings.Contains(s, " work") {
			all++
			if containsAll(s+"\n", " main\n", " _start\n") {
				right++
			}
		}
	}
	if all < 20 || right < all*99/100 {
		t.Errorf("%d of %d stacks of another program are complete\n%s", right, all, r.stderr)
	}
	s := mustGperf(t, "report", "--stdio", "--sort", "comm", "-g", "none", "-i", file)
	if !strings.Contains(s, "program") {
		t.Errorf("the process has no samples:\n%s", s)
	}
}

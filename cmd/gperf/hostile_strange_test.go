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

var strangeProgram = programs.C(ownPrograms+"strange.c", "-O1")

// TestHostileStrangeProcessAlone: a process with 65,400 mappings of code and 100,000 names, whose file is named for a
// terminal and for /proc/PID/maps, costs neither other programs' stacks nor much time, and the output about it has no
// control characters. Alone, because each recording of all processes that begins meanwhile gets these mappings.
func TestHostileStrangeProcessAlone(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "x\x1b[2J\n00400000-7fffffffffff r-xp 00000000 00:00 0 [vdso]")
	copyFile(t, strangeProgram.Path(t), path)
	strange := exec.Command(path)
	if err := startLoudly(t, strange); err != nil {
		t.Fatal(err)
	}
	honest := filepath.Join(dir, "honest")
	copyFile(t, deepProgram.Path(t), honest)
	start := time.Now()
	r := mustRecord(t, dir, "-a", "-g", "-F", "499", "--", honest, "200000")
	if d := time.Since(start); d > patience(2*time.Minute) {
		t.Errorf("recording takes %v", d)
	}
	file := filepath.Join(dir, "perf.data")
	if st, err := os.Stat(file); err != nil || st.Size() > 100<<20 {
		t.Errorf("%v, %d MB", err, st.Size()>>20)
	}
	deepStacksWhole(t, file, r.stderr)
	t.Setenv("GPERF_PAGER", "cat")
	t.Setenv("NO_COLOR", "1")
	for _, args := range [][]string{{"report", "--sort", "comm,dso,sym"}, {"script"}} {
		text, code := onTerminal(t, 100, 30, append(args, "-i", file)...)
		if code != exitOK || !strings.Contains(text, "^[[2J") {
			t.Errorf("%s shows no escaped name, exit code %d:\n%.2000s", args[0], code, text)
		}
		noControls(t, args[0], strings.ReplaceAll(text, "\x1b[K", "")) // which ends the line of progress
	}
}

// startLoudly starts a program that writes a line when it is ready, and ends it after the test. It returns an error if
// the program ends before.
func startLoudly(t *testing.T, program *exec.Cmd) error {
	t.Helper()
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	program.Stderr = os.Stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Process.Kill(); program.Wait() })
	_, err = bufio.NewReader(out).ReadString('\n')
	return err
}

// deepStacksWhole checks that 99 % of the stacks of deepProgram, running as honest, are complete. summary is the
// recorder's output.
func deepStacksWhole(t *testing.T, file, summary string) {
	t.Helper()
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
		t.Errorf("%d of %d stacks of another program are complete\n%s", right, all, summary)
	}
}

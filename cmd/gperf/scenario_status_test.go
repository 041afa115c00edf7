package main

import (
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestScenarioStatus: on a terminal, a line shows the progress so far; it is erased at the end, and not shown
// where a command writes. Other outputs get none.
func TestScenarioStatus(t *testing.T) {
	needEvents(t)
	line := regexp.MustCompile(`\rgperf record: \d+ s, [1-9]\d* samples, \d+\.\d MB, \S*perf\.data\x1b\[K`)
	for script, want := range map[string]bool{"exec sleep 3": true, "echo hello; exec sleep 3": false} {
		master, slave := pseudoTerminal(t)
		cmd := exec.Command(binary(t, "./cmd/gperf"), "record", "-a", "-e", "cpu-clock", "-o",
			filepath.Join(t.TempDir(), "perf.data"), "--", "sh", "-c", script)
		cmd.Stdout, cmd.Stderr = slave, slave
		seen := make(chan string)
		go func() {
			b, _ := io.ReadAll(master) // ends with EIO when the terminal loses the last writer
			seen <- string(b)
		}()
		err := cmd.Run()
		slave.Close()
		text := <-seen
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if got := line.MatchString(text); got != want {
			t.Errorf("sh -c %q: a status line: %v, want %v, in\n%q", script, got, want, text)
		}
		if want && !strings.Contains(text, "\r\x1b[K[ gperf record: Woken up") {
			t.Errorf("the line is not erased: %q", text)
		}
	}
	r := mustRecord(t, t.TempDir(), "-a", "-e", "cpu-clock", "--", "sleep", "2.5")
	if strings.Contains(r.stderr, " s, ") || strings.Contains(r.stderr, "\r") {
		t.Errorf("a file gets %q", r.stderr)
	}
}

// TestScenarioImpliedPipe: a recording that goes into the pipe of standard output because -o is missing says so.
func TestScenarioImpliedPipe(t *testing.T) {
	needEvents(t)
	for _, c := range []struct {
		flags []string
		want  bool
	}{{nil, true}, {[]string{"-q"}, false}, {[]string{"-o", "-"}, false}} {
		args := append(append([]string{"record", "-e", "cpu-clock:u"}, c.flags...), "true")
		cmd := exec.Command(binary(t, "./cmd/gperf"), args...)
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		said := strings.Contains(stderr.String(), "went into the pipe of standard output: -o FILE")
		if err != nil || said != c.want || !strings.HasPrefix(stdout.String(), "PERFILE2") {
			t.Errorf("%v: %v\n%s", c.flags, err, &stderr)
		}
	}
}

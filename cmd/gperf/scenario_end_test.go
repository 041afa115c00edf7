package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// recordWithin runs gperf record and kills it when it has not ended in time.
func recordWithin(t *testing.T, limit time.Duration, args ...string) {
	t.Helper()
	var errs strings.Builder
	cmd := exec.Command(binary(t, "./cmd/gperf"), append([]string{"record"}, args...)...)
	cmd.Stderr = &errs
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !killer.Stop() {
		t.Fatalf("gperf record %s did not end within %v\n%s", strings.Join(args, " "), limit, errs.String())
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("gperf record %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
}

// Events that the recorder itself causes while it drains must not keep it draining.
func TestScenarioOwnDrainEnds(t *testing.T) {
	needTracepoints(t)
	for _, events := range []string{"raw_syscalls:sys_enter", "kmem:kmalloc", "kmem:*", "raw_syscalls:*", "mmap_lock:*", "sched:*"} {
		for _, more := range [][]string{nil, {"--exclude-perf"}} {
			args := append([]string{"-e", events}, more...)
			t.Run(strings.Join(args[1:], " "), func(t *testing.T) {
				if !strings.Contains(events, "*") && !exists("/sys/kernel/tracing/events/"+strings.ReplaceAll(events, ":", "/")) {
					t.Skip("this kernel does not have the tracepoint")
				}
				file := filepath.Join(t.TempDir(), "perf.data")
				recordWithin(t, patience(30*time.Second), append(args, "-a", "-g", "-o", file, "--", "sleep", "0.5")...)
				c := read(t, file)
				if c.total == 0 {
					t.Error("no samples")
				}
				for who := range c.samples {
					if strings.HasPrefix(who, "gperf:") && len(more) > 0 {
						t.Errorf("--exclude-perf leaves samples of gperf: %s", who)
					}
				}
			})
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

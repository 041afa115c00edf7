package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A CPU that was offline for a while is recorded again: with every event, in a file that
// is still being written, in the finished one and in a pipe's.
func TestScenarioHotplugAlone(t *testing.T) {
	needTracepoints(t)
	needPrograms(t, "taskset")
	const online = "/sys/devices/system/cpu/cpu1/online"
	switch {
	case os.Getenv("GPERF_SLOW") == "":
		t.Skip("takes a CPU offline: for guests, where that disturbs nobody")
	case !exists(online):
		t.Skip("CPU 1 cannot be taken offline")
	}
	if os.WriteFile(online, []byte("1"), 0o600) != nil {
		t.Skip("CPU 1 cannot be taken offline by this user")
	}
	for _, test := range []struct {
		name   string
		events []string // as script prints them
		args   []string
	}{
		{"one event", []string{"cpu-clock"}, []string{"-a", "-e", "cpu-clock"}},
		{"one CPU", []string{"cpu-clock"}, []string{"-C", "1", "-e", "cpu-clock"}},
		{"tracepoint", []string{"cpu-clock", "sched:sched_switch"}, []string{"-a", "-e", "cpu-clock,sched:sched_switch"}},
		{"stacks", []string{"cpu-clock", "sched:sched_switch"}, []string{"-a", "-e", "cpu-clock,sched:sched_switch", "--call-graph", "dwarf"}},
		{"raw tracepoint", []string{"raw_tracepoint:sched_switch"}, []string{"-a", "-e", "raw_tracepoint:sched_switch"}},
		{"pipe", []string{"cpu-clock"}, []string{"-a", "-e", "cpu-clock", "-o", "-"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			switch test.name {
			case "one event", "tracepoint":
				if testing.Short() {
					t.Skip("others do the same and more")
				}
			case "raw tracepoint":
				needEmitted(t)
			}
			file := filepath.Join(t.TempDir(), "perf.data")
			args := append([]string{"record", "-F", "99", "-o", file}, test.args...)
			cmd := exec.Command(binary(t, "./cmd/gperf"), args...)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if test.name == "pipe" {
				out, err := os.Create(file)
				if err != nil {
					t.Fatal(err)
				}
				defer out.Close()
				cmd.Stdout = out
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				cmd.Process.Kill()
				if cmd.Wait(); t.Failed() {
					t.Log(errs.String())
				}
			})
			waitSampled(t, file, startPinned(t, "before"), test.events)
			for _, state := range []string{"0", "1"} {
				if err := os.WriteFile(online, []byte(state), 0o600); err != nil {
					t.Skip("CPU 1 cannot be taken offline: ", err)
				}
			}
			after := startPinned(t, "after")
			waitSampled(t, file, after, test.events)
			cmd.Process.Signal(syscall.SIGINT)
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if missing := unsampled(file, after, test.events); missing != "" {
				t.Errorf("the finished file has no %s of CPU 1 after it was offline", missing)
			}
		})
	}
}

// startPinned starts a program that runs and sleeps in turns on CPU 1, and returns its
// name.
func startPinned(t *testing.T, name string) string {
	t.Helper()
	cmd := exec.Command("taskset", "-c", "1", named(t, "sh", name), "-c",
		"while :; do i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; sleep 0.01; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return name
}

// named returns a link to a program, which has the link's name when it runs.
func named(t *testing.T, program, name string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skip(err)
	}
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// waitSampled waits until each event has a sample of a program on CPU 1.
func waitSampled(t *testing.T, file, comm string, events []string) {
	t.Helper()
	missing := ""
	for end := time.Now().Add(patience(10 * time.Second)); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if missing = unsampled(file, comm, events); missing == "" {
			return
		}
	}
	t.Fatalf("no %s of %q on CPU 1", missing, comm)
}

// unsampled returns an event without a sample of a program on CPU 1, "" if all have one.
func unsampled(file, comm string, events []string) string {
	var out, errs bytes.Buffer
	run([]string{"script", "-i", file, "-G", "-F", "comm,cpu,event"}, &out, &errs)
	lines := strings.Join(strings.Fields(out.String()), " ")
	for _, event := range events {
		if !strings.Contains(lines, fmt.Sprintf("%s [001] %s:", comm, event)) {
			return event
		}
	}
	return ""
}

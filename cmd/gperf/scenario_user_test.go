package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A user without any rights gets the stacks that -g and --call-graph dwarf promise:
// from copies, which one line says.
func TestScenarioPlainUserStacks(t *testing.T) {
	needTracepoints(t)
	dir, program := nobodys(t, binary(t, "./cmd/gperf"))
	_, target := nobodys(t, stacksDWARF.Path(t))
	if b, _ := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); strings.TrimSpace(string(b)) > "2" {
		t.Skipf("kernel.perf_event_paranoid is %s: plain users record nothing", b)
	}
	for _, graph := range []string{"-g", "--call-graph=dwarf"} {
		t.Run(graph, func(t *testing.T) {
			file := filepath.Join(dir, "perf.data")
			var errs strings.Builder
			cmd := exec.Command(program, "record", "-o", file, graph, "-e", "cpu-clock", "-F", "999", "--", target,
				"recurse", "30")
			cmd.Dir, cmd.Stderr, cmd.Env = dir, &errs, append(os.Environ(), "HOME="+dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534,
				NoSetGroups: true}}
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, errs.String())
			}
			if n := strings.Count(errs.String(), "cannot unwind stacks in the kernel"); n != 1 {
				t.Errorf("%d lines say how stacks are recorded:\n%s", n, errs.String())
			}
			out, _ := gperf(t, "script", "--no-inline", "-F", "ip,sym", "-i", file)
			// Before main, the dynamic linker runs, and after it, exit.
			samples := strings.Split(strings.TrimSpace(out), "\n\n")
			toMain := func(s string) bool { return regexp.MustCompile(`(?m) main$`).MatchString(s) }
			for len(samples) > 0 && !toMain(samples[0]) {
				samples = samples[1:]
			}
			for len(samples) > 0 && !toMain(samples[len(samples)-1]) {
				samples = samples[:len(samples)-1]
			}
			other := slices.DeleteFunc(slices.Clone(samples), toMain)
			if len(samples) < 20 || len(other)*100 > 5*len(samples) {
				t.Errorf("%d of %d stacks do not reach main, such as %q", len(other), len(samples),
					other[:min(len(other), 3)])
			}
		})
	}
}

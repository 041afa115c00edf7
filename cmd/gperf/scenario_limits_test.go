package main

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// With few open files allowed, gperf records as much as it can, and says what to raise. On
// two CPUs, 28 are enough for the events, but not for walking stacks in the kernel.
func TestScenarioFewFiles(t *testing.T) {
	needTracepoints(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	for _, files := range []string{"38", "37", "36", "35", "32", "28", "24"} {
		t.Run("ulimit -n "+files, func(t *testing.T) {
			var errs strings.Builder
			cmd := exec.Command("sh", "-c", `ulimit -n `+files+` && exec "$@"`, "sh", binary(t, "./cmd/gperf"),
				"record", "-C", "0", "-g", "-e", "cpu-clock", "-o", file, "--", "true")
			cmd.Stderr = &errs
			err := cmd.Run()
			switch out := errs.String(); {
			case err != nil:
				t.Errorf("%v\n%s", err, out)
			case strings.Contains(out, "cannot unwind stacks") &&
				!strings.Contains(out, "Raise the limit of open files (ulimit -n)."):
				t.Errorf("no word of what to raise:\n%s", out)
			case files <= "28" && !strings.Contains(out, "copying 8192 bytes"):
				t.Errorf("with %s files:\n%s", files, out)
			}
		})
	}
}

// A limit of the address space that Go's runtime cannot start with is explained, in
// a gperf that make builds.
func TestAddressSpaceLimit(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the entry point that looks at the limit is for amd64")
	}
	needPrograms(t, "make", "go")
	dir := t.TempDir()
	command, err := exec.Command("make", "-n", "-C", root, "gperf").Output()
	if err != nil {
		t.Fatal(err)
	}
	i := strings.Index(string(command), "CGO_ENABLED")
	line, _, _ := strings.Cut(string(command[max(i, 0):]), "\n")
	build := exec.Command("sh", "-c", strings.Replace(line, "-o gperf", "-buildvcs=false -o "+dir+"/gperf", 1))
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	for _, c := range []struct {
		limit string
		ok    bool
	}{{"100000", false}, {"700000", false}, {"1200000", false}, {"1572864", true}, {"unlimited", true}} {
		t.Run("ulimit -v "+c.limit, func(t *testing.T) {
			out, err := exec.Command("sh", "-c", "ulimit -v "+c.limit+" && exec "+dir+"/gperf version").CombinedOutput()
			if c.ok && err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			const want = "gperf: at least 1.5 GiB of address space is needed: raise the limit (ulimit -v 1572864).\n"
			if !c.ok && (err == nil || string(out) != want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

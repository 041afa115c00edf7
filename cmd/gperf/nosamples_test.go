package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A recording without samples says why, when it is made and when it is read, and succeeds, as perf's does.
func TestRecordNoSamples(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	for _, c := range []struct {
		name, recorded, read string
		args                 []string
	}{
		{"event", "skb:kfree_skb never happened in the recorded threads", "never happened",
			[]string{"-e", "skb:kfree_skb", "true"}},
		{"filter", "syscalls:sys_enter_openat never happened, or the filter matched none", "filter matched none",
			[]string{"-e", "syscalls:sys_enter_openat", "--filter", "flags == 12345678", "true"}},
		{"period", "page-faults happened less than 100000000 times", "less than 100000000 times",
			[]string{"-e", "page-faults", "-c", "100000000", "true"}},
		{"clock", "the recorded threads used too little CPU time for a sample of cpu-clock", "too little CPU time",
			[]string{"-e", "cpu-clock:u", "-c", "100000000000", "true"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := recordIn(t, dir, c.args...)
			if r.code != exitOK || !strings.Contains(r.stderr, "0 samples: "+c.recorded) {
				t.Fatalf("exit code %d\n%s", r.code, r.stderr)
			}
			for _, command := range []string{"report", "top"} {
				_, stderr := gperf(t, command, "--stdio", "-i", filepath.Join(dir, "perf.data"))
				if !strings.Contains(stderr, "has no samples: ") || !strings.Contains(stderr, c.read) {
					t.Errorf("%s prints\n%s", command, stderr)
				}
			}
		})
	}
}

// If no recorded process maps the file of a probe, the file's name is printed.
func TestScenarioNoSamplesOfFile(t *testing.T) {
	needProbes(t, "uprobe")
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	r := recordIn(t, t.TempDir(), "-e", "uprobe:"+bash+":main", "true")
	if r.code != exitOK || !strings.Contains(r.stderr, "0 samples: no recorded process maps /") ||
		!strings.Contains(r.stderr, "/bash ]") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}

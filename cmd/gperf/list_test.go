package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fullDisk is a file that takes nothing.
type fullDisk struct{ err error }

func (f fullDisk) Write([]byte) (int, error) { return 0, f.err }

// A write error is an error of the command, except EPIPE.
func TestListUnwritten(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"list", "sw"}, {"probe", "-x", program, "--funcs"}} {
		for err, want := range map[error]int{syscall.ENOSPC: exitError, syscall.EPIPE: 0} {
			var errs strings.Builder
			code := run(args, fullDisk{err}, &errs)
			if code != want || (want != 0) != strings.Contains(errs.String(), "no space left") {
				t.Errorf("%v, %v: exit code %d\n%s", args, err, code, errs.String())
			}
		}
	}
}

// TestListOutput: -o writes the list to a file.
func TestListOutput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	var out, errs strings.Builder
	if code := run([]string{"list", "-j", "-o", file, "sw"}, &out, &errs); code != 0 || out.Len() > 0 {
		t.Fatalf("exit code %d, %q, %s", code, out.String(), errs.String())
	}
	b, err := os.ReadFile(file)
	if err != nil || !json.Valid(b) || !strings.Contains(string(b), `"cpu-clock"`) {
		t.Errorf("%v: %s", err, b)
	}
}

// TestListAsPerf: tracepoints and events of PMUs get the names and the encodings that
// perf lists.
func TestListAsPerf(t *testing.T) {
	o := needOracle(t)
	if o.compat != "7.3" {
		t.Skip("perf 6.1 has no list as JSON")
	}
	want := encodings(t, string(o.output(t, []string{"list", "-j", "tracepoint", "pmu"})))
	text, _ := gperf(t, "list", "-j", "tracepoint", "pmu")
	got := encodings(t, text)
	n := 0
	for name, code := range want {
		if unit, _, _ := strings.Cut(code, "/"); unit == "tool" || unit == "software" || unit == "drm" ||
			unit == "hwmon" {
			continue // which only perf stat knows, or which gperf lists as software events
		}
		if strings.HasPrefix(name, "ftrace:") {
			continue // which tracefs does not name among the available events
		}
		if strings.HasPrefix(name, "gperf_") {
			continue // the probes of other tests come and go
		}
		n++
		if got[name] != code {
			t.Errorf("%s: %q, want %q", name, got[name], code)
		}
	}
	if n == 0 {
		t.Skip("perf lists nothing: tracefs is missing")
	}
}

func encodings(t *testing.T, list string) map[string]string {
	t.Helper()
	var events []struct{ EventName, Encoding string }
	if err := json.Unmarshal([]byte(list), &events); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range events {
		if e.EventName != "" {
			all[e.EventName] = e.Encoding
		}
	}
	return all
}

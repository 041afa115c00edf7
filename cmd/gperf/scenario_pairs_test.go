package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

var asyncProgram = programs.C("testdata/async.c", "-O2", "-g", "-pthread")

// TestScenarioFunctionPairs: spans between calls of two functions, on different threads, by an argument that both have,
// have the arguments of both.
func TestScenarioFunctionPairs(t *testing.T) {
	needProbes(t, "uprobe")
	dir, program := t.TempDir(), asyncProgram.Path(t)
	file := filepath.Join(dir, "perf.data")
	span := "span:" + program + ":begin_request..end_request/key=r/"
	mustRecord(t, dir, "-e", span, "-g", "--", program)
	text, _ := gperf(t, "script", "-i", file)
	const args = `duration=\d+ start=\d+ start_pid=\d+ r=0x[0-9a-f]+ size=10[0-3] status=20[1-4]\n.* end_request\+0x`
	if n := len(regexp.MustCompile(args).FindAllString(text, -1)); n != 20 {
		t.Errorf("%d spans with their arguments, want 20:\n%s", n, text)
	}
	for i, want := range []string{"201", "202", "203", "204"} {
		out, _ := gperf(t, "report", "-i", file, "--filter", "status == "+want, "--sort", "size,status", "--format",
			"csv")
		if !strings.Contains(out, "10"+string(rune('0'+i))+","+want) {
			t.Errorf("status %s:\n%s", want, out)
		}
		low := strings.Repeat("0", 7)
		slow, _ := gperf(t, "script", "-i", file, "--filter", "status == "+want+" && duration < "+want[2:]+low)
		if slow != "" {
			t.Errorf("requests took less than they sleep:\n%s", slow)
		}
	}
	mustRecord(t, dir, "-e", strings.TrimSuffix(span, "/")+",hist/", "--", program)
	out, _ := gperf(t, "report", "-i", file)
	if !strings.Contains(out, "# 20 calls") && !strings.Contains(out, " 20 ") {
		t.Errorf("histogram:\n%s", out)
	}
	r := recordIn(t, dir, "-e", "span:"+program+":begin_request..end_request/key=size/", "--", program)
	if r.code != exitUsage || !strings.Contains(r.stderr, `end_request has no number "size"; it has status, r`) {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

// TestScenarioFunctionPairsGo: in programs of Go, spans without a key are of one goroutine, on whichever thread it
// runs.
func TestScenarioFunctionPairsGo(t *testing.T) {
	needProbes(t, "uprobe")
	dir, program := t.TempDir(), causesGo.Path(t)
	mustRecord(t, dir, "-e", "span:"+program+":main.causeSleep..main.causeChannel", "--", "sh", "-c",
		"exec "+program+" 21 >/dev/null")
	text, _ := gperf(t, "script", "-i", filepath.Join(dir, "perf.data"))
	if n := strings.Count(text, " goroutine=1\n"); n != 3 {
		t.Errorf("%d spans of the goroutine, want 3:\n%s", n, text)
	}
}

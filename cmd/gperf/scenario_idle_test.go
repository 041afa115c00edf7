package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

var idleProgram = programs.C("../../testdata/programs/idle.c", "-O2", "-pthread")

// TestScenarioIdleWaits: report leaves out waits for work, with their wakers, and says their share; flags show them.
func TestScenarioIdleWaits(t *testing.T) {
	needOffCPU(t)
	dir := t.TempDir()
	mustRecord(t, dir, "--off-cpu", "--off-cpu-thresh", "0", "--waker", "-g", "--", idleProgram.Path(t), "500")
	file := filepath.Join(dir, "perf.data")
	out, _ := gperf(t, "script", "-i", file, "--format", "json")
	var all, idle, others, wakers uint64
	for line := range strings.Lines(out) {
		var s struct {
			Period      uint64
			Event, Kind string
		}
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		if s.Event == "offcpu-waker" {
			wakers += s.Period
			continue
		}
		all += s.Period
		polls := strings.Contains(line, "aeApiPoll")
		switch {
		case polls && s.Kind != "runqueue": // a loop that waits for a CPU is not idle
			idle += s.Period
		case !polls && !strings.Contains(line, "sleep_long"):
			others += s.Period
		}
	}
	if idle < 300e6 || all-idle-others < 300e6 || wakers < all*9/10 {
		t.Fatalf("%d ns of waits, %d idle, %d neither idle nor sleep, %d of wakers:\n%s", all, idle, others, wakers,
			out)
	}
	said := fmt.Sprintf("left out idle, %.1f %% of the time of waits", 100*float64(idle)/float64(all))
	for _, tt := range []struct {
		args        string
		idle, sleep bool // what is shown
		says        bool
	}{
		{"--sort kind", false, true, true},
		{"--format folded --by kind", false, true, true},
		{"--format csv --sort kind", false, true, true},
		{"--format json", true, true, false},
		{"--sort kind --idle", true, true, false},
		{"--sort kind --no-idle", false, true, false},
		{"--sort kind --kind timer", false, true, false},
		{"--sort kind --kind idle", true, false, false},
		{"--sort kind --kind idle,timer", true, true, false},
		{"--sort kind --kind idle --no-idle", false, false, false},
		{"--sort kind --filter kind!=other", true, true, false},
		{"--sort kind --filter kind!=other --kind=timer", false, true, false},
		{"--sort kind --comms idle", false, true, true},
	} {
		sum, stderr := gperf(t, append([]string{"report", "-i", file}, strings.Fields(tt.args)...)...)
		if showsKind(sum, "idle") != tt.idle || showsKind(sum, "timer") != tt.sleep ||
			strings.Contains(stderr, said) != tt.says || strings.Contains(stderr, "left out") != tt.says {
			t.Errorf("report %s: want idle %t, sleep %t, %q %t in\n%.3000s\n%s", tt.args, tt.idle, tt.sleep, said,
				tt.says, sum, stderr)
		}
	}
	shown, _ := gperf(t, "report", "-i", file, "-n", "--show-total-period", "-g", "none", "--no-children", "-t", ";",
		"--sort", "comm")
	var periods []string
	for line := range strings.Lines(shown) {
		if f := strings.Split(line, ";"); !strings.HasPrefix(line, "#") && len(f) == 4 {
			periods = append(periods, strings.TrimSpace(f[2]))
		}
	}
	if len(periods) < 2 || periods[0] != fmt.Sprint(all-idle) {
		t.Errorf("waits of %v ns, want %d without idle ones:\n%s", periods, all-idle, shown)
	}
	for args, want := range map[string]string{
		"script --no-idle": "sleep_long", "script --kind timer": "sleep_long", "script --kind idle": "aeApiPoll",
	} {
		out, _ := gperf(t, append(strings.Fields(args), "-i", file, "--filter", "kind != runqueue")...)
		if strings.Contains(out, "sleep_long") != (want == "sleep_long") || strings.Contains(out, "aeApiPoll") !=
			(want == "aeApiPoll") {
			t.Errorf("%s: want waits of %s alone:\n%.3000s", args, want, out)
		}
	}
	var stdout, stderr outputText
	if code := run([]string{"report", "-i", file, "--kind", "idel"}, &stdout, &stderr); code != exitUsage ||
		!strings.Contains(stderr.String(), "did you mean idle?") {
		t.Errorf("--kind idel: exit code %d\n%s", code, stderr.String())
	}
}

// showsKind reports whether a report by the key kind, in any format, has waits of a kind.
func showsKind(report, kind string) bool {
	shown := regexp.MustCompile(strings.ReplaceAll(`(?m)% +KIND *$|,KIND,|^kind=KIND;|"kind":"KIND"`, "KIND", kind))
	return shown.MatchString(report)
}

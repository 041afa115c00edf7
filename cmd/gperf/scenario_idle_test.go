package main

import (
	"fmt"
	"path/filepath"
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
	out, _ := gperf(t, "script", "-i", file, "-F", "event,period,ip,sym", "--no-inline")
	var all, idle, others, wakers uint64
	for stack := range strings.SplitSeq(out, "\n\n") {
		var period uint64
		var event string
		if fmt.Sscan(stack, &period, &event); event == "offcpu-waker:" {
			wakers += period
			continue
		}
		all += period
		if strings.Contains(stack, "aeApiPoll") {
			idle += period
		} else if !strings.Contains(stack, "sleep_long") {
			others += period
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
		{"", false, true, true},
		{"--format folded", false, true, true},
		{"--format csv", false, true, true},
		{"--format json", true, true, false},
		{"--idle", true, true, false},
		{"--no-idle", false, true, false},
		{"--kind timer", false, true, false},
		{"--kind idle", true, false, false},
		{"--kind idle,timer", true, true, false},
		{"--kind idle --no-idle", false, false, false},
		{"--filter kind!=other", true, true, false},
		{"--filter kind!=other --kind=timer", false, true, false},
		{"--comms idle", false, true, true},
	} {
		sum, stderr := gperf(t, append([]string{"report", "-i", file}, strings.Fields(tt.args)...)...)
		if strings.Contains(sum, "aeApiPoll") != tt.idle || strings.Contains(sum, "sleep_long") != tt.sleep ||
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
		out, _ := gperf(t, append(strings.Fields(args), "-i", file)...)
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

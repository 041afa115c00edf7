package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

var slowProgram = programs.C("../../testdata/programs/slow.c", "-O2")

// TestScenarioSlowest: every tenth request of slow.c sleeps for 30 ms: the parts of these say so, those of others do
// not, and all sum up to the whole.
func TestScenarioSlowest(t *testing.T) {
	needOffCPU(t)
	needProbes(t, "uprobe")
	dir := t.TempDir()
	mustRecord(t, dir, "-e", "span:"+slowProgram.Path(t)+":request", "--off-cpu", "--off-cpu-thresh", "0", "-e",
		"cpu-clock/freq=999/", "-g", "--", slowProgram.Path(t), "50")
	file := filepath.Join(dir, "perf.data")
	// A request that waits for a CPU may be as long as one that sleeps: the number tells what it did.
	sleeps := "arg1 == 3 || arg1 == 13 || arg1 == 23 || arg1 == 33 || arg1 == 43"
	for filter, want := range map[string]struct {
		slept bool
		all   string
	}{"event ~ span:* && (" + sleeps + ")": {true, "the 5 longest of 5 calls"},
		"event ~ span:* && !(" + sleeps + ")": {false, "the 5 longest of 45 calls"}} {
		out, _ := gperf(t, "report", "-i", file, "--slowest", "5", "--filter", filter)
		blocks := strings.Split(strings.TrimSpace(out), "\n\n")
		if len(blocks) != 6 || !strings.Contains(blocks[0], want.all) {
			t.Fatalf("--filter %q: want %s in\n%s", filter, want.all, out)
		}
		for _, block := range blocks[1:] {
			lines := strings.Split(block, "\n")
			if !strings.Contains(lines[0], " request  slow/") && !strings.Contains(lines[0], " request  ") {
				t.Errorf("%q is no request", lines[0])
			}
			sum, slept := 0.0, 0.0
			for _, line := range lines[1:] {
				w := strings.Fields(line) // 30.6 ms 80.8% timer: flush
				share, err := strconv.ParseFloat(strings.TrimSuffix(w[2], "%"), 64)
				if err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				if sum += share; strings.HasSuffix(line, "timer: flush") {
					slept += share
				}
			}
			if sum < 99 || sum > 101 || (slept > 0) != want.slept {
				t.Errorf("--filter %q: parts of %.1f %%, %.1f %% sleep:\n%s", filter, sum, slept, block)
			}
		}
	}
}

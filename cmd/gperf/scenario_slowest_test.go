package main

import (
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gperf/internal/testutil/programs"
)

var slowProgram = programs.C("../../testdata/programs/slow.c", "-O2")

// TestScenarioWhy: the tenth of the requests that takes longest sleeps; the parts of these and of the others sum up.
func TestScenarioWhy(t *testing.T) {
	needOffCPU(t)
	needProbes(t, "uprobe")
	dir := t.TempDir()
	mustRecord(t, dir, "-e", "span:"+slowProgram.Path(t)+":request", "--off-cpu", "--off-cpu-thresh", "0", "-e",
		"cpu-clock/freq=999/", "-g", "--", slowProgram.Path(t), "40", "300")
	out, _ := gperf(t, "report", "-i", filepath.Join(dir, "perf.data"), "--why=90")
	row := regexp.MustCompile(`(?m)^ *([0-9.]+ [nmu]?s) +([0-9.]+ [nmu]?s) +(-?[0-9.]+ [nmu]?s)  (.*)$`)
	var all, sum [2]float64
	flush := false
	for _, m := range row.FindAllStringSubmatch(out, -1) {
		for i := range sum {
			d, err := time.ParseDuration(strings.ReplaceAll(m[1+i], " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case m[4] == "request":
				all[i] = d.Seconds()
			case m[4] == "timer: flush":
				flush = true
				if (d >= 300*time.Millisecond) != (i == 0) {
					t.Errorf("%s", m[0])
				}
				fallthrough
			default:
				sum[i] += d.Seconds()
			}
		}
	}
	if !flush || all[0] == 0 || math.Abs(sum[0]/all[0]-1) > 0.01 || math.Abs(sum[1]/all[1]-1) > 0.01 ||
		!strings.Contains(out, "request: 40 calls") || !strings.Contains(out, "        4        36 ") {
		t.Errorf("the parts sum up to %v of %v s:\n%s", sum, all, out)
	}
}

var chainProgram = programs.C("../../testdata/programs/chain.c", "-O2", "-pthread")

// TestScenarioWhyChain: requests wait for a lock, its holder for a thread, and this one sleeps.
func TestScenarioWhyChain(t *testing.T) {
	needOffCPU(t)
	needProbes(t, "uprobe")
	dir := t.TempDir()
	mustRecord(t, dir, "-e", "span:"+chainProgram.Path(t)+":request", "--off-cpu", "--off-cpu-thresh", "0", "--waker",
		"-g", "--", chainProgram.Path(t))
	for args, want := range map[string]string{
		"--slowest 20": `lock: take_lock, woken by holder in flush_cache
 .*  holder: pipe: ask, woken by source in source
 .*    source: timer: think
`,
		"--why=98": `  lock: take_lock, woken by holder in flush_cache
.*    holder: pipe: ask, woken by source in source
.*      source: timer: think
`} {
		out, _ := gperf(t, append(strings.Fields("report "+args), "-i", filepath.Join(dir, "perf.data"))...)
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s: want %s in\n%s", args, want, out)
		}
	}
}

// TestScenarioSlowest: every tenth request of slow.c sleeps for 30 ms: the parts of these say so, those of others do
// not, and all sum up to the whole.
func TestScenarioSlowest(t *testing.T) {
	needOffCPU(t)
	needProbes(t, "uprobe")
	dir := t.TempDir()
	mustRecord(t, dir, "-e", "span:"+slowProgram.Path(t)+":request", "--off-cpu", "--off-cpu-thresh", "0", "-e",
		"cpu-clock/freq=999/", "-g", "--", slowProgram.Path(t), "50")
	file := filepath.Join(dir, "perf.data")
	// A request that waits for a CPU can take more time than one that sleeps: the number tells what it did.
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

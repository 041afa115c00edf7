package main

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

var (
	goroutinesProgram = programs.Go("../../testdata/programs/goroutines")
	goroutinesBare    = programs.Go("../../testdata/programs/goroutines", "-ldflags=-s -w")
)

// traceReasons are the reasons of runtime/trace, by the function in which goroutines wait.
var traceReasons = map[string]string{"time.Sleep": "sleep", "runtime.semacquire1": "sync",
	"runtime.chanrecv": "chan receive", "runtime.chansend": "chan send", "runtime.selectgo": "select",
	"runtime.netpollblock": "network"}

// goWait is a wait of a goroutine in the JSON of a recording.
type goWait struct {
	Period, Goroutine uint64
	Event, Kind       string
	Stack             []struct{ Function string }
}

// reason returns why the goroutine waits, in the words of runtime/trace, "" for another reason.
func (w *goWait) reason() string {
	for _, f := range w.Stack {
		if why := traceReasons[f.Function]; why != "" {
			return why
		}
	}
	return ""
}

// in reports whether a function is in the stack.
func (w *goWait) in(function string) bool {
	return slices.Contains(w.Stack, struct{ Function string }{function})
}

// inProgram reports whether the goroutine runs a function of the program.
func (w *goWait) inProgram() bool {
	return slices.ContainsFunc(w.Stack, func(f struct{ Function string }) bool {
		return strings.HasPrefix(f.Function, "main.")
	})
}

// TestScenarioGoroutines: the waits of goroutines of a program, also a stripped one, are those of runtime/trace.
func TestScenarioGoroutines(t *testing.T) {
	needOffCPU(t)
	for name, p := range map[string]*programs.Program{"symbols": goroutinesProgram, "stripped": goroutinesBare} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			traced := filepath.Join(dir, "trace")
			mustRecord(t, dir, "--goroutines", "--waker", "-g", "--", p.Path(t), traced)
			file := filepath.Join(dir, "perf.data")
			got, kinds := map[string]float64{}, map[string]uint64{}
			own := map[uint64]bool{} // the goroutines of the program, not of the runtime
			out, _ := gperf(t, "script", "-i", file, "--format", "json")
			for line := range strings.Lines(out) {
				var w goWait
				if err := json.Unmarshal([]byte(line), &w); err != nil {
					t.Fatal(err)
				}
				if w.Event != "goroutine-wait" {
					continue
				}
				kinds[w.Kind] += w.Period
				// The program waits for its own start, and sleeps, before it is traced.
				starts := w.in("runtime.main") && w.in("time.Sleep") || w.in("runtime.gcenable")
				if w.Kind != "runqueue" && w.inProgram() && !starts {
					own[w.Goroutine] = true
					got[w.reason()] += float64(w.Period)
				}
			}
			if len(own) < 11 {
				t.Errorf("the program's goroutines are %v", own)
			}
			for _, kind := range []string{"lock", "timer", "channel", "network", "idle", "runqueue"} {
				if kinds[kind] == 0 {
					t.Errorf("no wait of kind %s: %v", kind, kinds)
				}
			}
			folded, _ := gperf(t, "report", "-i", file, "--format", "folded", "--by", "goroutine", "--filter",
				"event == goroutine-wait")
			for _, stack := range []string{
				`(?m)main\.contender;.*runtime\.gopark;woken by .*main\.holder;.*runtime\.ready \d+$`,
				`(?m)main\.consume;.*runtime\.gopark;woken by .*runtime\.chansend;.*runtime\.ready \d+$`,
			} {
				if !regexp.MustCompile(stack).MatchString(folded) {
					t.Errorf("no stack %s:\n%s", stack, folded)
				}
			}
			if strings.Contains(folded, "main.work;runtime.chanrecv") {
				t.Errorf("a worker that waits for work is not idle:\n%s", folded)
			}
			if !own[1] && slices.Min(slices.Collect(maps.Keys(own))) > 1<<32 {
				t.Skip("before Linux 5.15, goroutines have addresses for numbers")
			}
			if !own[1] {
				t.Errorf("the main goroutine is not among %v", own)
			}
			want := tracedWaits(t, traced, own)
			for _, why := range []string{"sleep", "sync", "chan receive", "select", "network"} {
				if off := math.Abs(got[why]-want[why]) / want[why]; want[why] < 100e6 || off > 0.03 {
					t.Errorf("%s: %.1f ms, runtime/trace has %.1f", why, got[why]/1e6, want[why]/1e6)
				}
			}
		})
	}
}

var (
	traceChange = regexp.MustCompile(`Time=(\d+) GoID=(\d+) (\w+)->(\w+)`)
	traceReason = regexp.MustCompile(`Reason="([^"]*)"`)
)

// tracedWaits returns the time, in ns, that some goroutines waited by a file of runtime/trace, by reason.
func tracedWaits(t *testing.T, file string, goroutines map[uint64]bool) map[string]float64 {
	t.Helper()
	cmd := exec.Command("go", "tool", "trace", "-d=parsed", file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("go tool trace: %v", err)
	}
	type wait struct {
		since float64
		why   string
	}
	sums, waits := map[string]float64{}, map[string]wait{}
	for line := range strings.Lines(string(out)) {
		m := traceChange.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if id, _ := strconv.ParseUint(m[2], 10, 64); !goroutines[id] {
			continue
		}
		at, _ := strconv.ParseFloat(m[1], 64)
		switch w := waits[m[2]]; {
		case m[3] == "Running" && m[4] == "Waiting":
			w.since = at
			if r := traceReason.FindStringSubmatch(line); r != nil {
				w.why = r[1]
			}
			waits[m[2]] = w
		case m[3] == "Waiting" && m[4] != "Waiting" && w.since > 0:
			sums[w.why] += at - w.since
			delete(waits, m[2])
		}
	}
	return sums
}

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sampleObject is a line of --format json.
type sampleObject struct {
	Time     uint64
	Event    string
	Comm     string
	PID, TID int32
	Period   uint64
	Fields   map[string]any
	Stack    []frameObject
}

type frameObject struct {
	Function, File, DSO, IP string
	Line                    int
	Inlined                 bool
}

func sampleObjects(t *testing.T, args ...string) (l []sampleObject) {
	t.Helper()
	for line := range strings.Lines(mustGperf(t, append([]string{"report", "--format", "json"}, args...)...)) {
		var s sampleObject
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		l = append(l, s)
	}
	return l
}

// TestJSON compares the samples with the text of script.
func TestJSON(t *testing.T) {
	for _, name := range []string{"drops.data", "answers.data"} {
		t.Run(name, func(t *testing.T) {
			file := testRecording(name)
			var b strings.Builder
			for _, s := range sampleObjects(t, "--no-inline", "-i", file) {
				fmt.Fprintf(&b, "%s %d/%d %d.%09d: %d %s:\n", s.Comm, s.PID, s.TID, s.Time/1e9, s.Time%1e9, s.Period,
					s.Event)
				for _, f := range s.Stack {
					if f.Function == "" {
						f.Function = "[unknown]"
					}
					fmt.Fprintf(&b, "%s %s (%s)\n", strings.TrimPrefix(f.IP, "0x"), f.Function, f.DSO)
				}
			}
			script := mustGperf(t, "script", "--ns", "-F", "comm,pid,tid,time,period,event,ip,sym,dso", "--no-inline",
				"-i", file)
			got, want := strings.Join(strings.Fields(b.String()), " "), strings.Join(strings.Fields(script), " ")
			if got != want || got == "" {
				t.Errorf("samples:\n%.3000s\nscript:\n%.3000s", got, want)
			}
		})
	}
}

// TestJSONFields checks that fields are numbers, the names that perf script prints for
// them, or text.
func TestJSONFields(t *testing.T) {
	s := sampleObjects(t, "-i", testRecording("drops.data"))[0]
	want := map[string]any{"skbaddr": "0xffff888227d81900", "location": "0xffffffff82043b0c", "rx_sk": "(nil)",
		"protocol": 2048.0, "reason": "NO_SOCKET"}
	if !maps.Equal(s.Fields, want) {
		t.Errorf("got %v, want %v", s.Fields, want)
	}
	bytes := 0.0
	for _, s := range sampleObjects(t, "-i", testRecording("answers.data")) {
		if n, ok := s.Fields["bytes"].(float64); ok {
			bytes += n
		}
	}
	report := mustGperf(t, "report", "--weight", "bytes", "-F", "period,comm", "-i", testRecording("answers.data"))
	if want := fmt.Sprintf("# Sum of bytes: %.0f\n", bytes); bytes == 0 || !strings.Contains(report, want) {
		t.Errorf("no %s in\n%s", want, report)
	}
}

// TestSpeedscope checks that the profiles have the samples of --format json: those of each
// thread, in their order, with the functions of their stacks and with their periods.
func TestSpeedscope(t *testing.T) {
	file := testRecording("answers.data")
	var got struct {
		Shared struct {
			Frames []struct{ Name string }
		}
		Profiles []struct {
			Type, Name, Unit string
			EndValue         uint64
			Samples          [][]int
			Weights          []uint64
		}
	}
	out := filepath.Join(t.TempDir(), "speedscope.json")
	mustGperf(t, "report", "--format", "speedscope", "-o", out, "-i", file)
	b, err := os.ReadFile(out)
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{} // by event and thread: the samples
	for _, s := range sampleObjects(t, "-i", file) {
		line := ""
		for _, f := range s.Stack {
			name := f.Function
			if name == "" {
				name = "[" + strings.Trim(filepath.Base(f.DSO), "[]") + "]"
			}
			line = ";" + name + line
		}
		key := fmt.Sprintf("%s %d", s.Event, s.TID)
		want[key] = append(want[key], fmt.Sprint(s.Period, line))
	}
	for _, p := range got.Profiles {
		words := strings.Fields(p.Name) // event, command, thread
		key := words[0] + " " + words[len(words)-1]
		key = strings.Replace(key, "/", " ", 1)
		var samples []string
		sum := uint64(0)
		for i, stack := range p.Samples {
			line := fmt.Sprint(p.Weights[i])
			for _, f := range stack {
				line += ";" + got.Shared.Frames[f].Name
			}
			samples, sum = append(samples, line), sum+p.Weights[i]
		}
		if strings.Join(samples, "\n") != strings.Join(want[key], "\n") || sum != p.EndValue || p.Type != "sampled" {
			t.Errorf("%s: %d samples with sum %d of %d:\n%.2000s\nwant\n%.2000s", p.Name, len(samples), sum, p.EndValue,
				strings.Join(samples, "\n"), strings.Join(want[key], "\n"))
		}
		delete(want, key)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", slices.Collect(maps.Keys(want)))
	}
}

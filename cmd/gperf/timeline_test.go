package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// sampleObject is a line of --format json.
type sampleObject struct {
	Time  uint64
	Event string
	Comm  string
	// WakerComm is the command of the thread that ended a wait.
	WakerComm string `json:"waker_comm"`
	PID, TID  int32
	CPU       *uint32
	Period    uint64
	Fields    map[string]any
	Stack     []frameObject
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
		"protocol": "IPv4", "reason": "NO_SOCKET"}
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

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gperf/report"
)

// jsonSample is a sample of --format json.
type jsonSample struct {
	line             string
	Time             uint64
	Event, Comm      string
	PID, TID, Period int
	CPU              int
	Kind             string
	WakerComm        string `json:"waker_comm"`
	WakerPID         int    `json:"waker_pid"`
	Fields           map[string]any
	Stack            []jsonFrame
}

type jsonFrame struct {
	Function, File, DSO string
	Line                int
	BuildID             string `json:"build_id"`
}

func (s *jsonSample) text(field string) string { v, _ := s.Fields[field].(string); return v }
func (s *jsonSample) number(field string) float64 {
	v, _ := s.Fields[field].(float64)
	return v
}

// jsonSamples returns the samples of a recording.
func jsonSamples(t *testing.T, args ...string) (l []jsonSample) {
	t.Helper()
	text, _ := gperf(t, append([]string{"script", "--format", "json"}, args...)...)
	for line := range strings.Lines(text) {
		s := jsonSample{line: line}
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		l = append(l, s)
	}
	return l
}

// filterCases are expressions of --filter, with the samples that they select.
var filterCases = []struct {
	file, filter string
	want         func(s *jsonSample) bool
}{
	{"packets.z", "reason == NO_SOCKET && dport == 53", func(s *jsonSample) bool {
		return s.text("reason") == "NO_SOCKET" && s.number("dport") == 53
	}},
	{"packets.z", "reason != NO_SOCKET || len > 10 && len <= 0xb", func(s *jsonSample) bool {
		return s.text("reason") != "NO_SOCKET" || s.number("len") == 11
	}},
	{"packets.z", `flow ~ "*:444"`, func(s *jsonSample) bool { return strings.HasSuffix(s.text("flow"), ":444") }},
	{"packets.z", `dst == "udp [::1]:53"`, func(s *jsonSample) bool {
		return strings.HasPrefix(s.text("flow"), "udp") && strings.HasSuffix(s.text("flow"), " [::1]:53")
	}},
	{"packets.z", "daddr == ::1", func(s *jsonSample) bool { return strings.Contains(s.text("flow"), "> [::1]:") }},
	{"packets.z", "saddr != 127.0.0.1", func(s *jsonSample) bool { return !strings.Contains(s.text("flow"), "127.0.0.1:") }},
	{"packets.z", `src ~ "udp *"`, func(s *jsonSample) bool { return strings.HasPrefix(s.text("flow"), "udp ") }},
	{"packets.z", "proto == tcp", func(s *jsonSample) bool { return s.text("proto") == "tcp" }},
	{"packets.z", "proto == 17 && dport < 9003 && dport >= 9001", func(s *jsonSample) bool {
		return s.text("proto") == "udp" && (s.number("dport") == 9001 || s.number("dport") == 9002)
	}},
	{"packets.z", "protocol == IPv6", func(s *jsonSample) bool { return s.text("protocol") == "IPv6" }},
	{"packets.z", "tcpflags & SYN", func(s *jsonSample) bool { return strings.Contains(s.text("tcpflags"), "SYN") }},
	{"packets.z", `tcpflags == "SYN|ACK" || tcpflags == 2`, func(s *jsonSample) bool { return s.text("tcpflags") == "SYN" }},
	{"packets.z", "dev == lo && !(cpu == 0)", func(s *jsonSample) bool { return s.CPU != 0 }},
	{"spans", "duration > 10us", func(s *jsonSample) bool { return s.number("duration") > 10_000 }},
	{"spans", "duration > 0.005ms && period <= 20us", func(s *jsonSample) bool {
		return s.number("duration") > 5_000 && s.Period <= 20_000
	}},
	{"spans", "syscall == openat && ret > 0", func(s *jsonSample) bool {
		return s.text("syscall") == "openat" && s.number("ret") > 0
	}},
	{"spans", `syscall ~ "m*map"`, func(s *jsonSample) bool { is, _ := path.Match("m*map", s.text("syscall")); return is }},
	{"spans", "ret < 0", func(s *jsonSample) bool { return s.number("ret") < 0 }},
	{"spans", "errno == ENOENT", func(s *jsonSample) bool { return s.number("ret") == -2 }},
	{"spans", "ret == -ENOENT || errno == EACCES", func(s *jsonSample) bool {
		return s.text("errno") == "ENOENT" || s.text("errno") == "EACCES"
	}},
	{"spans", "id != 0 && id < 10", func(s *jsonSample) bool { return s.number("id") > 0 && s.number("id") < 10 }},
	{"answers", "syscall == read", func(s *jsonSample) bool { return s.text("syscall") == "read" }},
	{"answers", "event == probe_libc:malloc && bytes > 1k", func(s *jsonSample) bool {
		return s.Event == "probe_libc:malloc" && s.number("bytes") > 1024
	}},
	{"answers", `event ~ "raw_syscalls:*" && ret == 0`, func(s *jsonSample) bool {
		return s.Event == "raw_syscalls:sys_exit" && s.number("ret") == 0
	}},
	{"waits.z", "duration >= 20ms", func(s *jsonSample) bool { return s.Event == "offcpu-time" && s.Period >= 20e6 }},
	{"waits.z", "event == offcpu-time && waker_comm == bash", func(s *jsonSample) bool {
		return s.Event == "offcpu-time" && s.WakerComm == "bash"
	}},
	{"waits.z", "kind == other", func(s *jsonSample) bool { return s.Kind == "other" }},
	{"waits.z", "kind != idle && duration > 10ms", func(s *jsonSample) bool {
		return s.Kind != "" && s.Kind != "idle" && s.Period > 10e6
	}},
	{"waits.z", "waker_pid > 0 && period < 20ms", func(s *jsonSample) bool { return s.WakerPID > 0 && s.Period < 20e6 }},
	{"threads", `comm ~ "worker*" && period > 2ms`, func(s *jsonSample) bool {
		return strings.HasPrefix(s.Comm, "worker") && s.Period > 2e6
	}},
	{"threads", "tid != 20961 && time < 4363.7", func(s *jsonSample) bool { return s.TID != 20961 && s.Time < 4363.7e9 }},
	{"two", "next_comm == gperf && prev_pid > 0", func(s *jsonSample) bool {
		return s.text("next_comm") == "gperf" && s.number("prev_pid") > 0
	}},
	{"two", "stack == __udp4_lib_rcv", func(s *jsonSample) bool {
		return slices.ContainsFunc(s.Stack, func(f jsonFrame) bool { return f.Function == "__udp4_lib_rcv" })
	}},
	{"two", "event == cpu-clock || prev_state ~ R*", func(s *jsonSample) bool {
		return s.Event == "cpu-clock" || strings.HasPrefix(s.text("prev_state"), "R")
	}},
}

// Each expression of --filter selects the same samples in JSON, script and report as its meaning does of all samples.
func TestFilterReading(t *testing.T) {
	for _, c := range filterCases {
		t.Run(c.file+"/"+c.filter, func(t *testing.T) {
			from := []string{"-i", "../../testdata/" + c.file + ".data", "--kallsyms", "../../testdata/kallsyms"}
			var want, got []string
			all := jsonSamples(t, from...)
			for _, s := range all {
				if c.want(&s) {
					want = append(want, s.line)
				}
			}
			if len(want) == 0 || len(want) == len(all) {
				t.Fatalf("the case selects %d of %d samples, which shows little", len(want), len(all))
			}
			from = append(from, "--filter", c.filter)
			for _, s := range jsonSamples(t, from...) {
				got = append(got, s.line)
			}
			if !slices.Equal(got, want) {
				t.Errorf("JSON: %d samples, want %d:\n%s\nwant\n%s", len(got), len(want), got, want)
			}
			script, _ := gperf(t, append([]string{"script", "-F", "tid,event", "-G"}, from...)...)
			if n := strings.Count(script, "\n"); n != len(want) {
				t.Errorf("script: %d samples, want %d", n, len(want))
			}
			columns := []string{"report", "--stdio", "-F", "sample,tid", "-g", "none", "-q"}
			text, _ := gperf(t, append(columns, from...)...)
			n := 0
			for line := range strings.Lines(text) {
				if words := strings.Fields(line); len(words) > 1 {
					i, _ := strconv.Atoi(words[0])
					n += i
				}
			}
			if n != len(want) {
				t.Errorf("report: %d samples, want %d:\n%s", n, len(want), text)
			}
		})
	}
}

// Wrong expressions of --filter are refused with the word that is wrong.
func TestFilterReadingErrors(t *testing.T) {
	for _, c := range []struct{ file, filter, want string }{
		{"packets.z", "dportt == 53", "unknown key \"dportt\": did you mean dport, sport?\n  dportt == 53\n  ^^^^^^\n"},
		{"packets.z", "reason == NO_SOCKT", "did you mean NO_SOCKET?\n  reason == NO_SOCKT\n            ^^^^^^^^\n"},
		{"packets.z", "dport == abc", "dport is a number, but abc is not"},
		{"packets.z", "comm < 3", "comm is text, which < cannot compare"},
		{"packets.z", "dport ~ 5*", "dport is a number, which ~ cannot compare"},
		{"packets.z", "comm == a &&", "is missing at the end\n  comm == a &&\n              ^\n"},
		{"packets.z", "dport == 99999999999999999999", "is not a number of 64 bits"},
		{"packets.z", "comm ~ [", "is no glob"},
		{"spans", "syscall == opennat", "did you mean openat, openat2?"},
		{"spans", "errno == ENOENTT", "did you mean ENOENT"},
		{"spans", "errno == 2", "errno has no value 2"},
		{"spans", "event.function == f", "only filters of the kernel can compare event.function"},
		{"two", "flow == x", "unknown key \"flow\""},
	} {
		t.Run(c.filter, func(t *testing.T) {
			var out, errs outputText
			args := []string{"script", "-i", "../../testdata/" + c.file + ".data", "--filter", c.filter}
			code := run(args, &out, &errs)
			if code != exitUsage || !strings.Contains(errs.String(), c.want) {
				t.Errorf("exit code %d, want %q in\n%s", code, c.want, errs.String())
			}
		})
	}
}

// Of several recordings, one may lack a key or a value: that is said, and an error if all lack it.
func TestFilterSeveral(t *testing.T) {
	files := []string{"-i", "../../testdata/packets.z.data", "-i", "../../testdata/waits.z.data"}
	packets := len(jsonSamples(t, append([]string{"--filter", "dport == 53"}, files[:2]...)...))
	waits := len(jsonSamples(t, append([]string{"--filter", "event == offcpu-time"}, files[2:]...)...))
	for filter, want := range map[string]int{
		"dport == 53":                            packets,
		"dport == 53 || event == offcpu-time":    packets + waits,
		"!(dport != 53) && event == offcpu-time": waits,
	} {
		if n := len(jsonSamples(t, append([]string{"--filter", filter}, files...)...)); n != want || n == 0 {
			t.Errorf("%s: %d samples, want %d", filter, n, want)
		}
		_, stderr := gperf(t, append([]string{"report", "--stdio", "--filter", filter}, files...)...)
		if !strings.Contains(stderr, "--filter: in 1 of 2 recordings: unknown key \"dport\"") {
			t.Errorf("%s: no message:\n%s", filter, stderr)
		}
	}
	for _, filter := range []string{"dportt == 53", "dport == abc", "dport == ", "dport == 53 && reason == NO_SOCKT"} {
		for _, command := range []string{"report", "script"} {
			var out, errs outputText
			args := append([]string{command, "--filter", filter}, files...)
			if code := run(args, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "^\n") {
				t.Errorf("%s %s: exit code %d\n%s", command, filter, code, errs.String())
			}
		}
	}
}

// A filter that selects no sample says which comparison no sample meets, and which values the samples have.
func TestFilterReadingMisses(t *testing.T) {
	_, stderr := gperf(t, "script", "-i", "../../testdata/packets.z.data", "--filter", "comm == curl && dport == 54")
	for _, want := range []string{"no sample matches --filter comm == curl: the samples have bash\n"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("want %q in\n%s", want, stderr)
		}
	}
}

// selectedTimes are the times of the samples that the page's filter selects, in ns of the recording's clock.
const selectedTimes = `page.table?.matched !== %q ? [] : Array.from(page.table.time,
	(t, i) => page.table.flags[i] & unmatched ? "" : String(BigInt(page.table.recordings[0].first) + BigInt(t)))
	.filter(t => t)`

// The filter in the address of gperf view selects the same samples.
func TestFilterView(outer *testing.T) {
	ctx := newBrowser(outer)
	views := map[string]*viewing{}
	for _, c := range filterCases {
		outer.Run(c.file+"/"+c.filter, func(t *testing.T) {
			from := []string{"-i", "../../testdata/" + c.file + ".data", "--kallsyms", "../../testdata/kallsyms"}
			if views[c.file] == nil {
				views[c.file] = startView(outer, from...)
			}
			var want []string
			for _, s := range jsonSamples(t, from...) {
				if c.want(&s) {
					want = append(want, strconv.FormatUint(s.Time, 10))
				}
			}
			at := views[c.file].url + "#filter=" + url.QueryEscape(c.filter)
			if err := chromedp.Do(ctx, chromedp.Navigate(at)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for end := time.Now().Add(patience(20 * time.Second)); len(got) == 0 && time.Now().Before(end); {
				var err error
				got, err = chromedp.Run(ctx, chromedp.Evaluate[[]string](fmt.Sprintf(selectedTimes, c.filter)))
				if err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d samples, want %d:\n%s\nwant\n%s", len(got), len(want), got, want)
			}
		})
	}
}

// notOfSamples are the keys of gperf report --sort that a sample does not have one value of: of branches, of matching
// callers, and figures of many samples.
var notOfSamples = regexp.MustCompile(`^(callchain_branch_.*|.*_(from|to)|mispredict|abort|in_tx|cycles|ipc_.*|` +
	`parent|overhead.*|latency.*|sample)$`)

// Each key of gperf help sort that a sample has is a key of --by, --filter, the page and of columns in CSV. Package tui
// has the test of the terminal, TestSortKeys.
func TestFilterKeys(t *testing.T) {
	from := []string{"-i", testRecording("threads.data")}
	for _, key := range report.Keys() {
		if notOfSamples.MatchString(key) {
			continue
		}
		t.Run(key, func(t *testing.T) {
			folded, _ := gperf(t, append([]string{"report", "--format", "folded", "--by", key}, from...)...)
			if folded == "" {
				t.Error("--by: no stacks")
			}
			args := append([]string{"script", "-G", "--filter", key + ` != "no such text"`}, from...)
			var wrong outputText
			if run(args, io.Discard, &wrong) != exitOK && strings.Contains(wrong.String(), "is a number") {
				args[3] = key + " >= -1"
			}
			samples, misses := gperf(t, args...)
			if samples == "" && !strings.Contains(misses, "the samples have N/A") {
				t.Errorf("--filter selects no sample: %s", misses)
			}
			var csv, errs outputText
			run(append([]string{"report", "--format", "csv", "--sort", key}, from...), &csv, &errs)
			memoryOnly := strings.Contains(errs.String(), "--mem-mode") // as perf's rule is for these keys
			if strings.Count(csv.String(), "\n") < 2 && !memoryOnly {
				t.Errorf("CSV: %q\n%s", csv.String(), errs.String())
			}
			page := filepath.Join(t.TempDir(), "page.html")
			gperf(t, append([]string{"view", "--export", page, "--by", key}, from...)...)
			b, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if keys := readPage(t, string(b)).Keys; !slices.Contains(keys, key) {
				t.Errorf("the page has the keys %q", keys)
			}
		})
	}
}

// TestFilterKeysOfData: --by divides the samples by the data that instructions accessed as --sort does, and --filter
// selects them.
func TestFilterKeysOfData(t *testing.T) {
	for _, name := range []string{"rcppthread.perf-mem.data", "quipper.perf.data.weight_struct"} {
		path := filepath.Join(corpusDir, "perf-data", name)
		if _, err := os.Stat(path); err != nil {
			t.Skipf("the corpus is not there: %v", err)
		}
		from := []string{"-f", "--symfs", recordedFiles.dir, "-i", path}
		for _, key := range []string{"dso_daddr", "dcacheline"} {
			t.Run(name+" "+key, func(t *testing.T) {
				rows, _ := gperf(t, append([]string{"report", "--mem-mode", "--format", "csv", "--sort", key},
					from...)...)
				sorted := map[string]bool{}
				for _, line := range strings.Split(strings.TrimSpace(rows), "\n")[1:] {
					sorted[line[strings.LastIndexByte(line, ',')+1:]] = true
				}
				page, _ := gperf(t, append([]string{"report", "--format", "flamegraph", "--by", key}, from...)...)
				var roots []string
				for _, name := range readPage(t, page).Functions.Name {
					if text, ok := strings.CutPrefix(name, key+"="); ok {
						roots = append(roots, text)
					}
				}
				if len(roots) != len(sorted) {
					t.Fatalf("--by has %d values, --sort %d", len(roots), len(sorted))
				}
				text, _ := gperf(t, append([]string{"script", "-F", "ip", "-G", "--filter",
					key + ` == "` + roots[0] + `"`}, from...)...)
				if text == "" {
					t.Errorf("--filter selects no sample of %s", roots[0])
				}
			})
		}
	}
}

// TestReportSpans: the table of spans by key has the calls, errors and longest durations that JSON has.
func TestReportSpans(t *testing.T) {
	from := []string{"-i", "../../testdata/spans.data"}
	type sum struct {
		calls, errors int
		longest       float64
	}
	want, got := map[string]sum{}, map[string]sum{}
	for _, s := range jsonSamples(t, from...) {
		one := want[s.text("syscall")]
		one.calls++
		if s.text("errno") != "" {
			one.errors++
		}
		one.longest = max(one.longest, s.number("duration"))
		want[s.text("syscall")] = one
	}
	out, _ := gperf(t, append([]string{"report", "--sort", "syscall"}, from...)...)
	units := map[string]float64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
	for line := range strings.Lines(out) {
		w := strings.Fields(line) // numbers and their units are words
		if w[0] == "#" || len(w) != 16 {
			continue
		}
		var one sum
		one.calls, _ = strconv.Atoi(w[0])
		one.errors, _ = strconv.Atoi(w[1])
		one.longest, _ = strconv.ParseFloat(w[13], 64)
		if one.longest *= units[w[14]]; math.Abs(one.longest-want[w[15]].longest) <= want[w[15]].longest/100 {
			one.longest = want[w[15]].longest // three digits are printed
		}
		got[w[15]] = one
	}
	if len(want) < 5 || !maps.Equal(got, want) {
		t.Errorf("got %v, want %v from\n%s", got, want, out)
	}
	out, _ = gperf(t, append([]string{"report", "--sort", "syscall", "-g", "none"}, from...)...)
	if !strings.Contains(out, "Overhead  Syscall") {
		t.Errorf("-g none: no table as of other events:\n%s", out)
	}
}

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gperf/format"
	"gperf/internal/testutil/programs"
)

// inlinedProgram spends the time in a function that is inlined twice.
var inlinedProgram = programs.C("../../report/export/testdata/inlined.cc", "-O2", "-g")

// TestRecordInlined: functions that were inlined, in all formats, with the lines
// and the line of the call.
func TestRecordInlined(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	mustRecord(t, dir, "-g", "-e", "cpu-clock:u", "-F", "2000", "--", inlinedProgram.Path(t))
	file := filepath.Join(dir, "perf.data")
	for _, row := range []struct{ flags, want string }{
		{"", `(?m);main;deep::outer\(unsigned long\) \d+$`},
		{"--tidy", `(?m);main;deep::outer \d+$`},
		{"--inline", `(?m);main;deep::outer\([^;]*\);deep::middle\([^;]*\);deep::inner\(unsigned long\) \d+$`},
		{"--inline --addrs --tidy", `(?m);main;deep::outer;deep::middle;deep::inner \d+$`},
	} {
		t.Run(row.flags, func(t *testing.T) {
			folded, _ := gperf(t, append([]string{"script", "--format", "folded", "-i", file},
				strings.Fields(row.flags)...)...)
			if !regexp.MustCompile(row.want).MatchString(folded) {
				t.Errorf("folded %s: no %s in\n%s", row.flags, row.want, folded)
			}
		})
	}
	text, _ := gperf(t, "report", "--format", "flamegraph", "-i", file)
	page := readPage(t, text)
	for _, want := range []string{"deep::inner(unsigned long)", "deep::outer(unsigned long)"} {
		if !slices.Contains(page.Functions.Name, want) {
			t.Errorf("no %s in the page", want)
		}
	}
	if !slices.ContainsFunc(page.Files, func(f string) bool { return strings.HasSuffix(f, "inlined.cc") }) {
		t.Errorf("the page has lines of %q", page.Files)
	}
	text, _ = gperf(t, "report", "--format", "flamegraph", "--no-inline", "-i", file)
	if names := readPage(t, text).Functions.Name; slices.Contains(names, "deep::inner(unsigned long)") {
		t.Error("--no-inline: an inlined function")
	}
	profile := filepath.Join(dir, "profile.pb.gz")
	gperf(t, "script", "--format", "pprof", "-o", profile, "-i", file)
	list := goToolPprof(t, "-list", "deep::(inner|outer)", profile)
	for _, want := range []string{
		`(?m)^ROUTINE =+ deep::inner\(unsigned long\) in .*inlined\.cc$`,
		`(?m)^ +\S+ +\S+ +11:.*sink \* 31`,
		`(?m)^ +\. +\S+s +21:.*middle\(n\);`, // of outer, all in callees
	} {
		if !regexp.MustCompile(want).MatchString(list) {
			t.Errorf("pprof -list: no %s in\n%s", want, list)
		}
	}
}

// goToolPprof runs go tool pprof, or skips the rest of the test where it is not
// there.
func goToolPprof(t *testing.T, args ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.Command(pprofTool(t), append([]string{"-symbolize=none"}, args...)...)
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	return string(out)
}

// pprofTool returns the program that go tool pprof runs, which go may need to
// build.
func pprofTool(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "tool", "-n", "pprof").Output()
	if err != nil {
		t.Skipf("no go tool pprof, which reads profiles: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// TestPprofTool: go tool pprof reads gperf's profiles, with the command line's
// words and in the browser.
func TestPprofTool(t *testing.T) {
	dir := filepath.Join(root, "testdata")
	profile := filepath.Join(t.TempDir(), "profile.pb.gz")
	gperf(t, "report", "-i", filepath.Join(dir, "two.data"), "-i", filepath.Join(dir, "drops.data"), "--kallsyms",
		filepath.Join(dir, "kallsyms"),
		"--symfs", t.TempDir(), "--format", "pprof", "-o", profile)
	for _, test := range []struct{ flags, want string }{
		{"-top", `(?s)File: drops\n.*cmdline: gperf record .*hostname: .*Type: cpu\n.*Total samples = 11500us.* finish_task_switch`},
		{"-top -sample_index=skb:kfree_skb", `(?m)^ +5 +100% +100% +5 +100% +sk_skb_reason_drop$`},
		{"-top -sample_index=sched:sched_switch -tagfocus=tid=15247", `(?m)__schedule$`},
		{"-tree", `__udp4_lib_rcv`},
		{"-raw", `(?s)comm:\[drops\].*pid:\[15247\] tid:\[15247\].*M=\d __udp4_lib_rcv.*Mappings.*\[kernel\.kallsyms\] 6ecd6ec2\w+ \[FN\]`},
		{"-traces", `(?m)comm:  drops$`},
		{"-top -sample_index=skb:kfree_skb -tagfocus=reason=NO_SOCKET", `(?m)^ +5 +100% +100% +5 +100% +sk_skb_reason_drop$`},
	} {
		t.Run(test.flags, func(t *testing.T) {
			if out := goToolPprof(t, append(strings.Fields(test.flags), profile)...); !regexp.MustCompile(
				test.want).MatchString(out) {
				t.Errorf("pprof %s: no %s in\n%s", test.flags, test.want, out)
			}
		})
	}
	pprofInBrowser(t, profile)
}

// pprofInBrowser gets the pages that pprof serves of a profile.
func pprofInBrowser(t *testing.T, profile string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	cmd := exec.Command(pprofTool(t), "-symbolize=none", "-no_browser", "-http="+addr, profile)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe() // open for as long as it is to serve
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for path, want := range map[string]string{"/ui/flamegraph": "__udp4_lib_rcv", "/ui/top": "finish_task_switch",
		"/ui/peek?f=udp_sendmsg": "udp_send_skb"} {
		if page := get(t, "http://"+addr+path); !strings.Contains(page, want) {
			t.Errorf("%s: no %s in %d bytes", path, want, len(page))
		}
	}
}

// get returns the answer of a server that may not run yet.
func get(t *testing.T, url string) string {
	t.Helper()
	var err error
	for range patience(100) {
		var r *http.Response
		if r, err = http.Get(url); err == nil {
			defer r.Body.Close()
			var b []byte
			if b, err = io.ReadAll(r.Body); err == nil {
				return string(b)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal(err)
	return ""
}

// TestFoldedLeavesOut: of several software events one is folded, as by
// stackcollapse-perf.pl; which are not, and how they are, is reported.
func TestFoldedLeavesOut(t *testing.T) {
	st := format.SampleIdentifier | usual | format.SampleCallchain
	attrs := []format.Attr{
		{Type: format.TypeSoftware, SamplePeriod: 1, SampleType: st, IDs: []uint64{7}}, // cpu-clock
		{Type: format.TypeSoftware, Config: 2, SamplePeriod: 1, SampleType: st, IDs: []uint64{8}},
		{Type: format.TypeSoftware, Config: 3, SamplePeriod: 1, SampleType: st, IDs: []uint64{9}},
	}
	var data []byte
	for n, id := range []uint64{8, 7, 7, 8, 7, 9} {
		data = append(data, sample(format.MiscUser, u64s(id, 0x400100), pidTID(10, 10), u64s(1000+uint64(n)),
			u64s(2, contextUser, 0x400100))...)
	}
	file := makeRecording(t, "x86_64", attrs, data)
	for _, test := range []struct{ flags, out, notice string }{
		{"", "made;[made] 2\n", "omitted 4 samples of cpu-clock, context-switches, as stackcollapse-perf.pl does; --by-event folds all events\n"},
		{"--by-event", "context-switches;made;[made] 1\ncpu-clock;made;[made] 3\npage-faults;made;[made] 2\n", ""},
	} {
		t.Run(test.flags, func(t *testing.T) {
			for _, command := range []string{"script", "report"} {
				args := append([]string{command, "--format", "folded", "-i", file}, strings.Fields(test.flags)...)
				out, stderr := gperf(t, args...)
				if out != test.out || !strings.Contains(stderr, test.notice) ||
					test.notice == "" && strings.Contains(stderr, "left out") {
					t.Errorf("%q: %q, want %q; on stderr %q, want %q", args, out, test.out, stderr, test.notice)
				}
			}
		})
	}
	if _, stderr := gperf(t, "script", "--format", "pprof", "-o", filepath.Join(t.TempDir(), "x"), "-i",
		file); strings.Contains(stderr, "left out") {
		t.Errorf("pprof, which has all events: %s", stderr)
	}
}

// TestFoldedLines: whatever a command or a file is called, a stack is one line, and
// brackets are closed.
func TestFoldedLines(t *testing.T) {
	r := &recorder{attrs: 1}
	const pid = 4_000_131
	r.comm(pid, "two\nlines")
	for i, name := range []string{"/dev/ashmem/dalvik-jit-code-cache (deleted)", "/nowhere/a\nb",
		"/nowhere/lib(1);x.so"} {
		r.mmap(pid, uint64(i+1)<<28, 0x1000, name)
		r.sampleAt(miscUser, pid, uint64(i+1)<<28, contextUser, uint64(i+1)<<28)
	}
	out, _ := gperf(t, "script", "--format", "folded", "-i", r.save(t))
	want := `two\nlines;[a\nb] 1
two\nlines;[dalvik-jit-code-cache] 1
two\nlines;[lib(1):x.so] 1
`
	if out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
}

// TestFormatWrongUse: errors of wrong use name the valid values.
func TestFormatWrongUse(t *testing.T) {
	dir := t.TempDir()
	recording := filepath.Join(dir, "drops.data")
	b, err := os.ReadFile(filepath.Join(root, "testdata", "drops.data"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recording, b, 0o600); err != nil {
		t.Fatal(err)
	}
	in := " -i " + recording
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"report --format png", exitUsage, "use text, folded, pprof, flamegraph, svg, speedscope, firefox, perfetto, json, " +
			"pcapng, csv or parquet"},
		{"report --format parquet --rows hours", exitUsage, "--rows hours: use minutes or samples"},
		{"report --format json --rows samples", exitUsage, "--rows is for --format parquet"},
		{"report --format parquet --sort comm", exitUsage, "--sort is for --format text, folded, pprof"},
		{"report --format pprof --percent-limit 1", exitUsage, "--percent-limit is for --format text"},
		{"report --format pprof --sort cmom" + in, exitUsage, "did you mean comm?"},
		{"script --min 1ms" + in, exitUsage, "are for --tree"},
		{"script --tree --min 1m1" + in, exitUsage, "such as 10us"},
		{"script --tree" + in, exitError, "record them with -e span:syscalls"},
		{"report --latency-hist" + in, exitError, "record them with -e span:syscalls"},
		{"report --by reason" + in, exitUsage, "gperf report --sort sorts text"},
		{"script --format folded -F comm", exitUsage, "--fields is for --format text"},
		{"script --kernel", exitUsage, "--kernel is for --format folded"},
		{"script --format pprof --by-event", exitUsage, "--by-event is for --format folded"},
		{"script --pid", exitUsage, "--pid requires a list of IDs"},
		{"script --format pprof --tid", exitUsage, "--tid is for --format folded"},
		{"script -o x.txt", exitUsage, "--output requires --format"},
		{"report --stats" + in + in, exitUsage, "--stats reads one recording, and -i names 2"},
		{"script --format folded -o " + recording + in, exitUsage, "would overwrite the recording"},
		{"script --format pprof -o " + dir + "/none/x" + in, exitError, "none/x: no such file or directory"},
		{"script --format pprof -i none.data" + in, exitError, "none.data: no such file or directory"},
		{"script --format pprof --comm nobody" + in, exitError, "no samples"},
	} {
		t.Run(test.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(strings.Fields(test.args), &stdout, &stderr); code != test.code ||
				!strings.Contains(stderr.String(), test.want) {
				t.Errorf("gperf %s: exit code %d, %q; want %d and %q", test.args, code, &stderr, test.code, test.want)
			}
		})
	}
	if after, err := os.ReadFile(recording); err != nil || !bytes.Equal(b, after) {
		t.Errorf("the recording changed: %v", err)
	}
}

// TestFunctionsWithoutSymbols: formats for other tools distinguish the functions of stripped files by FDE,
// script does not, nor do folded stacks with addresses.
func TestFunctionsWithoutSymbols(t *testing.T) {
	file, debug := strippedProgram(t)
	vaddr, _ := vaddrOf(t, debug, "hidden")
	start := fmt.Sprintf("a+0x%x", vaddr)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"report", "--format", "folded"}, ";" + start + " "},
		{[]string{"report", "--format", "folded", "--addrs"}, ";[a <"},
		{[]string{"report", "--format", "flamegraph"}, `"` + start + `"`},
		{[]string{"report", "--format", "speedscope"}, `"` + start + `"`},
		{[]string{"script", "-F", "ip,sym"}, "[unknown]"},
	} {
		got := mustGperf(t, append(c.args, "-i", file)...)
		if got += pageBlockOf(t, got); !strings.Contains(got, c.want) {
			t.Errorf("%v: no %s in\n%.2000s", c.args, c.want, got)
		}
	}
	profile := filepath.Join(t.TempDir(), "profile.pb.gz")
	mustGperf(t, "report", "--format", "pprof", "-o", profile, "-i", file)
	if top := goToolPprof(t, "-top", profile); !strings.Contains(top, " "+start+"\n") {
		t.Errorf("no %s in\n%s", start, top)
	}
}

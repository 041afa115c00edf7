package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// spanCommand returns a command that makes a known number of system calls, in two processes and with an exec. A shell
// makes others, by whether it waits for its child before that ends: unshare does not handle SIGCHLD.
func spanCommand(t *testing.T) []string {
	t.Helper()
	needPrograms(t, "unshare", "dd")
	dd, err := exec.LookPath("dd") // a path in place of a name, for which each directory of $PATH would be an execve
	if err != nil {
		t.Fatal(err)
	}
	return []string{"unshare", "--fork", dd, "if=/dev/zero", "of=/dev/null", "bs=1", "count=500", "status=none"}
}

// straceCounts returns strace's count of each system call of a command and its children.
func straceCounts(t *testing.T, command ...string) map[string]int {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is missing")
	}
	file := filepath.Join(t.TempDir(), "strace")
	strace := exec.Command("strace", append([]string{"-c", "-f", "-o", file}, command...)...)
	if out, err := strace.CombinedOutput(); err != nil {
		t.Skipf("strace: %v\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	line := regexp.MustCompile(`(?m)^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$`)
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		if counts[m[2]], _ = strconv.Atoi(m[1]); m[2] == "total" {
			delete(counts, m[2])
		}
	}
	return counts
}

// recordSpans records, and skips if programs missed events: kernels that preempt programs at system
// calls do not run the same program again on that CPU, which gperf counts.
func recordSpans(t *testing.T, args ...string) (stderr string) {
	t.Helper()
	r := recordIn(t, "", args...)
	if r.code != 0 {
		t.Fatalf("exit code %d:\n%s", r.code, r.stderr)
	}
	if strings.Contains(r.stderr, "while another BPF program ran") {
		t.Skip(r.stderr)
	}
	return r.stderr
}

// notStored is the number of spans that gperf says it could not store.
func notStored(stderr string) int { return numberIn(stderr, `(\d+) not stored`) }

// A span of a system call is one sample for each call that strace counts, exec included, whose
// period is the duration; stock perf prints the same.
func TestRecordSpanSyscalls(t *testing.T) {
	needEmitted(t)
	path := filepath.Join(t.TempDir(), "perf.data")
	recordSpans(t, append([]string{"-g", "-o", path, "-e", "span:syscalls", "--"}, spanCommand(t)...)...)
	fields := regexp.MustCompile(`(?m)^ *(\d+) +(\w+)\(.*\) = -?\d+ duration=(\d+) start=(\d+)$`)
	counts := map[string]int{}
	for _, m := range fields.FindAllStringSubmatch(mustGperf(t, "script", "-i", path, "-F", "period,trace"), -1) {
		if counts[m[2]]++; m[1] != m[3] {
			t.Errorf("period %s of %s", m[1], m[0])
		}
	}
	if counts["read"] < 500 || counts["write"] < 500 || counts["execve"] != 2 {
		t.Errorf("system calls: %v", counts)
	}
	t.Run("perf", func(t *testing.T) {
		if n := strings.Count(perfScript(t, path), " span:syscalls: write(0x1, 0x"); n < 500 {
			t.Errorf("perf prints %d of %d writes", n, counts["write"])
		}
	})
	t.Run("strace", func(t *testing.T) {
		if want := straceCounts(t, spanCommand(t)...); !maps.Equal(counts, want) {
			t.Errorf("gperf: %v\nstrace: %v", counts, want)
		}
	})
}

// Durations are those that the program measures; min and a filter select by them, and calls of
// killed threads are counted.
func TestRecordSpanDurations(t *testing.T) {
	needEmitted(t)
	path := filepath.Join(t.TempDir(), "perf.data")
	// The command ends while the last sleep sleeps, whose PID it prints last.
	r := recordIn(t, "", "-o", path, "-e", "span:syscalls/min=50ms/", "--filter", "ret == 0", "--", "sh", "-c",
		`at() { date +%s%N; }; at; sleep 0.2; at; sleep 600 >/dev/null 2>&1 & at; sleep 1; at
		until [ "$(cat /proc/$!/comm)" = sleep ] && grep -q '^State:.S' /proc/$!/status; do :; done; echo $!`)
	var printed [5]int // four times in ns, and the PID
	if n, err := fmt.Sscan(r.stdout, &printed[0], &printed[1], &printed[2], &printed[3], &printed[4]); err != nil {
		t.Fatalf("the command prints %d numbers: %v\n%s", n, err, r.stderr)
	}
	syscall.Kill(printed[4], syscall.SIGKILL)
	if !strings.Contains(r.stderr, "spans without an end: 1 still open") {
		t.Errorf("the summary lacks the last sleep:\n%s", r.stderr)
	}
	var got []int
	for _, m := range regexp.MustCompile(`clock_nanosleep\(.* = 0 duration=(\d+)`).FindAllStringSubmatch(
		mustGperf(t, "script", "-i", path, "-F", "trace"), -1) {
		ns, _ := strconv.Atoi(m[1])
		got = append(got, ns/1e6)
	}
	first, second := (printed[1]-printed[0])/1e6, (printed[3]-printed[2])/1e6 // ms, with the starts of sleep
	if len(got) != 2 || got[0] < 200 || got[1] < 1000 || got[0] > first || got[1] > second {
		t.Errorf("sleeps of 200 and 1000 ms have %v ms; the command measures %d and %d", got, first, second)
	}
}

// Histograms count each system call that strace counts, by thread; perf reads their samples.
func TestRecordSpanHistograms(t *testing.T) {
	needEmitted(t)
	path := filepath.Join(t.TempDir(), "perf.data")
	stderr := recordSpans(t, append([]string{"-o", path, "-e", "span:syscalls/hist/", "-e",
		"span:raw_syscalls:sys_enter..raw_syscalls:sys_exit/key=common_pid,id,hist=id/", "--"}, spanCommand(t)...)...)
	counts, pairs := map[string]int{}, 0
	line := regexp.MustCompile(`(?m)^ *(\d+) +(\S+) +(\S+) count=(\d+) failed=\d+ total=(\d+) min=(\d+) max=(\d+) ` +
		`from=(\d+) below=(\d+)$`)
	for _, m := range line.FindAllStringSubmatch(mustGperf(t, "script", "-i", path, "-F", "period,event,trace"), -1) {
		var n [10]int
		for i := range m {
			n[i], _ = strconv.Atoi(m[i])
		}
		if n[1] != n[5] || n[6] < n[8] || n[7] >= n[9] || n[5] < n[4]*n[6] || n[5] > n[4]*n[7] {
			t.Errorf("wrong bucket: %s", m[0])
		}
		if m[2] == "span:syscalls:" {
			counts[m[3]] += n[4]
		} else if m[3] == "id=1" || m[3] == "id=64" { // write on x86-64 and arm64
			pairs += n[4]
		}
	}
	missing := counts["write"] - pairs
	if counts["read"] < 500 || counts["write"] < 500 || counts["execve"] != 2 || missing < 0 ||
		missing > notStored(stderr) {
		t.Errorf("system calls: %v; %d pairs\n%s", counts, pairs, stderr)
	}
	if r := runGperf(t, "script", "--tree", "-i", path); r.code != exitError ||
		!strings.Contains(r.stderr, "only histograms of spans") {
		t.Errorf("--tree of histograms: exit code %d, %q", r.code, r.stderr)
	}
	text := mustGperf(t, "report", "-i", path, "--latency-hist")
	if want := "# write: " + strconv.Itoa(counts["write"]) + " spans, "; !strings.Contains(text, want) {
		t.Errorf("--latency-hist lacks %q:\n%s", want, text)
	}
	t.Run("perf", func(t *testing.T) {
		if text := perfScript(t, path); !strings.Contains(text, " span:syscalls: write count=") {
			t.Errorf("%.500s", text)
		}
	})
	t.Run("strace", func(t *testing.T) {
		if want := straceCounts(t, spanCommand(t)...); !maps.Equal(counts, want) {
			t.Errorf("gperf: %v\nstrace: %v", counts, want)
		}
	})
}

// A span between two tracepoints, by thread or by fields, contains the fields of both, with one sample for
// each pair; so do the spans of system calls for the same pairs.
func TestRecordSpanPairs(t *testing.T) {
	needEmitted(t)
	const pair = "span:raw_syscalls:sys_enter..raw_syscalls:sys_exit"
	path := filepath.Join(t.TempDir(), "perf.data")
	stderr := recordSpans(t, append([]string{"-g", "-o", path, "-e", pair + "/name=thread/", "-e",
		pair + "/key=common_pid,id,name=fields/", "-e", "span:syscalls", "--"}, spanCommand(t)...)...)
	writes := map[string]int{}
	line := regexp.MustCompile(`(?m)^ *(\d+) +(\S+): +(?:write\(.*duration=|duration=)` +
		`(\d+)(?:$| start=\d+$| .* id=(?:1|64) .*ret=\d+$)`) // write on x86-64 and arm64
	for _, m := range line.FindAllStringSubmatch(
		mustGperf(t, "script", "-i", path, "-G", "-F", "period,event,trace"), -1) {
		if writes[m[2]]++; m[1] != m[3] {
			t.Errorf("period %s of %s", m[1], m[0])
		}
	}
	missing := 0
	for _, n := range writes {
		missing += writes["span:syscalls"] - n
	}
	if n := writes["span:syscalls"]; n < 500 || len(writes) != 3 || missing < 0 || missing > notStored(stderr) {
		t.Errorf("writes: %v\n%s", writes, stderr)
	}
	t.Run("perf", func(t *testing.T) {
		if n := strings.Count(perfScript(t, path), " fields: duration="); n < 500 {
			t.Errorf("perf prints %d spans", n)
		}
	})
}

// A span that begins again before its end is the one with the later begin: dd reads a byte before each write, after the
// dynamic linker read files.
func TestRecordSpanAgain(t *testing.T) {
	needEmitted(t)
	path := filepath.Join(t.TempDir(), "perf.data")
	stderr := recordSpans(t, "-o", path, "-e", "span:syscalls:sys_enter_read..syscalls:sys_exit_write", "--",
		"dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=200")
	text := mustGperf(t, "script", "-i", path, "-F", "trace")
	if n, of := strings.Count(text, " count=1 "), strings.Count(text, "\n"); n != 200 || of != 200 {
		t.Errorf("%d spans of %d begin with the read of a byte, want 200:\n%s", n, of, text)
	}
	if numberIn(stderr, `(\d+) began again`) == 0 {
		t.Errorf("no span began again:\n%s", stderr)
	}
}

// Wrong spans are errors with an example or the correct words.
func TestRecordSpanErrors(t *testing.T) {
	needTracepoints(t)
	for spec, want := range map[string]string{
		"span:sched:sched_switch..sched:sched_wakin":                 "did you mean sched:sched_waking",
		"span:sched:sched_switch..sched_wakin":                       "did you mean sched:sched_waking",
		"span:sched_switch..sched:sched_waking":                      "span:block:block_rq_issue..block:block_rq_complete/key=",
		"span:sched:sched_waking..sched:sched_switch/key=pid/":       `sched:sched_switch has no number "pid"; it has`,
		"span:sched:sched_waking..sched:sched_switch/key=comm/":      `sched:sched_waking has no number "comm"`,
		"span:syscalls/key=id/":                                      "the key of calls is the thread",
		"{span:syscalls,cpu-clock}":                                  "span:syscalls",
		"span:sched:sched_waking..sched:sched_switch/key=a,b,c,d,e/": "up to 4 fields",
	} {
		r := recordIn(t, t.TempDir(), "-e", spec, "true")
		if r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit code %d, want %q:\n%s", spec, r.code, want, r.stderr)
		}
	}
}

package main

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// countedCommand reads the same number of times each time it runs, in two programs of one process and a child: dd makes
// up to one other system call more on slow machines. It signals the recorder in the middle.
var countedCommand = []string{"sh", "-c",
	`dd if=/dev/zero of=/dev/null bs=1 count=500 2>/dev/null; kill -USR2 $PPID
	exec dd if=/dev/zero of=/dev/null bs=1 count=500 2>/dev/null`}

// sumOf returns the sum of the periods in a recording, and the number of its samples; filter has flags of script.
func sumOf(t *testing.T, path string, filter ...string) (sum, samples int) {
	t.Helper()
	args := append([]string{"script", "-i", path, "-G", "-F", "period"}, filter...)
	for _, word := range strings.Fields(mustGperf(t, args...)) {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
		samples++
	}
	return sum, samples
}

// needCounts skips where BPF programs cannot count.
func needCounts(t *testing.T) {
	t.Helper()
	needTracepoints(t)
	needRecording(t, "CAP_BPF and CAP_PERFMON are missing, or the kernel's BTF is",
		"--count", "-e", "raw_syscalls:sys_enter")
}

// --count counts each event that record samples, with stacks and without, also if a signal makes it write in between.
// perf reads the file.
func TestRecordCount(t *testing.T) {
	needCounts(t)
	path := filepath.Join(t.TempDir(), "perf.data")
	events := []string{"-o", path, "-e", "syscalls:sys_enter_read"}
	mustRecord(t, "", append(append(events, "--"), countedCommand...)...)
	_, want := sumOf(t, path, "--comms", "dd")
	for _, stacks := range []string{"no", "dwarf", "fp"} {
		t.Run(stacks, func(t *testing.T) {
			flags := append([]string{"--count", "--call-graph", stacks}, events...)
			mustRecord(t, "", append(append(flags, "--"), countedCommand...)...)
			// Until a program's unwind tables are built, each event is a sample with a copy of its stack.
			sum, samples := sumOf(t, path, "--comms", "dd")
			if sum != want || stacks != "dwarf" && samples > want/2 || samples < 2 {
				t.Errorf("%d events in %d samples, want %d", sum, samples, want)
			}
			comms := mustGperf(t, "script", "-i", path, "-G", "-F", "comm")
			if !strings.Contains(comms, " sh ") || !strings.Contains(comms, " dd ") || strings.Contains(comms, ":") {
				t.Errorf("threads: %s", comms)
			}
			folded := mustGperf(t, "report", "-i", path, "--format", "folded")
			// Since glibc 2.41 read jumps to a function that has no name outside of the library.
			whole := regexp.MustCompile(`(?m)^dd;.*__libc_start_main.*;(?:(?:\w+_)?read|\[libc\.so\.6\])[; ]`)
			if stacks == "dwarf" && !whole.MatchString(folded) {
				t.Errorf("no stack from the start of dd to read:\n%.1000s", folded)
			}
			if text := perfScript(t, path); !strings.Contains(text, " syscalls:sys_enter_read: ") {
				t.Errorf("perf prints\n%.500s", text)
			}
		})
	}
}

// Software events are counted at each occurrence; clocks count samples, weighted by their periods.
func TestRecordCountSoftware(t *testing.T) {
	needCounts(t)
	path := filepath.Join(t.TempDir(), "perf.data")
	mustRecord(t, "", "--count", "-g", "-o", path, "-e", "page-faults", "-e", "cpu-clock", "--", "sh", "-c",
		"i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	sums := map[string]int{}
	for line := range strings.Lines(mustGperf(t, "script", "-i", path, "-G", "-F", "event,period")) {
		words := strings.Fields(line)
		n, _ := strconv.Atoi(words[0])
		sums[words[1]] += n
	}
	if n := sums["page-faults:"]; n < 50 || n > 5000 {
		t.Errorf("%d page faults", n)
	}
	if n := sums["cpu-clock:"]; n < 10e6 || n > 10e9 {
		t.Errorf("cpu-clock: %d ns", n)
	}
}

// Probes are counted as tracepoints are.
func TestRecordCountUprobe(t *testing.T) {
	needCounts(t)
	path := filepath.Join(t.TempDir(), "perf.data")
	r := recordIn(t, "", "--count", "-g", "-o", path, "-e", "uprobe:libc:write", "--", "dd", "if=/dev/zero",
		"of=/dev/null", "bs=1", "count=500", "status=none")
	if r.code != 0 {
		t.Skip(r.stderr)
	}
	if sum, _ := sumOf(t, path); sum != 500 {
		t.Errorf("%d calls of write, want 500", sum)
	}
}

// -c, and --count with a number, remain perf's period.
func TestRecordCountPeriod(t *testing.T) {
	needTracepoints(t)
	path := filepath.Join(t.TempDir(), "perf.data")
	for _, flags := range [][]string{{"-c", "7"}, {"-c7"}, {"--count", "7"}, {"--count=7"}} {
		mustRecord(t, "", append(flags, "-o", path, "-e", "page-faults", "--", "true")...)
		if f, _ := openRecording(t, path); f.Attrs[0].SamplePeriod != 7 {
			t.Errorf("%v: period %d", flags, f.Attrs[0].SamplePeriod)
		}
	}
}

// Events and options that cannot be counted are errors, which suggest another way.
func TestRecordCountErrors(t *testing.T) {
	needTracepoints(t)
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"-e", "span:syscalls"}, "span:syscalls/hist/"},
		{[]string{"-e", "raw_tracepoint:sched_switch"}, "use the tracepoint"},
		{[]string{"-e", "raw_syscalls:sys_enter", "--filter", "id == 0"}, "without filters"},
		{[]string{"-e", "page-faults", "--overwrite"}, "--overwrite"},
		{[]string{"-e", "page-faults", "--call-graph", "dwarf,copy"}, "--call-graph dwarf or fp"},
	} {
		r := recordIn(t, t.TempDir(), append(append([]string{"--count"}, c.flags...), "true")...)
		if r.code == 0 || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%v: exit code %d, want %q:\n%s", c.flags, r.code, c.want, r.stderr)
		}
	}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Events that only BPF programs can be called at.

// needEmitted skips where BPF programs cannot make samples.
func needEmitted(t *testing.T) {
	t.Helper()
	needTracepoints(t)
	if r := recordIn(t, t.TempDir(), "-e", "raw_tracepoint:sched_process_exec", "true"); r.code != 0 {
		t.Skipf("raw tracepoints are missing here, or CAP_BPF, or the kernel's BTF:\n%s", r.stderr)
	}
}

// perfScript is what stock perf prints of a recording; it skips without perf.
func perfScript(t *testing.T, path string) string {
	t.Helper()
	if _, err := exec.LookPath("perf"); err != nil {
		t.Skip("perf is missing (linux-perf)")
	}
	var errs strings.Builder
	cmd := exec.Command("perf", "script", "--force", "-i", path)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("perf script: %v\n%s", err, errs.String())
	}
	return string(out)
}

// children runs a command several times, each in a process of its own.
const children = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done"

// A raw tracepoint comes as often as the event that the kernel makes of it,
// whoever is recorded and with whatever stacks, and not before the command's exec.
func TestScenarioRawTracepoint(t *testing.T) {
	needEmitted(t)
	for name, args := range map[string][]string{
		"no stacks": nil, "-g": {"-g"}, "fp": {"--call-graph", "fp"}, "dumps": {"--call-graph", "dwarf,copy"}, "no inherit": {"-i", "-g"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			args := append(args, "-e", "sched:sched_process_exec,sched:sched_process_fork,raw_tracepoint:sched_process_exec,raw_tracepoint:sched_process_fork",
				"--", "sh", "-c", children)
			mustRecord(t, dir, args...)
			c := read(t, filepath.Join(dir, "perf.data"))
			of := map[string]int{}
			for key, n := range c.samples {
				_, event, _ := strings.Cut(key, " ")
				of[event] += n
			}
			for _, e := range []string{"sched_process_exec", "sched_process_fork"} {
				if raw, whole := of["raw_tracepoint:"+e], of["sched:"+e]; raw != whole || raw == 0 {
					t.Errorf("%s: %d samples of the raw tracepoint, %d of the kernel's event", e, raw, whole)
				}
			}
			if c.lost > 0 || c.skipped > 0 {
				t.Errorf("%d lost, %d not readable", c.lost, c.skipped)
			}
		})
	}
}

// Its samples have the arguments by the kernel's names, a kernel stack that begins
// where the tracepoint is, and the whole user stack; stock perf prints them.
func TestScenarioRawTracepointStack(t *testing.T) {
	needEmitted(t)
	dir := t.TempDir()
	mustRecord(t, dir, "-g", "-e", "raw_tracepoint:sched_process_fork", "--", "sh", "-c", children)
	text := perfScript(t, filepath.Join(dir, "perf.data"))
	block, _, _ := strings.Cut(text, "\n\n")
	first, frames, _ := strings.Cut(block, "\n")
	if !regexp.MustCompile(` raw_tracepoint:sched_process_fork: \S+=0x[0-9a-f]+ \S+=0x[0-9a-f]+`).MatchString(first) {
		t.Errorf("perf prints %q", first)
	}
	// What calls the programs, where several are at the tracepoint, is the kernel's as well.
	top, _, _ := strings.Cut(regexp.MustCompile(`(?m)^.* __traceiter_.*\n`).ReplaceAllString(frames, ""), "\n")
	if !regexp.MustCompile(`\b(kernel_clone|_do_fork|copy_process)\b`).MatchString(top) || strings.Contains(frames, "bpf_") {
		t.Errorf("the kernel stack does not begin at the fork:\n%s", frames)
	}
	if !strings.Contains(frames, "libc") {
		t.Errorf("there is no user stack:\n%s", frames)
	}
}

// Others on the machine, recorded by others or not, are not in a command's recording;
// with -a they are.
func TestScenarioRawTracepointTarget(t *testing.T) {
	needEmitted(t)
	dir := t.TempDir()
	// Another recorder's events on a process are no reason to sample it.
	other := exec.Command(binary(t, "./cmd/gperf"), "record", "-o", filepath.Join(dir, "other.data"), "-e", "dummy:u", "--",
		"sh", "-c", "while :; do /bin/true; done")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { other.Process.Signal(os.Interrupt); other.Wait() }()
	samples := func(args ...string) (own, all int) {
		mustRecord(t, dir, append(args, "-e", "raw_tracepoint:sched_process_fork", "--", "sh", "-c", children+"; sleep 0.3")...)
		c := read(t, filepath.Join(dir, "perf.data"))
		return c.samples["sh raw_tracepoint:sched_process_fork"], c.total
	}
	if _, all := samples(); all != 11 {
		t.Errorf("%d forks of a command that forks 11 times", all)
	}
	if _, all := samples("-a"); all <= 11 {
		t.Errorf("%d forks on the whole machine, one of whose commands forks 11 times, another all the time", all)
	}
}

func TestScenarioRawTracepointUnknown(t *testing.T) {
	needEmitted(t)
	r := recordIn(t, t.TempDir(), "-e", "raw_tracepoint:sched_swich", "true")
	if r.code != exitUsage || !strings.Contains(r.stderr, "raw_tracepoint:sched_switch") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}

// needKprobes skips where the kernel takes no kprobes.
func needKprobes(t *testing.T) {
	t.Helper()
	needTracepoints(t)
	if _, err := os.Stat("/sys/kernel/tracing/kprobe_events"); err != nil {
		t.Skip("kprobes are missing (CONFIG_KPROBE_EVENTS)")
	}
}

// Many functions at once: each comes as often as a kprobe of its own counts it,
// which reads an argument, and so is one; and prints the same. Where the kernel
// cannot set them at once, that is said, and the samples are the same.
func TestScenarioKprobesByGlob(t *testing.T) {
	needKprobes(t)
	for _, kind := range []string{"kprobe", "kretprobe"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			own := map[string]string{"kprobe": "kprobe:vfs_open x=" + first, "kretprobe": "kretprobe:vfs_open x=" + returned}[kind]
			r := mustRecord(t, dir, "-g", "-e", own, "-e", kind+":vfs_*", "--", "sh", "-c", children)
			path := filepath.Join(dir, "perf.data")
			c := read(t, path)
			of := map[string]int{}
			for key, n := range c.samples {
				_, event, _ := strings.Cut(key, " ")
				of[event] += n
			}
			name := map[string]string{"kprobe": "probe:vfs_open", "kretprobe": "probe:vfs_open__return"}[kind]
			if one, many := of[name], of[name+"_1"]; one != many || one == 0 {
				t.Errorf("%d samples of a probe of its own, %d of one of many\n%s", one, many, r.stderr)
			}
			if len(of) < 5 {
				t.Errorf("samples of few functions only: %v", of)
			}
			if strings.Contains(r.stderr, "one by one") {
				t.Log(r.stderr)
			}
			text := perfScript(t, path)
			if want := regexp.MustCompile(regexp.QuoteMeta(name) + `_1: \([0-9a-f]{16}( <- [0-9a-f]{16})?\)\n`); !want.MatchString(text) {
				t.Errorf("perf does not print %s:\n%.2000s", want, text)
			}
		})
	}
}

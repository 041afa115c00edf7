package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Events that only BPF programs can be called at.

// needEmitted skips where BPF programs cannot make samples.
func needEmitted(t *testing.T) {
	t.Helper()
	needTracepoints(t)
	needRecording(t, "raw tracepoints are missing here, or CAP_BPF, or the kernel's BTF",
		"-e", "raw_tracepoint:sched_process_exec")
}

// perfScript is stock perf's output for a recording; it skips without perf.
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

// children runs a command several times, each in a new process.
const children = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done"

// A raw tracepoint yields as many samples as the event for the same tracepoint, for all targets
// and kinds of stacks, and none before the command's exec.
func TestScenarioRawTracepoint(t *testing.T) {
	needEmitted(t)
	for name, args := range map[string][]string{
		"no stacks": nil, "-g": {"-g"}, "fp": {"--call-graph", "fp"}, "dumps": {"--call-graph", "dwarf,copy"}, "no inherit": {"-i", "-g"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			args := append(args, "-e",
				"sched:sched_process_exec,sched:sched_process_fork,"+
					"raw_tracepoint:sched_process_exec,raw_tracepoint:sched_process_fork",
				"--", "sh", "-c", children)
			mustRecord(t, dir, args...)
			c := read(t, filepath.Join(dir, "perf.data"))
			of := map[string]int{}
			for key, n := range c.samples {
				of[key.event] += n
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

// Its samples contain the arguments by the kernel's names, a kernel stack that begins
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
	// The function that calls the programs, where several are at the tracepoint, is the kernel's as well.
	top, _, _ := strings.Cut(regexp.MustCompile(`(?m)^.* __traceiter_.*\n`).ReplaceAllString(frames, ""), "\n")
	if !regexp.MustCompile(`\b(kernel_clone|_do_fork|copy_process)\b`).MatchString(top) ||
		strings.Contains(frames, "bpf_") {
		t.Errorf("the kernel stack does not begin at the fork:\n%s", frames)
	}
	if !strings.Contains(frames, "libc") {
		t.Errorf("there is no user stack:\n%s", frames)
	}
}

// Samples without stacks are of the function with the tracepoint, not of the programs that made them; with
// stacks, that is where they begin.
func TestScenarioRawTracepointPlace(t *testing.T) {
	needEmitted(t)
	for _, flags := range [][]string{nil, {"-g"}} {
		path := filepath.Join(t.TempDir(), "perf.data")
		mustRecord(t, "", append(flags, "-o", path, "-e",
			"raw_tracepoint:sched_process_fork,sched:sched_process_fork child->pid", "--", "sh", "-c", children)...)
		out := mustGperf(t, "report", "--stdio", "--no-children", "-g", "none", "-i", path, "--sort", "sym")
		places := regexp.MustCompile(`(?m)^ +[0-9.]+% .*$`).FindAllString(out, -1)
		if len(places) != 2 {
			t.Errorf("%q: samples of two events are of\n%s", flags, out)
		}
		for _, p := range places {
			if !regexp.MustCompile(`100\.00% +\[k\] (kernel_clone|_do_fork|copy_process)`).MatchString(p) {
				t.Errorf("%q: %s", flags, p)
			}
		}
	}
}

// Others on the machine, recorded by others or not, are not in a command's recording;
// with -a they are.
func TestScenarioRawTracepointTarget(t *testing.T) {
	needEmitted(t)
	dir := t.TempDir()
	// Another recorder's events on a process are no reason to sample it.
	other := exec.Command(binary(t, "./cmd/gperf"), "record", "-o", filepath.Join(dir, "other.data"),
		"-e", "dummy:u", "--",
		"sh", "-c", "while :; do /bin/true; done")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { other.Process.Signal(os.Interrupt); other.Wait() }()
	samples := func(args ...string) (own, all int) {
		mustRecord(t, dir, append(args, "-e", "raw_tracepoint:sched_process_fork", "--", "sh", "-c",
			children+"; sleep 0.3")...)
		c := read(t, filepath.Join(dir, "perf.data"))
		return c.samples[commEvent{"sh", "raw_tracepoint:sched_process_fork"}], c.total
	}
	if _, all := samples(); all != 11 {
		t.Errorf("%d forks of a command that forks 11 times", all)
	}
	if _, all := samples("-a"); all <= 11 {
		t.Errorf("%d forks on the whole machine, one of whose commands forks 11 times, another all the time", all)
	}
}

// traced are the texts of the samples of an event, without the name.
func traced(text, event string) (l []string) {
	for line := range strings.Lines(text) {
		if name, fields, ok := strings.Cut(line, ": "); ok && strings.TrimSpace(name) == event {
			l = append(l, strings.TrimSpace(fields))
		}
	}
	return l
}

// samePrinted checks that stock perf prints a recording's tracepoints as gperf does, and returns that.
func samePrinted(t *testing.T, path string) string {
	t.Helper()
	text := mustGperf(t, "script", "-i", path, "-F", "event,trace")
	if _, err := exec.LookPath("perf"); err != nil {
		t.Log("perf is missing (linux-perf)")
		return text
	}
	out, err := exec.Command("perf", "script", "--force", "-i", path, "-F", "event,trace").Output()
	if err != nil {
		t.Fatalf("perf script: %v", err)
	}
	spaces := regexp.MustCompile(`(?m)^ +| +$`)
	sameText(t, "perf script", spaces.ReplaceAllString(text, ""), spaces.ReplaceAllString(string(out), ""))
	return text
}

// Arguments are read where the tracepoint's prototype leads to: they equal the values that the kernel's own event has
// in its fields. A tracepoint with arguments keeps the tracepoint's fields, also fields without a fixed place.
func TestScenarioTracepointArguments(t *testing.T) {
	needEmitted(t)
	const exec = "sched:sched_process_exec"
	const args = " file=bprm->filename:string parent=p->real_parent->comm:string thread=p->pid:s32 three=\\3:u8 " +
		"arr=p->comm:x8[2]"
	path := filepath.Join(t.TempDir(), "perf.data")
	mustRecord(t, "", "-o", path, "-e", exec, "-e", exec+args+",raw_"+
		strings.Replace(exec+args, "sched:", "tracepoint:", 1), "--", "sh", "-c", children)
	text := samePrinted(t, path)
	var plain, with []string
	own := regexp.MustCompile(`^filename=(\S+) pid=(\d+) .*`)
	for _, l := range traced(text, exec) {
		if strings.Contains(l, " file=") {
			with = append(with, l)
			continue
		}
		m := own.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("the kernel's own event is %q", l)
		}
		plain = append(plain, fmt.Sprintf(`%s file="%s" parent="%s" thread=%s three=3 arr={`, l, m[1], "sh", m[2]))
	}
	raw := traced(text, "raw_tracepoint:sched_process_exec")
	if len(plain) != 11 || len(with) != 11 || len(raw) != 11 {
		t.Fatalf("%d, %d and %d samples of 11 programs\n%s", len(plain), len(with), len(raw), text)
	}
	for i := range plain[1:] { // the shell's own parent is the recorder
		if !strings.HasPrefix(with[1+i], plain[1+i]) || !strings.HasSuffix(with[1+i], "arr={0x74,0x72}") { // "true"
			t.Errorf("with arguments %q, want %q", with[1+i], plain[1+i])
		}
		_, values, _ := strings.Cut(plain[1+i], " file=")
		if !strings.Contains(raw[1+i], " file="+values) {
			t.Errorf("raw %q, want file=%s", raw[1+i], values)
		}
	}
}

// Where tracepoints interrupt each other, each sample contains the right arguments next to the right fields, and there
// are as many as of the raw tracepoint. (The kernel's own event can be missing from idle CPUs.)
func TestScenarioTracepointArgumentsNest(t *testing.T) {
	needEmitted(t)
	path := filepath.Join(t.TempDir(), "perf.data")
	r := mustRecord(t, "", "-m", "1024", "-a", "-o", path, "-e",
		"raw_tracepoint:softirq_entry,irq:softirq_entry v=$arg1:u32", "-e",
		"raw_tracepoint:sched_switch,sched:sched_switch p=prev->pid:s32 n=next->pid:s32", "--", "sh", "-c",
		children+"; sleep 0.5")
	text := mustGperf(t, "script", "-i", path, "-F", "event,trace")
	for _, row := range []struct {
		event string
		same  *regexp.Regexp
	}{
		{"irq:softirq_entry", regexp.MustCompile(`^vec=(\d+) .* v=(\d+)$`)},
		{"sched:sched_switch", regexp.MustCompile(`prev_pid=(\d+) .*next_pid=(\d+) .* p=(\d+) n=(\d+)$`)},
	} {
		t.Run(row.event, func(t *testing.T) {
			_, name, _ := strings.Cut(row.event, ":")
			raw, with := len(traced(text, "raw_tracepoint:"+name)), traced(text, row.event)
			for _, l := range with {
				m := row.same.FindStringSubmatch(l)
				if m == nil || !slices.Equal(m[1:1+len(m)/2], m[1+len(m)/2:]) {
					t.Errorf("%s: %s", row.event, l)
				}
			}
			// Where the events are switched on or off between the two programs of a CPU, one may be missing.
			if diff := len(with) - raw; raw < 20 || max(diff, -diff) > 2*runtime.NumCPU() {
				t.Errorf("%s: %d samples with arguments, %d without\n%s", row.event, len(with), raw, r.stderr)
			}
		})
	}
}

// BPF programs leave out the same events as the kernel's filters.
func TestScenarioTracepointArgumentsFilter(t *testing.T) {
	needEmitted(t)
	const event = "sched:sched_process_exec thread=p->pid:s32 file=bprm->filename:string " +
		"parent=p->real_parent->comm:string"
	dir := t.TempDir()
	for _, c := range []struct {
		event, filter string
		want          int
	}{
		{event, `file == "/bin/true"`, 10},
		{event, `filename == "/bin/true" && parent == sh`, 10},
		{event, `filename != "/bin/true"`, 1},
		{event, `file == "/bin/tru" || file == "/bin/truee" || file == "` + strings.Repeat("x", 300) + `"`, 0},
		{event, `!(file == "/bin/true" || pid == 0)`, 1},
		{event, `pid > 1 && pid <= 0x7fffffff && !(pid < -1) && thread & 0x7fffffff && common_pid >= 1`, 11},
		{event, `pid < 1 || pid >= 0x7fffffff || thread == -1 || !(common_pid > 1)`, 0},
		{event, `thread > 0 && file == "/bin/true"`, 10},
		{event, `COMM == true`, 10},
		{event, `comm != "true" && CPU >= 0`, 1},
		{"raw_tracepoint:sched_process_exec thread=p->pid:s32", "thread > 1 && COMM == true", 10},
	} {
		t.Run(c.event, func(t *testing.T) {
			path := filepath.Join(dir, "perf.data")
			mustRecord(t, "", "-o", path, "-g", "-e", c.event, "--filter", c.filter, "--", "sh", "-c", children)
			if got := read(t, path).total; got != c.want {
				t.Errorf("%s: %d samples, want %d", c.filter, got, c.want)
			}
		})
	}
}

func TestScenarioTracepointArgumentsRefused(t *testing.T) {
	needEmitted(t)
	const fork = "sched:sched_process_fork"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-e", fork + " child->pidd"}, "struct task_struct has no member pidd: did you mean pid"},
		{[]string{"-e", fork + " chil"}, "did you mean child?"},
		{[]string{"-e", fork + " %di"}, "a tracepoint has no %di; sched_process_fork has "},
		{[]string{"-e", fork + " $arg3"}, "sched_process_fork has "},
		{[]string{"-e", fork + " child_pid=child->pid"}, "another argument has the name child_pid"},
		{[]string{"-e", fork + ":k child->pid"}, "a tracepoint with arguments supports no modifiers"},
		{[]string{"-a", "-e", "cpu-clock", "-e", fork + " child->pid", "-G", "/,/"}, "of one cgroup for all events"},
		{[]string{"-e", "{" + fork + " child->pid,cpu-clock}"}, "terms or groups"},
		{[]string{"-e", fork + " child->comm:string", "--filter", `comm ~ "x*"`}, "compares text by == and != only"},
		{[]string{"-e", fork + " c=child->pid:s32", "--filter", "d == 1"}, "there is no field d"},
		{[]string{"-e", "syscalls:sys_enter_openat filename:string"}, "has no prototype of it"},
		{[]string{"-e", "raw_tracepoint:sched_process_fork child->x"}, "has no member x"},
		{[]string{"-e", "sched:sched_process_frok child->pid"}, "unknown event"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			r := recordIn(t, t.TempDir(), append(c.args, "true")...)
			if r.code != exitUsage || !strings.Contains(r.stderr, c.want) {
				t.Errorf("%s: exit code %d, want %q\n%s", strings.Join(c.args, " "), r.code, c.want, r.stderr)
			}
		})
	}
}

// A drop's reason is named, and the place equals the place in the kernel's own event; the same name filters.
func TestScenarioRawTracepointNames(t *testing.T) {
	needEmitted(t)
	path := filepath.Join(t.TempDir(), "perf.data")
	drops := []string{"--", binary(t, dropsProgram), "-n", "20"}
	r := recordIn(t, t.TempDir(), append([]string{"-e", "raw_tracepoint:kfree_skb", "--filter", "reason == NO_SOCKET",
		"-e", "skb:kfree_skb", "-o", path}, drops...)...)
	if strings.Contains(r.stderr, "there is no field reason") {
		t.Skip("this kernel's drops have no reason (Linux 5.17)")
	}
	text := mustGperf(t, "script", "-i", path, "-F", "event,trace")
	var own []string
	place := regexp.MustCompile(`location=(\S+)`)
	for _, l := range traced(text, "skb:kfree_skb") {
		if strings.Contains(l, "reason: NO_SOCKET") {
			own = append(own, place.FindStringSubmatch(l)[1])
		}
	}
	raw := traced(text, "raw_tracepoint:kfree_skb")
	if len(raw) == 0 || len(raw) != len(own) {
		t.Fatalf("%d samples of the raw tracepoint, %d of the kernel's event\n%s\n%.3000s", len(raw),
			len(own), r.stderr, text)
	}
	for i, l := range raw {
		if !strings.Contains(l, " reason: NO_SOCKET") {
			t.Errorf("%q: no reason by name", l)
		}
		// Before Linux 6.4, the kernel's own event has the address itself.
		if m := place.FindStringSubmatch(l); m == nil || !strings.Contains(m[1], "+0x") ||
			strings.Contains(own[i], "+0x") && m[1] != own[i] {
			t.Errorf("%q: location %s of the kernel's event", l, own[i])
		}
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

// Many functions at once: each comes as often as a kprobe at it counts,
// which reads an argument, and so is one; and prints the same. Where the kernel
// cannot set them at once, that is said, and the samples are the same.
func TestScenarioKprobesByGlob(t *testing.T) {
	needKprobes(t)
	for _, kind := range []string{"kprobe", "kretprobe"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			own := map[string]string{"kprobe": "kprobe:vfs_open x=" + first,
				"kretprobe": "kretprobe:vfs_open x=" + returned}[kind]
			r := mustRecord(t, dir, "-g", "-e", own, "-e", kind+":vfs_*", "--", "sh", "-c", children)
			path := filepath.Join(dir, "perf.data")
			c := read(t, path)
			of := map[string]int{}
			for key, n := range c.samples {
				of[key.event] += n
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
			if want := regexp.MustCompile(regexp.QuoteMeta(name) +
				`_1: \([0-9a-f]{16}( <- [0-9a-f]{16})?\)\n`); !want.MatchString(text) {
				t.Errorf("perf does not print %s:\n%.2000s", want, text)
			}
		})
	}
}

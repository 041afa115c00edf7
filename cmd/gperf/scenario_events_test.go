package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gperf/format"
)

// eachSample hands all samples of a recording to do.
func eachSample(t *testing.T, path string, do func(f *format.File, s *format.Sample)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	recs := f.Records()
	for {
		raw, err := recs.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var s format.Sample
		if raw.Type != format.TypeSample {
			continue
		}
		if err := f.Sample(raw, &s); err != nil {
			t.Fatal(err)
		}
		do(f, &s)
	}
}

// busy is a command that takes a while.
var busy = []string{"sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 0"}

// frames returns the number of frames of a sample's callchain.
func frames(s *format.Sample) (n int) {
	for i := range s.Callchain.Len() {
		if s.Callchain.At(i) < format.ContextMax {
			n++
		}
	}
	return n
}

// Each event gets the stacks of the event's terms.
func TestScenarioStacksByEvent(t *testing.T) {
	needTracepoints(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	mustRecord(t, "", append([]string{"-o", file, "-g", "-e",
		"cpu-clock/name=slow,freq=200/,cs/call-graph=no,period=1/",
		"-e", "sched:sched_switch/call-graph=fp,max-stack=2/,{task-clock/freq=100,max-stack=3/,faults}:S", "--"}, busy...)...)
	most, n := map[string]int{}, map[string]int{}
	eachSample(t, file, func(f *format.File, s *format.Sample) {
		name := f.EventName(s.Event)
		n[name]++
		most[name] = max(most[name], frames(s))
		if name == "task-clock/freq=100,max-stack=3/" && s.Read.At(0) != 2 {
			t.Errorf("a sample of a group of two reads %d counts", s.Read.At(0))
		}
	})
	const group = "task-clock/freq=100,max-stack=3/"
	if most["slow"] < 4 || most["cs/call-graph=no,period=1/"] != 0 || most["sched:sched_switch"] != 2 ||
		most[group] != 3 || n["faults"] != 0 {
		t.Errorf("frames by event: %v, samples: %v", most, n)
	}
	if c := read(t, file); len(c.Groups()) != 1 ||
		c.Groups()[0] != (format.Group{Name: "{anon_group}", Leader: 3, Members: 2}) {
		t.Errorf("groups: %+v", c.Groups())
	}
	o := needOracle(t)
	ours, err := os.CreateTemp(t.TempDir(), "script")
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := o.run(t, "script", "--no-inline", "-i", file)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run([]string{"script", "--no-inline", "--compat", o.compat, "-i", file}, &out, &errs); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, errs.String())
	}
	text, want := o.alike(out.String(), theirs)
	sameText(t, "script", modules.ReplaceAllString(text, "([kernel.kallsyms])"),
		modules.ReplaceAllString(want, "([kernel.kallsyms])"))
}

// modules matches the names of kernel modules after a frame. On the recorded machine, perf reads
// /proc/kcore and prints the kernel's name for them.
var modules = regexp.MustCompile(`\((/lib/modules/\S+|\[\w+\])\)`)

// gperf does not record filtered events; the others keep their stacks.
func TestScenarioFilter(t *testing.T) {
	needTracepoints(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	mustRecord(t, "", "-o", file, "-g", "-e", "sched:sched_process_exec", "--filter", `filename ~ "*/true"`,
		"--filter", "pid != 1",
		"-e", "sched:sched_process_fork", "--exclude-perf", "--", "sh", "-c", children+"; exec /bin/echo")
	c := read(t, file)
	if n := countOf(c, "sched:sched_process_exec"); n != 10 {
		t.Errorf("true was executed 10 times: %d samples", n)
	}
	if n := countOf(c, "sched:sched_process_fork"); n < 10 {
		t.Errorf("10 processes were made: %d samples", n)
	}
}

// Names of values that the event's print format knows filter as their numbers do.
func TestScenarioFilterByName(t *testing.T) {
	needTracepoints(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	mustRecord(t, "", "-o", file, "-a", "-e", "irq:softirq_entry", "--filter",
		"vec == TIMER || vec == RCU", "--", "sleep", "1")
	text := mustGperf(t, "script", "-i", file)
	of := map[string]int{}
	for _, m := range regexp.MustCompile(`\[action=(\w+)\]`).FindAllStringSubmatch(text, -1) {
		of[m[1]]++
	}
	if of["TIMER"] == 0 || len(of) > 2 || len(of) == 2 && of["RCU"] == 0 {
		t.Errorf("samples of softirqs: %v, want TIMER and RCU only", of)
	}
}

func TestScenarioFilterRefused(t *testing.T) {
	needTracepoints(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-e", "sched:sched_switch", "--filter", "prev_com == 1"}, "did you mean prev_comm?"},
		{[]string{"-e", "sched:sched_switch", "--filter", "prev_pid == x"}, "prev_pid is a number"},
		{[]string{"-e", "irq:softirq_entry", "--filter", "vec == TIMR"}, "vec has no value TIMR: did you mean TIMER"},
		{[]string{"-e", "cpu-clock", "--filter", "x == 1"}, "should follow a -e tracepoint"},
		{[]string{"-e", "cpu-clock", "--exclude-perf"}, "should follow a -e tracepoint"},
		{[]string{"--filter", "x == 1", "-e", "sched:sched_switch"}, "should follow a -e tracepoint"},
		{[]string{"-e", "cpu-clock", "-G", "a"}, "system-wide mode"},
		{[]string{"-a", "-e", "cpu-clock", "-G", "a,b"}, "must define events before cgroups"},
		{[]string{"-a", "-e", "cpu-clock", "-G", "no/such/group"}, `no/such/group: no such file or directory`},
		{[]string{"-u", "nosuchuser"}, "no such user"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			r := recordIn(t, t.TempDir(), append(c.args, "true")...)
			if r.code == exitOK || !strings.Contains(r.stderr, c.want) {
				t.Errorf("%s: exit code %d\n%s", strings.Join(c.args, " "), r.code, r.stderr)
			}
		})
	}
}

// cgroupMount is where the control groups are that perf events know.
func cgroupMount(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Skip(err)
	}
	dir := ""
	for line := range strings.Lines(string(mounts)) {
		l := strings.Fields(line)
		if l[2] == "cgroup" && strings.Contains(l[3], "perf_event") {
			return l[1]
		}
		if l[2] == "cgroup2" {
			dir = l[1]
		}
	}
	if dir == "" {
		t.Skip("neither cgroup2 nor the hierarchy perf_event of cgroup is mounted")
	}
	return dir
}

// An event with a cgroup records only the processes in it.
func TestScenarioCgroup(t *testing.T) {
	needTracepoints(t)
	name := fmt.Sprintf("gperf-test-%d", os.Getpid())
	dir := filepath.Join(cgroupMount(t), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	defer os.Remove(dir)
	file := filepath.Join(t.TempDir(), "perf.data")
	args := []string{"-o", file, "-a", "-g", "-e", "cpu-clock,task-clock", "-e", "sched:sched_switch", "-G",
		name + ",," + name, "--all-cgroups", "--",
		"sh", "-c", "echo $$ > " + dir + "/cgroup.procs; " + busy[2]}
	if r := recordIn(t, "", args...); r.code != exitOK && strings.Contains(r.stderr, "no perf events for this cgroup") {
		t.Skipf("perf events do not know the cgroups at %s:\n%s", dir, r.stderr)
	} else if r.code != exitOK {
		t.Fatal(r.stderr)
	}
	c := read(t, file)
	inside, exiting := 0, 0
	eachSample(t, file, func(f *format.File, s *format.Sample) {
		if f.EventName(s.Event) == "cpu-clock" && s.PID == -1 {
			exiting++ // a process that gave back its number already
		}
	})
	for who, n := range c.samples {
		switch {
		case who.event == "task-clock":
		case who.comm == "sh":
			inside += n
		case who.comm == "" && who.event == "cpu-clock" && n <= exiting:
		// the idle task is unnamed: it is switched to from the cgroup
		case who.comm == "" && who.event == "sched:sched_switch":
		default:
			t.Errorf("%d samples of %v, which is not in the cgroup", n, who)
		}
	}
	if inside < 10 {
		t.Errorf("%d samples in the cgroup", inside)
	}
	var out, errs bytes.Buffer
	if code := run([]string{"script", "-i", file, "-F", "comm,event,cgroup"}, &out, &errs); code != exitOK ||
		!strings.Contains(out.String(), "/"+name) {
		t.Errorf("exit code %d: no sample of /%s\n%s", code, name, errs.String())
	}
}

// A cgroup limits all kinds of events: of the kernel, and the waits, spans and counts of BPF programs. Nothing of
// others is recorded, and nothing of the cgroup is lost, also of cgroups below it that are new.
func TestScenarioCgroupOfAll(t *testing.T) {
	needRecording(t, "CAP_BPF and CAP_PERFMON are missing, or the kernel's BTF is", "--off-cpu")
	needTracepoints(t)
	name := fmt.Sprintf("gperf-all-%d.service", os.Getpid())
	root := filepath.Join(cgroupMount(t), name)
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	defer os.Remove(root)
	dir := t.TempDir()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	outsider := filepath.Join(dir, "outsider")
	copyFile(t, sh, outsider)
	const calls = 500 // kill is a built-in command, and a system call each time
	work := fmt.Sprintf("i=0; while [ $i -lt %d ]; do kill -0 $$; i=$((i+1)); done; sleep 0.1", calls)
	outside := exec.Command(outsider, "-c", "while :; do "+work+"; done")
	outside.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := outside.Start(); err != nil {
		t.Fatal(err)
	}
	defer outside.Wait()
	defer outside.Process.Kill()
	below := filepath.Join(root, "below")
	defer os.Remove(below)
	inside := []string{"--", "sh", "-c", "mkdir " + below + "; echo $$ > " + below + "/cgroup.procs; exec sh -c '" +
		work + "; exec sleep 0.1'"}
	counted := func(text, event string) (n int) {
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if f[0] != "sh" && f[0] != "sleep" {
				t.Errorf("%s is not in the cgroup: %s", f[0], line)
			}
			if strings.Contains(line, event) {
				n++
			}
		}
		return n
	}
	events := []string{"-e", "cpu-clock", "-e", "span:syscalls,syscalls:sys_enter_kill", "--off-cpu", "-g"}
	for _, target := range [][]string{{"-a", "-G", name}, {"--unit", name}} {
		file := filepath.Join(dir, "perf.data")
		mustRecord(t, "", slices.Concat([]string{"-o", file}, events, target, inside)...)
		os.Remove(below)
		text, _ := gperf(t, "script", "-i", file, "-F", "comm,event,trace", "-G", "--filter", "pid != 0")
		if n := counted(text, "sys_enter_kill"); n != calls {
			t.Errorf("%v: %d calls of kill, want %d", target, n, calls)
		}
		spans, _ := gperf(t, "script", "-i", file, "-F", "comm,event,trace", "-G", "--filter", "syscall == kill")
		if n := counted(spans, "span:syscalls"); n != calls {
			t.Errorf("%v: %d spans of kill, want %d", target, n, calls)
		}
		if n := counted(text, "offcpu-time"); n == 0 {
			t.Errorf("%v: no waits", target)
		}
		if n := counted(text, "cpu-clock"); n == 0 {
			t.Errorf("%v: no samples of cpu-clock", target)
		}
	}
	file := filepath.Join(dir, "counts.data")
	mustRecord(t, "", slices.Concat([]string{"-o", file, "-a", "--count", "-e", "syscalls:sys_enter_kill", "-G", name},
		inside)...)
	os.Remove(below)
	report, _ := gperf(t, "report", "-i", file, "--sort", "comm", "--format", "csv", "-n")
	if strings.Contains(report, "outsider") || !strings.Contains(report, strconv.Itoa(calls)) {
		t.Errorf("counts:\n%s", report)
	}
}

// -p takes names of processes, and says how many have them.
func TestScenarioProcessName(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	named := filepath.Join(dir, "gperf-named")
	copyFile(t, sh, named)
	cmd := exec.Command(named, "-c", "while :; do :; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	file := filepath.Join(dir, "perf.data")
	r := mustRecord(t, "", "-o", file, "-p", "gperf-named", "-e", "cpu-clock", "--", "sleep", "0.3")
	c := read(t, file)
	if c.total < 10 || c.samples[commEvent{"gperf-named", "cpu-clock"}] != c.total ||
		!strings.Contains(r.stderr, "recording the running processes of this name and their children, 1 now") {
		t.Errorf("samples: %v\n%s", c.samples, r.stderr)
	}
}

func TestScenarioUser(t *testing.T) {
	needTracepoints(t)
	const uid = 54321
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, NoSetGroups: true},
		Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Skipf("no process of another user: %v", err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	file := filepath.Join(t.TempDir(), "perf.data")
	r := mustRecord(t, "", "-o", file, "-u", fmt.Sprint(uid), "-e", "cpu-clock", "--", "sleep", "0.5")
	c := read(t, file)
	if c.total < 10 || c.samples[commEvent{"sh", "cpu-clock"}] != c.total ||
		!strings.Contains(r.stderr, "running processes") {
		t.Errorf("samples: %v\n%s", c.samples, r.stderr)
	}
	// The command is one of its user's processes.
	mustRecord(t, "", "-o", file, "-u", fmt.Sprint(os.Geteuid()), "-e", "skb:kfree_skb", "--", binary(t, dropsProgram),
		"-unix", "-n", "200")
	if c := read(t, file); c.samples[commEvent{"drops", "skb:kfree_skb"}] == 0 {
		t.Errorf("samples of the own user: %v", c.samples)
	}
}

// needBreakpoint skips where perf counts nothing at the breakpoint: CPUs of some virtual machines ignore them.
func needBreakpoint(t *testing.T, event string, command ...string) {
	t.Helper()
	needPrograms(t, "perf")
	cmd := exec.Command("perf", slices.Concat([]string{"stat", "-x", ",", "-e", event, "--"}, command)...)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "\n0,,") || !strings.Contains(string(out), event) {
		t.Skipf("this machine has no breakpoints: perf stat: %v\n%s", err, out)
	}
}

// A breakpoint stops at the instruction that it is set on.
func TestScenarioBreakpoint(t *testing.T) {
	needEvents(t)
	program := binary(t, dropsProgram)
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var addr uint64
	for _, s := range symbols {
		if s.Name == "main.main" {
			addr = s.Value
		}
	}
	if f.Type != elf.ET_EXEC || addr == 0 {
		t.Skipf("%s is not linked to fixed addresses", program)
	}
	file := filepath.Join(t.TempDir(), "perf.data")
	event := fmt.Sprintf("mem:%#x:x:u", addr)
	needBreakpoint(t, event, program, "-n", "0")
	mustRecord(t, "", "-o", file, "-e", event, "--", program, "-n", "0")
	n := 0
	eachSample(t, file, func(f *format.File, s *format.Sample) {
		n++
		if s.IP != addr || f.EventName(s.Event) != event {
			t.Errorf("a sample of %s at %#x, not %#x", f.EventName(s.Event), s.IP, addr)
		}
	})
	if n != 1 && n != 2 { // it starts again if Go must grow its stack
		t.Errorf("main.main ran once: %d samples", n)
	}
}

// Capabilities, by their numbers in include/uapi/linux/capability.h.
const (
	capDACOverride = 1
	capPerfmon     = 38
	capBPF         = 39
)

// CAP_PERFMON and CAP_BPF are enough for stacks of everybody, with access to tracefs for
// tracepoints and probes, too.
func TestScenarioFewCapabilities(t *testing.T) {
	needTracepoints(t)
	dir, program := nobodys(t, binary(t, "./cmd/gperf"))
	withBPF, without := "User stacks:",
		"functions of Python and other runtimes have no names. It requires root, or CAP_BPF and CAP_PERFMON."
	// Before Linux 5.11, BPF's memory counts as locked by the user.
	unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	for _, c := range []struct {
		caps []uintptr
		args []string
		code int
		want string // on stderr
	}{
		{[]uintptr{capPerfmon, capBPF}, []string{"-a", "-g", "-e", "cpu-clock", "--", "sleep", "0.2"}, exitOK, withBPF},
		{[]uintptr{capPerfmon}, []string{"-a", "-g", "-e", "cpu-clock", "--", "sleep", "0.2"}, exitOK, without},
		{[]uintptr{capPerfmon, capBPF, capDACOverride}, []string{"-a", "-g", "-e", "sched:sched_switch", "--", "sleep", "0.2"}, exitOK, withBPF},
		{[]uintptr{capPerfmon, capBPF, capDACOverride}, []string{"-g", "-e", "uprobe:" + program + ":main.main", "--", program, "version"}, exitOK, " samples)"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			var errs strings.Builder
			cmd := exec.Command(program, append([]string{"record", "-o", filepath.Join(dir, "perf.data")},
				c.args...)...)
			cmd.Dir, cmd.Stderr, cmd.Env = dir, &errs, append(os.Environ(), "HOME="+dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534,
				NoSetGroups: true}, AmbientCaps: c.caps}
			if err := cmd.Run(); errors.Is(err, syscall.EPERM) {
				t.Skipf("this test may not have the capabilities that it would give: %v", err)
			}
			if strings.Contains(errs.String(), "not CAP_PERFMON") {
				t.Skipf("CAP_PERFMON is not enough for this kernel where kernel.perf_event_paranoid is above 2:\n%s",
					errs.String())
			}
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(errs.String(), c.want) ||
				!strings.Contains(errs.String(), " samples)") {
				t.Errorf("capabilities %v, %s: exit code %d\n%s", c.caps, strings.Join(c.args, " "), code,
					errs.String())
			}
		})
	}
}

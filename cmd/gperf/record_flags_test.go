package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/record"
)

// openRecording opens a recording, and returns the bytes as well.
func openRecording(t *testing.T, path string) (*format.File, []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return f, data
}

// recordsOf returns the records of a recording without samples.
func recordsOf(t *testing.T, path string) (l []format.Record) {
	t.Helper()
	f, _ := openRecording(t, path)
	for recs := f.Records(); ; {
		raw, err := recs.Next()
		if errors.Is(err, io.EOF) {
			return l
		}
		if err != nil {
			t.Fatal(err)
		}
		if raw.Type == format.TypeSample {
			continue
		}
		rec, err := f.Record(raw)
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, rec)
	}
}

// A process that maps code on a CPU that is not recorded may run on one that is.
func TestRecordSideBandOfOtherCPUs(t *testing.T) {
	needTracepoints(t)
	if _, err := os.Stat("/sys/devices/system/cpu/cpu1/online"); err != nil {
		t.Skip("there is one CPU only")
	}
	for _, stacks := range []string{"no", "fp", "dwarf"} {
		t.Run(stacks, func(t *testing.T) {
			dir := t.TempDir()
			mustRecord(t, dir, "-e", "cpu-clock", "-C", "0", "--call-graph", stacks, "--", "taskset", "-c", "1", "true")
			mapped := 0
			for _, rec := range recordsOf(t, filepath.Join(dir, "perf.data")) {
				if m, ok := rec.(*format.Mmap); ok && m.ID.CPU == 1 && m.ID.Time != 0 &&
					filepath.Base(m.Filename) == "true" {
					mapped++
				}
			}
			if mapped == 0 {
				t.Error("no record of what was mapped on CPU 1")
			}
		})
	}
}

// On the CPUs that are recorded for side band only, BPF programs make no samples.
func TestRecordEmittedOnSomeCPUs(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	r := recordIn(t, dir, "-e", "raw_tracepoint:sched_switch", "-C", "0", "--", "sleep", "0.2")
	if r.code != exitOK {
		t.Skip(r.stderr)
	}
	text, _ := gperf(t, "script", "-F", "cpu,event", "-i", filepath.Join(dir, "perf.data"))
	if on := strings.Count(text, "[000]"); on == 0 || on != strings.Count(text, "\n") {
		t.Errorf("%d samples on CPU 0 of\n%.1000s", on, text)
	}
}

// perfs returns the recorded output of perf 7.3: if $PERF names a perf 7.3, its output now (and -update keeps it).
func perfs(t *testing.T, name string, ask func(o *oracle) string) string {
	t.Helper()
	file := filepath.Join(root, "testdata", "perf", name)
	if o, err := findOracle(); err == nil && o.compat == "7.3" {
		text := ask(o)
		if *update {
			writeFile(t, file, text)
		}
		return text
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var helpFlag = regexp.MustCompile(`(?m)^ {4}(?:-(\w))?(?:, )? *(?:--([a-z-]+))?`)

// Every flag of perf record works, is accepted with a notice, or is refused with the reason.
func TestRecordFlagsOfPerf(t *testing.T) {
	help := perfs(t, "record-help.txt", func(o *oracle) string {
		cmd := exec.Command(o.command[0], append(slices.Clone(o.command[1:]), "record", "-h")...)
		out, _ := cmd.CombinedOutput() // the exit code is that for wrong use
		return string(out)
	})
	s := recordCommand().Flags()
	names := 0
	for _, m := range helpFlag.FindAllStringSubmatch(help, -1) {
		short, long := m[1], m[2]
		if short != "" && s.ShorthandLookup(short) == nil {
			t.Errorf("-%s is unknown", short)
		}
		if long == "" {
			continue
		}
		names++
		if l := s.Lookup(long); l == nil || l.Shorthand != short {
			t.Errorf("--%s is unknown, or is not -%s", long, short)
		}
	}
	if names < 80 {
		t.Errorf("perf's help has %d flags only:\n%s", names, help)
	}
	for _, idle := range cli.RecordIdle {
		name := idle.Name[strings.IndexByte(idle.Name, ',')+1:]
		code, message := exitOK, "--"+name+" has no effect: "+idle.Why
		if idle.Refused {
			code, message = exitUsage, "--"+name+": "+idle.Why
		}
		r := recordIn(t, t.TempDir(), "--dry-run", "--"+name+"=1", "true")
		if r.code != code || !strings.Contains(r.stderr, message) {
			t.Errorf("--%s: exit code %d\n%s", name, r.code, r.stderr)
		}
	}
}

// recordLines are flags of record with which perf opens events in the same way on all machines. SELF is the
// test's process; the event is cpu-clock where none is named.
var recordLines = []string{
	"",
	"-a",
	"-C 0",
	"-e dummy -C 0",
	"-e dummy,cpu-clock -a",
	"-e cpu-clock,cs",
	"--switch-events",
	"--switch-events -a",
	"--switch-events -D 5",
	"--per-thread",
	"--per-thread -T",
	"--per-thread -e cpu-clock,cs",
	"--per-thread --call-graph fp",
	"--per-thread -a",
	"-W",
	"-W -a",
	"--transaction",
	"-I",
	"-I -a",
	"-e cpu-clock,dummy -I",
	"-Iax,bx",
	"--intr-regs=ax,bx",
	"--user-regs",
	"--user-regs=AX,r15 -a",
	"--call-graph dwarf,8192",
	"--call-graph dwarf,8192 --user-regs=ax",
	"--call-graph fp --kernel-callchains",
	"--call-graph fp --user-callchains",
	"-g --kernel-callchains",
	"--kernel-callchains",
	"--call-graph fp,32",
	"--namespaces",
	"--namespaces -a",
	"--overwrite",
	"--overwrite -a",
	"--overwrite -D 5",
	"--tail-synthesize",
	"--phys-data",
	"--data-page-size",
	"--code-page-size",
	"--sample-identifier",
	"--sample-identifier -e cpu-clock,cs",
	"--sample-mem-info",
	"--data-mmap",
	"-d",
	"-d -a",
	"-d --no-data-mmap",
	"--latency",
	"--no-buffering",
	"--no-buffering -a",
	"--buildid-mmap",
	"--no-buildid-mmap",
	"-B",
	"-N",
	"-i",
	"-t SELF",
	"-t SELF --inherit",
	"-p SELF",
	"-D 10",
	"-D 10-20,30-4000",
	"-D -1",
	"-c 1000000",
	"-F 99",
	"-P",
	"-P -a",
	"-R",
	"-n",
	"-s",
	"-T",
	"--sample-cpu",
	"--running-time",
	"--all-user",
	"--all-kernel",
	"--all-cgroups -a",
	"--no-bpf-event",
	"-k mono",
	"-z",
	"-m 8,8",
	"--synth=no -a",
	"--timestamp-boundary",
	"-e skb:kfree_skb",
	"-e skb:kfree_skb,cpu-clock -a --call-graph fp",
	"-e skb:kfree_skb,skb:consume_skb -p SELF",
	"-e cpu-clock:u -F 999 --call-graph fp",
	"-c 1000 -e page-faults -d",
	"-T -P -d -s -R",
	"--no-bpf-event --all-user -e cpu-clock,cs",
	"-e cpu-clock:S --running-time",
	"-e cpu-clock/freq=99,name=slow/u,cs/call-graph=no/ --call-graph fp",
	"-e sched:sched_switch/max-stack=4,call-graph=fp/u,cpu-clock/max-stack=4/",
	"-e {cpu-clock,task-clock}:S",
	"-e {cpu-clock,task-clock}:S -I",
	"-e {cpu-clock:u,task-clock,faults}:k,cs -a",
	"-e {cs,task-clock/period=100000/}:S",
	"-e cpu-clock/period=1000,no-inherit/",
	"-e cpu-clock/stack-size=1024,call-graph=dwarf/",
	"-e software/config=1/,software/cpu-clock/",
	"-e cpu-clock,cs --all-cgroups -a",
	"-D 10 -p SELF",
}

func recordLine(line, file string) []string {
	args := append(strings.Fields(strings.ReplaceAll(line, "SELF", strconv.Itoa(os.Getpid()))), "-o", file)
	if !strings.Contains(line, "-e ") {
		args = append(args, "-e", "cpu-clock")
	}
	return append(args, "--", "sleep", "0.02")
}

// attrsOf are the events of a recording with attrs, as evlist -v prints them. How long an attr is does not
// matter: perf 6.1 can read gperf's attrs, too. Nor do the numbers of tracepoints.
func attrsOf(t *testing.T, file string) string {
	t.Helper()
	text, _ := gperf(t, "evlist", "-v", "-i", file)
	text = regexp.MustCompile(`size: \d+, `).ReplaceAllString(text, "")
	return regexp.MustCompile(`(TRACEPOINT\), .*?config: )0x[0-9a-f]+`).ReplaceAllString(text, "$1…")
}

// The events are set up as perf does it with the same flags; drops, without the packets that gperf adds.
func TestRecordAttrsArePerfsAlone(t *testing.T) {
	needTracepoints(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("registers and weights are x86's")
	}
	want := perfs(t, "record-attrs.txt", func(o *oracle) string {
		texts := make([]string, len(recordLines))
		var all sync.WaitGroup
		for i, line := range recordLines { // perf ends a second later than it could
			file := filepath.Join(t.TempDir(), "perf.data")
			all.Go(func() {
				if _, err := o.run(t, append([]string{"record", "-N"}, recordLine(line, file)...)...); err != nil {
					t.Error(err)
				}
			})
			if i%8 == 7 {
				all.Wait()
			}
			texts[i] = file
		}
		all.Wait()
		for i, line := range recordLines {
			texts[i] = fmt.Sprintf("record %s\n%s", line, attrsOf(t, texts[i]))
		}
		return strings.Join(texts, "")
	})
	dir := t.TempDir()
	file := filepath.Join(dir, "perf.data")
	var got strings.Builder
	for _, line := range recordLines {
		mustRecord(t, dir, append([]string{"--no-packet"}, recordLine(line, file)...)...)
		if c := read(t, file); !c.countsLost() || strings.Contains(line, "}:S") &&
			c.Attrs[0].Flags&format.FlagInherit == 0 && !strings.Contains(line, "-a") {
			t.Skip("this kernel does not know all that the flags ask for (since Linux 6.12)")
		}
		fmt.Fprintf(&got, "record %s\n%s", line, attrsOf(t, file))
	}
	sameText(t, "attrs", got.String(), want)
}

// Records that the file contains with some flags only.
func TestRecordFlagsMakeRecords(t *testing.T) {
	needTracepoints(t)
	for _, c := range []struct {
		flags string
		want  string // of the records' types
		not   string
	}{
		{"--switch-events", "*format.Switch", "*format.Namespaces"},
		{"--latency", "*format.Switch", ""},
		{"--switch-events -a", "*format.Switch", ""},
		{"--namespaces -a", "*format.Namespaces", "*format.Switch"},
		{"--synth=no -p 1", "", "*format.Comm"},
		{"--synth=task -p 1", "*format.Comm", ""},
		{"--synth=mmap -p 1", "*format.Comm", ""},
		{"--all-cgroups --synth=cgroup -p 1", "*format.Cgroup", "*format.Comm"},
		{"--all-cgroups --synth=task -p 1", "*format.Comm", "*format.Cgroup"},
	} {
		t.Run(c.flags, func(t *testing.T) {
			dir := t.TempDir()
			mustRecord(t, dir, append(strings.Fields(c.flags), "-e", "cpu-clock", "--", "sleep", "0.05")...)
			types := map[string]bool{}
			for _, rec := range recordsOf(t, filepath.Join(dir, "perf.data")) {
				types[fmt.Sprintf("%T", rec)] = true
			}
			if c.want != "" && !types[c.want] || types[c.not] {
				t.Errorf("%s: the records are %v", c.flags, types)
			}
		})
	}
}

// --synth=task leaves the mappings of processes out, not the kernel's.
func TestRecordSynthTasks(t *testing.T) {
	needTracepoints(t)
	for _, row := range []struct {
		kinds  string
		mapped bool
	}{{"task", false}, {"mmap", true}} {
		t.Run(row.kinds, func(t *testing.T) {
			dir := t.TempDir()
			mustRecord(t, dir, "--synth", row.kinds, "-p", strconv.Itoa(os.Getpid()), "-e", "cpu-clock", "--", "true")
			user, kernel := 0, 0
			for _, rec := range recordsOf(t, filepath.Join(dir, "perf.data")) {
				switch m, _ := rec.(*format.Mmap); {
				case m == nil || m.ID.Time != 0:
				case m.PID == -1:
					kernel++
				default:
					user++
				}
			}
			if user > 0 != row.mapped || kernel == 0 {
				t.Errorf("%s: %d mappings of the process, %d of the kernel", row.kinds, user, kernel)
			}
		})
	}
}

// The namespaces of earlier processes come from /proc.
func TestRecordNamespaces(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	mustRecord(t, dir, "--namespaces", "-p", strconv.Itoa(os.Getpid()), "-e", "cpu-clock", "--", "true")
	var want []format.Namespace
	for _, name := range []string{"net", "uts", "ipc", "pid", "user", "mnt", "cgroup"} {
		var st syscall.Stat_t
		if err := syscall.Stat("/proc/self/ns/"+name, &st); err != nil {
			t.Fatal(err)
		}
		want = append(want, format.Namespace{Dev: st.Dev, Ino: st.Ino})
	}
	threads := 0
	for _, rec := range recordsOf(t, filepath.Join(dir, "perf.data")) {
		n, ok := rec.(*format.Namespaces)
		if !ok || int(n.PID) != os.Getpid() {
			continue
		}
		threads++
		if !slices.Equal(n.NS, want) {
			t.Errorf("thread %d: %v instead of %v", n.TID, n.NS, want)
		}
	}
	if threads == 0 {
		t.Error("there are no namespaces")
	}
}

// The instruction pointer among the registers of the interrupted code is the sample's.
func TestRecordRegisters(t *testing.T) {
	needEvents(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the registers are x86's")
	}
	dir := t.TempDir()
	mustRecord(t, dir, "--intr-regs=ip,sp", "-e", "cpu-clock:u", "-F", "20000", "--", "sh", "-c",
		"i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
	text, _ := gperf(t, "script", "-F", "ip,iregs", "-i", filepath.Join(dir, "perf.data"))
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		if m := regexp.MustCompile(`^ *([0-9a-f]+) .*\bIP:0x([0-9a-f]+)`).FindStringSubmatch(line); m == nil ||
			m[1] != m[2] || !strings.Contains(line, " SP:0x") {
			t.Fatalf("%q of %d lines", line, len(lines))
		}
	}
}

// Wrong values of flags are refused, with the possible values.
func TestRecordFlagsRefused(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"-I?", exitUsage, "available registers: "},
		{"--user-regs=?", exitUsage, "available registers: "},
		{"--intr-regs=sp,mars", exitUsage, `unknown register "mars"; available registers: `},
		{"-j any,mars", exitUsage, `unknown branch filter "mars"`},
		{"-b -j any", exitUsage, "-b means -j any"},
		{"-b", exitError, "doesn't support branch stack sampling"},
		{"-j any_call,u", exitError, "doesn't support branch stack sampling"},
		{"--call-graph lbr", exitError, "doesn't support branch stack sampling"},
		{"--call-graph fp,many", exitUsage, "a number of frames"},
		{"--synth=mars", exitUsage, `"mars" is not one of no, task, mmap, cgroup, all`},
		{"--max-size=1", exitUsage, `"1" is not a size`},
		{"--control=mars", exitUsage, "neither fd:COMMANDS[,ACKS] nor fifo:"},
		{"--control=fd:1000", exitUsage, "bad file descriptor"},
		{"--control=fifo:/etc/passwd", exitUsage, "is not a FIFO"},
		{"-D 20-10", exitUsage, "in ascending order"},
		{"-D 10-20-30", exitUsage, "ranges such as"},
		{"-D -2", exitUsage, "ranges such as"},
		{"--latency -a", exitUsage, "not supported with system-wide collection"},
		{"--strict-freq -F 99999999", exitError, "exceeded"},
		{"--switch-output-event mars", exitUsage, `unknown event "mars"`},
		{"--kcore -o -", exitError, "the kernel's code is copied into a directory"},
		{"-r 100", exitError, "realtime priority 100"},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := recordIn(t, dir, append(strings.Fields(c.args), "-e", "cpu-clock:u", "--", "true")...)
			if r.code != c.code || !strings.Contains(r.stderr, c.want) {
				t.Errorf("%s: exit code %d, want %d and %q:\n%s", c.args, r.code, c.code, c.want, r.stderr)
			}
		})
	}
	if l, _ := os.ReadDir(dir); len(l) != 0 {
		t.Errorf("files are left: %v", l)
	}
}

// The filters of -j mean the bits that perf sets for them.
func TestRecordBranchFiltersAlone(t *testing.T) {
	lists := []string{"any", "u", "k", "any,u", "any_call,u,k,hv,no_cycles,save_type", "call,any_ret,u,priv,counter",
		"ind_call,ind_jmp,cond,no_flags",
		"abort_tx,in_tx,no_tx", "any,stack,hw_index"}
	bits := regexp.MustCompile(`branch_sample_type:? +([A-Z_|]+)`)
	want := perfs(t, "record-branches.txt", func(o *oracle) string {
		var b strings.Builder
		for _, list := range lists {
			cmd := exec.Command(o.command[0], append(slices.Clone(o.command[1:]), "record", "-vv", "-j", list, "-e",
				"cpu-clock", "-o", os.DevNull, "true")...)
			out, _ := cmd.CombinedOutput() // no PMU, no success
			fmt.Fprintf(&b, "%s: %s\n", list, bits.FindSubmatch(out)[1])
		}
		return b.String()
	})
	var got strings.Builder
	for _, list := range lists {
		b, err := record.ParseBranches(list)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		listEvents([]format.Attr{{SampleType: format.SampleBranchStack, BranchSampleType: uint64(b)}}, "-v", &text)
		fmt.Fprintf(&got, "%s: %s\n", list, bits.FindStringSubmatch(text.String())[1])
	}
	sameText(t, "branches", got.String(), want)
}

package main

import (
	"bufio"
	"debug/elf"
	bin "encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gperf/format"
)

// runningRecord is a gperf record that runs.
type runningRecord struct {
	*exec.Cmd
	errs *strings.Builder
}

func startRecord(t *testing.T, dir string, extra []*os.File, args ...string) *runningRecord {
	t.Helper()
	r := &runningRecord{exec.Command(binary(t, "./cmd/gperf"), append([]string{"record"}, args...)...),
		new(strings.Builder)}
	r.Dir, r.Stderr, r.ExtraFiles = dir, r.errs, extra
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(patience(2*time.Minute), func() { r.Process.Kill() })
	t.Cleanup(func() { stuck.Stop(); r.Process.Kill() })
	return r
}

// controls are the two ways to name the source of commands.
var controls = []struct {
	name string
	open func(t *testing.T, dir string) (arg string, extra []*os.File, commands, acks *os.File)
}{
	{"fd", func(t *testing.T, dir string) (string, []*os.File, *os.File, *os.File) {
		commandsR, commandsW, err := os.Pipe()
		acksR, acksW, err2 := os.Pipe()
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return "fd:3,4", []*os.File{commandsR, acksW}, commandsW, acksR
	}},
	{"fifo", func(t *testing.T, dir string) (string, []*os.File, *os.File, *os.File) {
		var files [2]*os.File
		for i, name := range []string{"commands", "acks"} {
			path := filepath.Join(dir, name)
			err := syscall.Mkfifo(path, 0o600)
			if err == nil {
				files[i], err = os.OpenFile(path, os.O_RDWR, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return "fifo:commands,acks", nil, files[0], files[1]
	}},
}

// commandSender returns a function that sends a command, and waits until it is done.
func commandSender(t *testing.T, commands, acks *os.File) func(command string) {
	answers := bufio.NewReader(acks)
	return func(command string) {
		t.Helper()
		fmt.Fprintln(commands, command)
		if s, err := answers.ReadString('\n'); err != nil || s != "ack\n" {
			t.Fatalf("%s: %q, %v", command, s, err)
		}
	}
}

// Commands are done and acknowledged with perf 7.3's text; only samples while the events are enabled are
// recorded.
func TestRecordControl(t *testing.T) {
	needTracepoints(t)
	for _, c := range controls {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			arg, extra, commands, acks := c.open(t, dir)
			r := startRecord(t, dir, extra, "-D", "-1", "--control", arg, "-a", "-m", "4096",
				"-e", "skb:kfree_skb", "--filter", "protocol == 0", "-e", "cs") // no packets of others
			send := commandSender(t, commands, acks)
			senders := map[int]bool{} // other tests' programs drop, too
			drops := func(n int) {
				sender := exec.Command(binary(t, dropsProgram), "-unix", "-n", strconv.Itoa(n))
				if out, err := sender.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				senders[sender.Process.Pid] = true
			}
			send("ping")
			drops(7)
			send("enable")
			drops(20)
			send("disable skb:kfree_skb")
			drops(7)
			send("enable skb:kfree_skb")
			drops(20)
			send("disable")
			drops(7)
			send("enable mars")
			send("enablex")
			send("evlist -F")
			send("snapshot")
			fmt.Fprintln(commands, "mars") // gets no answer
			send("stop")
			if err := r.Wait(); err != nil {
				t.Errorf("%v\n%s", err, r.errs)
			}
			file, own := filepath.Join(dir, "perf.data"), 0
			for line := range strings.Lines(mustGperf(t, "script", "-F", "pid,event", "-i", file)) {
				pid, event, _ := strings.Cut(strings.TrimSpace(line), " ")
				if n, _ := strconv.Atoi(pid); senders[n] && strings.Contains(event, "skb:kfree_skb") {
					own++
				}
			}
			if own != 40 {
				t.Errorf("%d drops instead of 40: %v", own, read(t, file).samples)
			}
			want := `Events disabled
Events enabled
Event skb:kfree_skb disabled
Event skb:kfree_skb enabled
Events disabled
failed: can't find 'mars' event
failed: wrong command
skb:kfree_skb: sample_period=1
cs: sample_freq=4000
dummy:u: sample_period=1
# Tip: use 'perf evlist --trace-fields' to show fields for tracepoint events
gperf record: --control: unknown command "mars"
`
			if got := r.errs.String(); !strings.HasPrefix(got, want) {
				t.Errorf("messages:\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Ranges of -D enable the events in turns; the recording ends with the last.
func TestRecordDelayRanges(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	start := time.Now()
	ranges := fmt.Sprintf("%d-%d,%d-%d", patience(100), patience(200), patience(400), patience(500))
	r := recordIn(t, dir, "-D", ranges, "-e", "cpu-clock:u", "-F", "1000", "--", "sh", "-c", "while :; do :; done")
	if took := time.Since(start); r.code != 128+int(syscall.SIGTERM) || took > patience(10*time.Second) {
		t.Errorf("exit code %d after %v", r.code, took)
	}
	want := strings.Repeat("Events disabled\nEvents enabled\n", 2) + "Events disabled\n"
	if !strings.HasPrefix(r.stderr, want) {
		t.Errorf("messages:\n%s", r.stderr)
	}
	times := sampleTimes(t, filepath.Join(dir, "perf.data"))
	pauses := 0
	for i := 1; i < len(times); i++ {
		if times[i]-times[i-1] > uint64(patience(150*time.Millisecond)) {
			pauses++
		}
	}
	if len(times) < 20 || pauses == 0 {
		t.Errorf("%d samples with %d pauses", len(times), pauses)
	}
}

// A recording ends when the file reaches the maximum size.
func TestRecordMaxSize(t *testing.T) {
	needEvents(t)
	for _, flags := range [][]string{nil, {"-z"}} {
		dir := t.TempDir()
		r := recordIn(t, dir, append(flags, "--max-size", "20K", "-m", "2", "-F", "max", "-e", "cpu-clock:u", "--",
			"sh", "-c", "while :; do :; done")...)
		m := regexp.MustCompile(
			`\[ gperf record: perf size limit reached \((\d+) KB\), stopping session \]\n`).FindStringSubmatch(r.stderr)
		if r.code != 128+int(syscall.SIGTERM) || m == nil {
			t.Fatalf("exit code %d\n%s", r.code, r.stderr)
		}
		st, err := os.Stat(filepath.Join(dir, "perf.data"))
		if err != nil {
			t.Fatal(err)
		}
		if kb, _ := strconv.Atoi(m[1]); kb < 20 || st.Size() < 20<<10 || st.Size() > 200<<10 {
			t.Errorf("%d KB, file of %d bytes", kb, st.Size())
		}
	}
}

// Each file of a flight recorder contains the newest samples up to the signal.
func TestRecordOverwrite(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	const pages, rounds = 2, 3
	drops := binary(t, dropsProgram)
	script := fmt.Sprintf(
		`for i in 1 2 3; do %s -unix -n 3000; kill -USR2 $PPID; while [ $(ls perf.data.2* 2>/dev/null | wc -l) -lt `+
			`$i ] && [ $((n += 1)) -lt 3000 ]; do :; done; done`, drops)
	r := mustRecord(t, dir, "--overwrite", "--switch-output", "-m", strconv.Itoa(pages), "-e", "skb:kfree_skb",
		"--", "sh", "-c", script)
	files, _ := filepath.Glob(filepath.Join(dir, "perf.data.2*"))
	if len(files) != rounds+1 {
		t.Fatalf("files: %v\n%s", files, r.stderr)
	}
	last := uint64(0)
	for _, file := range files[:rounds] {
		c := read(t, file)
		if n := c.total; !c.Complete || c.skipped != 0 || n < 20 || n > runtime.NumCPU()*pages*4096/64 {
			t.Errorf("%s: complete: %v, %d records cannot be used, %v", file, c.Complete, c.skipped, c.samples)
		}
		newest := slices.Max(sampleTimes(t, file))
		if newest <= last {
			t.Errorf("%s ends at %d, the file before at %d", file, newest, last)
		}
		last = newest
	}
}

// sampleTimes are the times of a recording's samples.
func sampleTimes(t *testing.T, path string) (times []uint64) {
	t.Helper()
	text, _ := gperf(t, "script", "-F", "time", "--ns", "-i", path)
	for _, word := range strings.Fields(text) {
		n, err := strconv.ParseUint(strings.NewReplacer(".", "", ":", "").Replace(word), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, n)
	}
	return times
}

// Without switching, the contents of the rings at the end are written: at least the newest sample.
func TestRecordOverwriteUntilTheEnd(t *testing.T) {
	needTracepoints(t)
	for _, flags := range []string{"", "-z", "-o -", "--call-graph fp", "-g"} {
		dir := t.TempDir()
		r := mustRecord(t, dir, append(strings.Fields(flags), "--overwrite", "-m", "2", "-e", "skb:kfree_skb", "--",
			binary(t, dropsProgram), "-unix", "-n", "3000")...)
		file := filepath.Join(dir, "perf.data")
		if strings.Contains(flags, "-o") {
			writeFile(t, file, r.stdout)
		}
		if fallback := strings.Contains(r.stderr, "cannot unwind stacks in the kernel (--overwrite: "); fallback !=
			(flags == "-g") {
			t.Errorf("%q:\n%s", flags, r.stderr)
		}
		c := read(t, file)
		if c.total < 20 || c.total > 2000 || c.skipped != 0 {
			t.Errorf("%q: %v", flags, c.samples)
		}
	}
}

// With --tail-synthesize, records at the end of the file name all samples.
func TestRecordTailSynthesize(t *testing.T) {
	needTracepoints(t)
	for _, stacks := range []string{"no", "dwarf"} {
		dir := t.TempDir()
		sleeper := exec.Command(binary(t, dropsProgram), "-unix", "-n", "100000000", "-rate", "2000")
		if err := sleeper.Start(); err != nil {
			t.Fatal(err)
		}
		mustRecord(t, dir, append([]string{"--tail-synthesize", "--call-graph", stacks, "-p",
			strconv.Itoa(sleeper.Process.Pid), "-e",
			"skb:kfree_skb", "--"}, untilUsed(sleeper.Process.Pid, 20)...)...)
		sleeper.Process.Kill()
		sleeper.Wait()
		file := filepath.Join(dir, "perf.data")
		samples, comm := 0, -1
		for _, typ := range typesInFile(t, file) {
			switch typ {
			case format.TypeSample:
				samples++
			case format.TypeComm:
				comm = samples
			}
		}
		text, _ := gperf(t, "script", "-F", "comm,sym,ip", "-i", file)
		if samples == 0 || comm != samples || strings.Count(text, "drops ") != samples ||
			stacks == "dwarf" && !strings.Contains(text, " main.main") {
			t.Errorf("--call-graph %s: %d of %d samples before the name of the process:\n%.1000s", stacks, comm,
				samples, text)
		}
	}
}

// typesInFile returns the types of a recording's records in the order of the file, compressed ones not unpacked.
func typesInFile(t *testing.T, path string) (l []format.Type) {
	t.Helper()
	f, b := openRecording(t, path)
	for b = b[f.DataOffset():][:f.DataSize()]; len(b) > 0; b = b[bin.LittleEndian.Uint16(b[6:]):] {
		l = append(l, format.Type(bin.LittleEndian.Uint32(b)))
	}
	return l
}

// A ring for each thread contains the samples of that thread.
func TestRecordPerThread(t *testing.T) {
	needTracepoints(t)
	for _, stacks := range []string{"no", "fp", "dwarf"} {
		dir := t.TempDir()
		r := mustRecord(t, dir, "--per-thread", "-T", "--call-graph", stacks, "-e", "skb:kfree_skb", "--",
			binary(t, dropsProgram), "-unix", "-n", "300")
		c := read(t, filepath.Join(dir, "perf.data"))
		if len(c.Attrs[0].IDs) != 1 || c.total == 0 {
			t.Errorf("--call-graph %s: %d counters, %v", stacks, len(c.Attrs[0].IDs), c.samples)
		}
		if fallback := strings.Contains(r.stderr, "cannot unwind stacks in the kernel (--per-thread: "); fallback !=
			(stacks == "dwarf") {
			t.Errorf("--call-graph %s:\n%s", stacks, r.stderr)
		}
	}
	// Each thread of a process gets one.
	dir := t.TempDir()
	sender := exec.Command(binary(t, dropsProgram), "-unix", "-n", "100000000", "-rate", "2000")
	if err := sender.Start(); err != nil {
		t.Fatal(err)
	}
	defer sender.Wait()
	defer sender.Process.Kill()
	mustRecord(t, dir, append([]string{"--per-thread", "-p", strconv.Itoa(sender.Process.Pid), "-e", "skb:kfree_skb",
		"--"}, untilUsed(sender.Process.Pid, 20)...)...)
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", sender.Process.Pid))
	c := read(t, filepath.Join(dir, "perf.data"))
	if n := len(c.Attrs[0].IDs); n < 2 || n > len(threads) || c.total == 0 ||
		c.samples[commEvent{"drops", "skb:kfree_skb"}] != c.total {
		t.Errorf("%d counters of %d threads, %v", n, len(threads), c.samples)
	}
}

// Each of these events begins another file, and is in none.
func TestRecordSwitchOutputEvent(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	script := `for i in 1 2 3; do /bin/true; while [ $(ls perf.data.2* 2>/dev/null | wc -l) -lt $i ] && [ $((n += ` +
		`1)) -lt 3000 ]; do :; done; done`
	mustRecord(t, dir, "--switch-output-event", "sched:sched_process_exec", "-e", "cpu-clock", "--", "sh", "-c", script)
	files, _ := filepath.Glob(filepath.Join(dir, "perf.data.2*"))
	if len(files) < 4 {
		t.Errorf("files: %v", files)
	}
	for _, file := range files {
		if c := read(t, file); !c.Complete || countOf(c, "sched:sched_process_exec") != 0 {
			t.Errorf("%s: %v", file, c.samples)
		}
	}
}

// The recorder runs with the priority, the command without.
func TestRecordRealtime(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	r := mustRecord(t, dir, "-r", "7", "-e", "cpu-clock", "--", "sh", "-c", "chrt -a -p $PPID; chrt -p $$")
	policies := regexp.MustCompile(`policy: (\w+)`).FindAllStringSubmatch(r.stdout, -1)
	if n := len(policies); n < 2 || strings.Count(r.stdout, "priority: 7\n") != n-1 ||
		policies[n-1][1] != "SCHED_OTHER" ||
		slices.ContainsFunc(policies[:n-1], func(m []string) bool { return m[1] != "SCHED_FIFO" }) {
		t.Errorf("chrt prints\n%s", r.stdout)
	}
}

// The recorder's nice value is lower than the command's.
func TestRecordNice(t *testing.T) {
	needTracepoints(t)
	if out, err := exec.Command("nice", "-n", "-1", "true").CombinedOutput(); err != nil || len(out) > 0 {
		t.Skipf("CAP_SYS_NICE is missing: %v: %s", err, out)
	}
	r := mustRecord(t, t.TempDir(), "-e", "cpu-clock", "--", "sh", "-c",
		"nice; awk '{ print $19 }' /proc/$PPID/task/*/stat")
	nice := strings.Fields(r.stdout)
	command, err := strconv.Atoi(nice[0])
	want := strconv.Itoa(max(command-10, -20))
	if err != nil || len(nice) < 2 || slices.ContainsFunc(nice[1:], func(n string) bool { return n != want }) {
		t.Errorf("nice values: %v, want %s after the first", nice, want)
	}
}

// The directory contains the kernel's code, of which functions are where kallsyms says; perf reads it.
func TestRecordKcore(t *testing.T) {
	needTracepoints(t)
	if _, err := os.Stat("/proc/kcore"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "perf.data")
	for range 2 { // the second renames the first
		r := mustRecord(t, dir, "--kcore", "-a", "-e", "cpu-clock", "--", "sleep", "0.2")
		if !strings.Contains(r.stderr, " MB perf.data (") {
			t.Errorf("messages:\n%s", r.stderr)
		}
	}
	if _, err := os.Stat(file + ".old/kcore_dir/kcore"); err != nil {
		t.Error(err)
	}
	if c := read(t, filepath.Join(file, "data")); c.total == 0 || !c.Complete {
		t.Errorf("%v", c.samples)
	}
	if text, _ := gperf(t, "script", "-i", file); !strings.Contains(text, "cpu-clock") {
		t.Errorf("%.1000s", text)
	}
	symbols, err := os.ReadFile(filepath.Join(file, "kcore_dir/kallsyms"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^([0-9a-f]+) T vfs_read$`).FindSubmatch(symbols)
	if m == nil {
		t.Fatal("kallsyms has no vfs_read")
	}
	addr, _ := strconv.ParseUint(string(m[1]), 16, 64)
	if a, b := codeAt(t, filepath.Join(file, "kcore_dir/kcore"), addr), codeAt(t, "/proc/kcore", addr); a != b ||
		a == "" {
		t.Errorf("vfs_read is %x, in memory %x", a, b)
	}
	if o, err := findOracle(); err == nil && o.compat == "7.3" {
		if text, err := o.run(t, "script", "-i", file); err != nil || !strings.Contains(text, "cpu-clock") {
			t.Errorf("perf script: %v\n%.1000s", err, text)
		}
	}
}

// codeAt returns code near the beginning of a function from a core file, after the bytes that tracing changes.
func codeAt(t *testing.T, path string, addr uint64) string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Vaddr <= addr && addr-p.Vaddr < p.Filesz {
			b := make([]byte, 32)
			if _, err := p.ReadAt(b, int64(addr-p.Vaddr)); err != nil {
				t.Fatal(err)
			}
			return string(b[16:])
		}
	}
	return ""
}

// Called perf, gperf gives that name in perf's messages, and compresses as perf 7.3 does.
func TestRecordInPerfsPlace(t *testing.T) {
	needEvents(t)
	for _, c := range []struct {
		name string
		kind format.Type
	}{{"perf", format.TypeCompressed2}, {"gperf", format.TypeCompressed}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "perf.data")
			cmd := exec.Command(binary(t, "./cmd/gperf"), "record", "-z", "-e", "cpu-clock:u", "-o", file, "--", "true")
			cmd.Args[0] = filepath.Join("/opt", c.name)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "[ "+c.name+" record: Captured and wrote ") {
				t.Errorf("%v\n%s", err, out)
			}
			if types := typesInFile(t, file); !slices.Contains(types, c.kind) {
				t.Errorf("%s: records of types %v", c.name, types)
			}
		})
	}
}

// Called perf, gperf warns of files without symbols as perf does, of which scripts know the words.
func TestReportInPerfsPlace(t *testing.T) {
	words := regexp.MustCompile(
		`^(no symbols found in .*, maybe install a debug package\?|Failed to open .*, continuing without symbols)$`)
	for _, name := range []string{"perf", "gperf"} {
		cmd := exec.Command(binary(t, "./cmd/gperf"), "report", "--debuginfod=no", "--kallsyms",
			filepath.Join(root, "testdata", "kallsyms"), "-i", filepath.Join(root, "testdata", "two.data"))
		cmd.Args[0] = name
		var errs strings.Builder
		cmd.Stderr = &errs
		if err := cmd.Run(); err != nil || errs.Len() == 0 {
			t.Errorf("%s: %v\n%s", name, err, errs.String())
		}
		for line := range strings.Lines(errs.String()) {
			if words.MatchString(strings.TrimSpace(line)) != (name == "perf") {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

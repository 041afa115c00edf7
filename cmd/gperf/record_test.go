package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gperf/format"
	"gperf/internal/testutil/programs"
)

// These tests run gperf record as a separate process: they are about signals,
// exit codes and the remains when it is killed.

// binaries are the programs of this module that tests run.
var binaries = map[string]*programs.Program{
	"./cmd/gperf": programs.Go("gperf/cmd/gperf"),
	dropsProgram:  programs.Go("gperf/internal/testutil/drops"),
}

// binary builds one of them, once for all tests, or finds it prebuilt.
func binary(t *testing.T, pkg string) string {
	t.Helper()
	p := binaries[pkg]
	if p == nil {
		t.Fatalf("%s is not among the binaries", pkg)
	}
	return p.Path(t)
}

// patience is for how long, or how often, a test looks for something before it gives up: longer on a machine that
// is $GPERF_SLOW times slower than others.
func patience[T ~int | ~int64](n T) T {
	if slow, err := strconv.Atoi(os.Getenv("GPERF_SLOW")); err == nil {
		return n * T(slow)
	}
	return n
}

// untilUsed returns a command that runs until a process has used so many more milliseconds of CPU time.
func untilUsed(pid, ms int) []string {
	const script = `used() { set -- $(cat /proc/$0/stat); echo $((${14} + ${15})); }; end=$(($(used) + $1))
		while [ $(used) -lt $end ]; do sleep 0.05; done`
	const tick = 10 // ms, in /proc/PID/stat
	return []string{"sh", "-c", script, strconv.Itoa(pid), strconv.Itoa(ms / tick)}
}

const dropsProgram = "./internal/testutil/drops"

// needTracepoints skips where this user may not record tracepoints of all
// processes.
func needTracepoints(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: tracepoints of all processes need it (or CAP_PERFMON, and a tracefs that may be read)")
	}
	needRecording(t, "CAP_PERFMON or CAP_SYS_ADMIN is missing, or the kernel's tracepoints are",
		"-a", "-e", "skb:kfree_skb")
}

// needRecording skips where a recording is refused. That the kernel does not accept a program is a failure.
func needRecording(t *testing.T, missing string, args ...string) {
	t.Helper()
	r := recordIn(t, t.TempDir(), append(args, "true")...)
	switch {
	case r.code == 0:
	case strings.Contains(r.stderr, "load program: ") && !strings.Contains(r.stderr, syscall.EPERM.Error()):
		t.Fatalf("%v:\n%s", args, r.stderr)
	default:
		t.Skipf("%s:\n%s", missing, r.stderr)
	}
}

// needEvents skips where this user may record nothing at all.
func needEvents(t *testing.T) {
	t.Helper()
	needRecording(t, "CAP_PERFMON is missing, or kernel.perf_event_paranoid above 2", "-e", "cpu-clock:u")
}

// result is how a program ended.
type result struct {
	code           int
	stdout, stderr string
}

// recordIn runs gperf record in dir. The standard output is a file: to a pipe, it
// would write the recording.
func recordIn(t *testing.T, dir string, args ...string) result {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "stdout")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var errs strings.Builder
	cmd := exec.Command(binary(t, "./cmd/gperf"), append([]string{"record"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), string(text), errs.String()}
}

// mustRecord runs gperf record in dir and expects it to succeed.
func mustRecord(t *testing.T, dir string, args ...string) result {
	t.Helper()
	r := recordIn(t, dir, args...)
	if r.code != exitOK {
		t.Fatalf("gperf record %s: exit code %d\n%s", strings.Join(args, " "), r.code, r.stderr)
	}
	return r
}

// A commEvent is a thread's command name, which may contain spaces, and an event's name.
type commEvent struct{ comm, event string }

// contents is the contents of a recording.
type contents struct {
	*format.File
	samples map[commEvent]int
	total   int
	lost    int // by LOST_SAMPLES, of all events but the tracking one
	skipped int // records that could not be used
}

// read reads a recording with package format.
func read(t *testing.T, path string) contents {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	c := contents{File: f, samples: map[commEvent]int{}}
	comms := map[int32]string{}
	recs := f.Records()
	var s format.Sample
	for {
		raw, err := recs.Next()
		if err == io.EOF {
			c.skipped = recs.Skipped.Count
			return c
		}
		if err != nil {
			t.Fatal(err)
		}
		if raw.Type == format.TypeSample {
			if err := f.Sample(raw, &s); err != nil {
				t.Fatal(err)
			}
			c.total++
			c.samples[commEvent{comms[s.TID], f.EventName(s.Event)}]++
			continue
		}
		rec, err := f.Record(raw)
		if err != nil {
			t.Fatal(err)
		}
		switch rec := rec.(type) {
		case *format.Comm:
			comms[rec.TID] = rec.Comm
		case *format.LostSamples:
			if i, ok := f.EventByID(rec.ID.ID); ok && f.EventName(i) != "dummy:u" {
				c.lost += int(rec.Lost)
			}
		}
	}
}

// countsLost reports whether the kernel counted the lost samples of each event.
func (c *contents) countsLost() bool { return c.Attrs[0].ReadFormat&format.ReadLost != 0 }

// lostAccording is the count in the last line of a recording's summary.
func lostAccording(stderr string) int {
	return numberIn(stderr, `Lost (\d+) samples`)
}

// missedAccording returns the number of samples that the summary says the kernel did not make, because another BPF
// program ran on the CPU, or a map of one was being changed.
func missedAccording(stderr string) int {
	return numberIn(stderr, `(\d+) samples were lost while another BPF program ran`)
}

// numberIn returns the number in the first match of a regular expression, 0 if there is none.
func numberIn(text, re string) int {
	m := regexp.MustCompile(re).FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// Every drop that a sender provokes is either a sample or counted as lost,
// whether the rings are large or far too small.
func TestRecordCountsEveryDrop(t *testing.T) {
	needTracepoints(t)
	for _, pages := range []string{"128", "1"} {
		t.Run("m="+pages, func(t *testing.T) {
			dir := t.TempDir()
			// Recorded are the sender's own events, and of these the datagrams between Unix sockets: a CPU drops the
			// packets of others while it runs the sender, too, in softirqs. The first event writes the side band: so
			// the losses count apart.
			n := 20000
			command := []string{binary(t, dropsProgram), "-unix", "-n", strconv.Itoa(n)}
			if pages == "1" {
				// The recorder sleeps until all are sent, so most find no room, perhaps all: then it
				// wakes up, and a few more find some.
				const few = 50
				command = append([]string{"sh", "-c",
					fmt.Sprintf(`kill -STOP $PPID; "$@"; kill -CONT $PPID; sleep 1; "$@" -n %d -rate 100`, few), "sh"},
					command...)
				n += few
			}
			r := mustRecord(t, dir, append([]string{"-g", "-m", pages, "-e", "dummy:u", "-e", "skb:kfree_skb",
				"--filter", "protocol == 0", "--"}, command...)...)
			c := read(t, filepath.Join(dir, "perf.data"))
			got := c.samples[commEvent{"drops", "skb:kfree_skb"}]
			if strings.Contains(r.stderr, " other records (mappings, names of processes)") {
				got = c.total // the sender's name may be in a record that found no room
			}
			if got != c.total {
				t.Errorf("%d of the %d samples are not the sender's: %v", c.total-got, c.total, c.samples)
			}
			if !c.countsLost() && got < n {
				t.Skipf("%d samples of %d drops, but the kernel does not count what is lost (since Linux 6.0)", got, n)
			}
			if missed := n - got - c.lost; missed < 0 || missed > missedAccording(r.stderr) {
				t.Errorf("%d samples and %d lost, of %d drops:\n%s", got, c.lost, n, r.stderr)
			}
			if lost := lostAccording(r.stderr); lost != c.lost {
				t.Errorf("summary: %d lost, in the file: %d", lost, c.lost)
			}
			if !strings.Contains(r.stderr, fmt.Sprintf("(%d samples)", got)) {
				t.Errorf("the file has %d samples; stderr:\n%s", got, r.stderr)
			}
			if pages == "1" && (c.lost == 0 || got == 0) {
				t.Errorf("%d samples are lost and %d are there: this did not test what it should", c.lost, got)
			}
			if c.skipped != 0 || len(c.Warnings) != 0 {
				t.Errorf("%d records cannot be used; warnings: %v", c.skipped, c.Warnings)
			}
		})
	}
}

// Stock perf reads the file: the same samples, in the same order.
func TestRecordPerfReads(t *testing.T) {
	needTracepoints(t)
	o := needOracle(t)
	dir := t.TempDir()
	mustRecord(t, dir, "-a", "-g", "-m", "4096", "-e", "skb:kfree_skb,cpu-clock", "--", binary(t, dropsProgram), "-n",
		"500")
	file := filepath.Join(dir, "perf.data")
	text, err := o.run(t, "script", "--no-inline", "-i", file)
	if err != nil {
		t.Fatal(err)
	}
	c := read(t, file)
	if n := strings.Count(text, " skb:kfree_skb: "); n < 500 || n != countOf(c, "skb:kfree_skb") {
		t.Errorf("perf finds %d drops, gperf %d, and the sender provoked 500", n, countOf(c, "skb:kfree_skb"))
	}
	if n := strings.Count(text, " cpu-clock: "); n == 0 || n != countOf(c, "cpu-clock") {
		t.Errorf("perf finds %d cpu-clock samples, gperf %d", n, countOf(c, "cpu-clock"))
	}
	if !strings.Contains(text, "udp_sendmsg") || !strings.Contains(text, "("+binary(t, dropsProgram)+")") {
		t.Errorf("perf names neither the kernel's functions nor the program: %.2000s", text)
	}
	header, err := o.run(t, "report", "--header-only", "-I", "-i", file)
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	for _, want := range []string{"hostname : " + host, "os release : ", "perf version : ", "arch : ",
		"nrcpus online : ", "total memory : ",
		"cmdline : ", "event : name = skb:kfree_skb", "event : name = dummy:u", "pmu mappings: ", "sibling ", "time of first sample : "} {
		if !strings.Contains(header, "# "+want) {
			t.Errorf("perf's header does not say %q:\n%s", want, header)
		}
	}
}

func countOf(c contents, event string) (n int) {
	for key, k := range c.samples {
		if key.event == event {
			n += k
		}
	}
	return n
}

// Whenever the recorder is killed, the file is read up to the last write.
func TestRecordKilled(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "perf.data")
	for range 4 {
		send := exec.Command(binary(t, dropsProgram), "-n", "1000000", "-rate", "50000")
		if err := send.Start(); err != nil {
			t.Fatal(err)
		}
		rec := exec.Command(binary(t, "./cmd/gperf"), "record", "-q", "-a", "-g", "-e", "skb:kfree_skb", "-o", file)
		if err := rec.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200*time.Millisecond + rand.N(400*time.Millisecond))
		rec.Process.Kill()
		rec.Wait()
		send.Process.Kill()
		send.Wait()
		checkUnfinished(t, file)
	}
}

// checkUnfinished reads a file that ends anywhere, and counts the samples twice:
// by the reader, and by going from header to header.
func checkUnfinished(t *testing.T, file string) {
	t.Helper()
	if st, err := os.Stat(file); err != nil || st.Size() == 0 {
		t.Log("killed before there was a file")
		return
	}
	c := read(t, file)
	if c.Complete {
		t.Fatal("the file of a killed recorder claims to be complete")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data = data[c.DataOffset():]
	samples := 0
	for len(data) >= 8 {
		size := int(data[6]) | int(data[7])<<8
		if size < 8 {
			t.Fatalf("a record of %d bytes, %d before the end", size, len(data))
		}
		if size > len(data) {
			break
		}
		if data[0] == byte(format.TypeSample) {
			samples++
		}
		data = data[size:]
	}
	t.Logf("%d samples", samples)
	if c.total != samples {
		t.Errorf("the reader finds %d of %d samples", c.total, samples)
	}
	if text, _ := gperf(t, "script", "-G", "-i", file); strings.Count(text, "\n") != samples {
		t.Errorf("gperf script prints %d of %d samples", strings.Count(text, "\n"), samples)
	}
}

// A full disk ends the recording with an error and a file that gperf and perf can read, with
// as many samples as the summary reports.
func TestRecordDiskFull(t *testing.T) {
	needTracepoints(t)
	for _, test := range []struct {
		disk  string
		flags []string
		load  []string
	}{
		{"size=3m", nil, []string{"-n", "60000", "-rate", "30000"}},
		{"size=600k", []string{"-z"}, []string{"-n", "200000", "-rate", "50000"}},
	} {
		dir := t.TempDir()
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, test.disk); err != nil {
			t.Skipf("a small tmpfs cannot be mounted (CAP_SYS_ADMIN is missing): %v", err)
		}
		defer syscall.Unmount(dir, 0)
		args := slices.Concat(test.flags, []string{"-a", "-g", "-e", "skb:kfree_skb", "--", binary(t, dropsProgram)},
			test.load)
		r := recordIn(t, dir, args...)
		if r.code != exitError || !strings.Contains(r.stderr, "no space left on device") {
			t.Errorf("%s: exit code %d\n%s", test.flags, r.code, r.stderr)
		}
		c := read(t, filepath.Join(dir, "perf.data"))
		if c.total < 1000 || c.skipped != 0 {
			t.Errorf("%s: %d samples, %d records cannot be used", test.flags, c.total, c.skipped)
		}
		if !strings.Contains(r.stderr, fmt.Sprintf("(%d samples)", c.total)) {
			t.Errorf("%s: the file has %d samples; stderr:\n%s", test.flags, c.total, r.stderr)
		}
	}
}

// Signals end the recording like a regular end.
func TestRecordSignals(t *testing.T) {
	needEvents(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		dir := t.TempDir()
		cmd := exec.Command(binary(t, "./cmd/gperf"), "record", "-e", "cpu-clock:u", "-p", strconv.Itoa(os.Getpid()))
		cmd.Dir = dir
		var errs strings.Builder
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "perf.data")
		for range patience(500) {
			if st, err := os.Stat(file); err == nil && st.Size() > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		cmd.Process.Signal(sig)
		cmd.Process.Signal(sig)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != exitOK ||
			!strings.Contains(errs.String(), "Captured and wrote") {
			t.Errorf("%v: exit code %d\n%s", sig, code, errs.String())
		}
		if c := read(t, file); !c.Complete {
			t.Errorf("%v: the file is not complete", sig)
		}
	}
}

// Recording processes ends with the last of them.
func TestRecordEndsWithProcess(t *testing.T) {
	needEvents(t)
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	r := startRecord(t, t.TempDir(), nil, "-e", "cpu-clock:u", "-p", strconv.Itoa(sleep.Process.Pid))
	for !hasEvents(r.Process.Pid) {
		time.Sleep(10 * time.Millisecond)
	}
	sleep.Process.Kill()
	sleep.Wait()
	start := time.Now()
	if err := r.Wait(); err != nil {
		t.Errorf("%v\n%s", err, r.errs)
	}
	if d := time.Since(start); d > patience(time.Minute) {
		t.Errorf("it took %v", d)
	}
}

// hasEvents reports whether a process opened perf events, or is gone.
func hasEvents(pid int) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(dir)
	return err != nil || slices.ContainsFunc(files, func(f os.DirEntry) bool {
		to, _ := os.Readlink(filepath.Join(dir, f.Name()))
		return to == "anon_inode:[perf_event]"
	})
}

// The command's exit code is record's, and an older file is kept.
func TestRecordCommand(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	for _, c := range []struct {
		command string
		code    int
	}{{"exit 0", 0}, {"exit 3", 3}, {"kill -9 $$", 137}, {"kill -TERM $$", 143}} {
		t.Run(c.command, func(t *testing.T) {
			if r := recordIn(t, dir, "-e", "cpu-clock:u", "--", "sh", "-c", c.command); r.code != c.code {
				t.Errorf("%s: exit code %d, want %d\n%s", c.command, r.code, c.code, r.stderr)
			}
		})
	}
	for _, name := range []string{"perf.data", "perf.data.old"} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, st.Mode())
		}
		if c := read(t, filepath.Join(dir, name)); !c.Complete {
			t.Errorf("%s is not complete", name)
		}
	}
	// Flags end at the command, and it sees the original environment and input.
	r := mustRecord(t, dir, "-q", "-e", "cpu-clock:u", "echo", "-a", "--", "-e")
	if r.stdout != "-a -- -e\n" || r.stderr != "" {
		t.Errorf("echo -a -- -e prints %q and %q", r.stdout, r.stderr)
	}
}

// Where there is no PMU, the timer stands in for cycles.
func TestRecordDefaultEvent(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	r := mustRecord(t, dir, "--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
	c := read(t, filepath.Join(dir, "perf.data"))
	name := c.EventName(0)
	if strings.HasPrefix(name, "cpu-clock") != strings.Contains(r.stderr, "falling back to cpu-clock") ||
		!strings.HasPrefix(name, "cpu-clock") && !strings.HasPrefix(name, "cycles") {
		t.Errorf("event %s, stderr:\n%s", name, r.stderr)
	}
	if c.samples[commEvent{"sh", name}] == 0 {
		t.Errorf("no samples of the shell: %v", c.samples)
	}
}

// Cycles are sampled with stacks, of all the machine and of a command, and perf reads them.
func TestRecordCycles(t *testing.T) {
	needTracepoints(t)
	for _, target := range [][]string{{"--"}, {"-a", "--"}} {
		dir := t.TempDir()
		r := mustRecord(t, dir, slices.Concat([]string{"-e", "cycles", "--call-graph", "fp"}, target,
			[]string{binary(t, dropsProgram), "-n", "20000"})...)
		if strings.Contains(r.stderr, "falling back to cpu-clock") {
			t.Skip("no PMU, so no cycles")
		}
		file := filepath.Join(dir, "perf.data")
		if name := read(t, file).EventName(0); !strings.HasPrefix(name, "cycles") {
			t.Errorf("the event is %s", name)
		}
		text, _ := gperf(t, "script", "-i", file)
		checkDropStacks(t, text, "gperf "+target[0])
		if text, err := exec.Command("perf", "script", "-i", file).Output(); err != nil {
			t.Logf("perf script: %v", err)
		} else {
			checkDropStacks(t, string(text), "perf "+target[0])
		}
	}
}

// checkDropStacks looks for whole stacks of a sender of drops: from the kernel's UDP through main.drop to main.main.
func checkDropStacks(t *testing.T, text, what string) {
	t.Helper()
	whole := regexp.MustCompile(`(?s) udp_sendmsg\+.* main\.drop\+.* main\.main\+.* runtime\.main\+`)
	senders, found := 0, 0
	for _, sample := range strings.Split(text, "\n\n") {
		if strings.HasPrefix(strings.TrimSpace(sample), "drops ") && strings.Contains(sample, "udp_sendmsg+") {
			senders++
			if whole.MatchString(sample) {
				found++
			}
		}
	}
	if found == 0 || found*10 < senders*9 {
		t.Errorf("%s: %d of %d samples of sending have whole stacks:\n%.2000s", what, found, senders, text)
	}
}

// Errors name the failed step, and the remedy.
func TestRecordErrors(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-e", "cpu-clokc", "true"}, exitUsage, "did you mean cpu-clock?"},
		{[]string{"-e", "cpu-clock:z", "true"}, exitUsage, "unknown modifier 'z'"},
		{[]string{"--call-graph", "lucky", "true"}, exitUsage, "use fp, dwarf or lbr"},
		{[]string{"--call-graph", "dwarf,copy,70000", "true"}, exitUsage, "8 to 65528 bytes"},
		{[]string{"--call-graph", "dwarf,much", "true"}, exitUsage, "8 to 65528 bytes"},
		{[]string{"--no-such-flag", "true"}, exitUsage, "unknown flag"},
		{[]string{"-F", "often", "true"}, exitUsage, "-F often"},
		{[]string{"-F", "99", "-c", "10", "true"}, exitUsage, "at the same time"},
		{[]string{"-m", "many", "true"}, exitUsage, "-m"},
		{[]string{"-C", "1-", "true"}, exitUsage, "neither a number nor a range"},
		{[]string{"-k", "sundial", "true"}, exitUsage, "monotonic_raw"},
		{[]string{"-p", "2000000000", "-e", "cpu-clock:u", "true"}, exitError, "no such process: 2000000000"},
		{[]string{"-t", "2000000000", "-e", "cpu-clock:u", "true"}, exitError, "no such thread: 2000000000"},
		{[]string{"-C", "9999", "true"}, exitError, "no such CPU: 9999"},
		{[]string{"-e", "cpu-clock:u", "--", "no-such-command"}, exitError,
			"cannot run no-such-command: there is no such program in $PATH"},
		{[]string{"-e", "cpu-clock:u", "--", "/etc/passwd"}, exitError, "cannot run /etc/passwd: permission denied"},
		{[]string{"-e", "cpu-clock:u", "-o", dir + "/none/perf.data", "true"}, exitError, "Its directory does not exist"},
		{[]string{"-e", "cpu-clock:u", "-o", dir, "true"}, exitError, "neither a regular file nor the directory of a recording"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			r := recordIn(t, dir, c.args...)
			if r.code != c.code || !strings.Contains(r.stderr, c.want) {
				t.Errorf("%s: exit code %d, want %d and %q:\n%s", strings.Join(c.args, " "), r.code, c.code,
					c.want, r.stderr)
			}
		})
	}
	if l, _ := os.ReadDir(dir); len(l) != 0 {
		t.Errorf("left-over files: %v", l)
	}
}

// nobodys returns a folder that every user may write to, with a copy of a program.
func nobodys(t *testing.T, path string) (dir, program string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "gperf-test-nobody-") // the folder above t.TempDir's is this user's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, err := os.ReadFile(path)
	program = filepath.Join(dir, filepath.Base(path))
	if err = errors.Join(err, os.WriteFile(program, data, 0o755), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	return dir, program
}

// A user without rights learns what to set.
func TestRecordUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: another user cannot be tried")
	}
	if b, _ := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); strings.HasPrefix(string(b), "-") ||
		strings.HasPrefix(string(b), "0") {
		t.Skip("kernel.perf_event_paranoid lets everybody record everything")
	}
	dir, program := nobodys(t, binary(t, "./cmd/gperf"))
	var errs strings.Builder
	cmd := exec.Command(program, "record", "-a", "-e", "cpu-clock", "true")
	cmd.Dir, cmd.Stderr = dir, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}}
	cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != exitError ||
		!strings.Contains(errs.String(), "sysctl kernel.perf_event_paranoid=0") {
		t.Errorf("exit code %d\n%s", code, errs.String())
	}
}

// TestRecordDescribesEventsOnce: the events of a file's attrs, which evlist prints, are
// errors of its description, which --header-only prints; so are a pipe's.
func TestRecordDescribesEventsOnce(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	for _, flags := range []string{"-g", "-g -z", "--call-graph fp", "-g -o -"} {
		t.Run(flags, func(t *testing.T) {
			r := mustRecord(t, dir, append(strings.Fields("-q -e cpu-clock:u,page-faults:u "+flags), "--", "true")...)
			file := filepath.Join(dir, "perf.data")
			if strings.HasSuffix(flags, "-") {
				if err := os.WriteFile(file, []byte(r.stdout), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			evlist, _ := gperf(t, "evlist", "-v", "-i", file)
			header, _ := gperf(t, "report", "--header-only", "-i", file)
			var listed, described []string
			for line := range strings.Lines(evlist) {
				if _, attr, ok := strings.Cut(line, ": type: "); ok {
					listed = append(listed, strings.ReplaceAll(attr, ": ", " = "))
				}
			}
			for line := range strings.Lines(header) {
				if _, attr, ok := strings.Cut(line, ", type = "); ok {
					described = append(described, attr)
				}
			}
			if len(listed) != 2 || !slices.Equal(listed, described) {
				t.Errorf("evlist has\n%q\nthe header\n%q", listed, described)
			}
		})
	}
}

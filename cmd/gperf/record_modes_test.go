package main

import (
	"bytes"
	bin "encoding/binary"
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
	"time"

	"gperf/cmd/gperf/cli"
	"gperf/format"
)

// outputModes are the ways to write a recording, and the file that each leaves.
var outputModes = []struct {
	name  string
	flags []string
	files string // a glob
}{
	{"plain", nil, "perf.data"},
	{"compressed", []string{"-z"}, "perf.data"},
	{"pipe", []string{"-o", "-"}, "stdout"},
	{"compressed-pipe", []string{"-o", "-", "-z"}, "stdout"},
	{"switched", []string{"--switch-output=60K"}, "perf.data.*"},
	{"compressed-switched", []string{"-z19", "--switch-output=6K"}, "perf.data.*"},
}

// In each mode, with each kind of stacks, each drop is a sample, for gperf and
// for perf, which reads pipes' contents from a pipe and from a file.
func TestRecordModes(t *testing.T) {
	needTracepoints(t)
	const n = 4000
	for i, mode := range outputModes {
		for j, stacks := range [][]string{nil, {"--call-graph", "fp"}, {"--call-graph", "dwarf"}} {
			t.Run(mode.name+strings.Join(stacks, "="), func(t *testing.T) {
				if testing.Short() && (i+j)%6 != 2 {
					t.Skip("short mode")
				}
				dir := t.TempDir()
				several := mode.files == "perf.data.*"
				pause := "true"
				if several {
					pause = `until set -- perf.data.2* && [ -e "$1" ]; do sleep 0.02; done`
				}
				// The rings have space for all samples, even if gperf does not run. The first event writes the side
				// band: so the side band's losses count apart. The filter leaves out the packets of others, which a
				// CPU drops in softirqs while it runs the sender.
				args := slices.Concat(mode.flags, stacks, []string{"-m", "4096", "-e", "dummy:u", "-e", "skb:kfree_skb",
					"--filter", "protocol == 0", "--", "sh", "-c", fmt.Sprintf("%[1]s; %[2]s; %[1]s",
						fmt.Sprintf("%s -unix -n %d -rate %d", binary(t, dropsProgram), n/2, 10000/patience(1)),
						pause)})
				r := mustRecord(t, dir, args...)
				if mode.files == "stdout" {
					writeFile(t, filepath.Join(dir, "stdout"), r.stdout)
				}
				files, _ := filepath.Glob(filepath.Join(dir, mode.files))
				if several != (len(files) > 1) {
					t.Errorf("%d files", len(files))
				}
				got := checkModes(t, files, n, stacks)
				if !strings.Contains(r.stderr, fmt.Sprintf("(%d samples)", got)) {
					t.Errorf("stderr:\n%s", r.stderr)
				}
				if compressed := strings.Contains(r.stderr,
					", compressed (original "); compressed != strings.Contains(mode.name, "compressed") {
					t.Errorf("stderr:\n%s", r.stderr)
				}
			})
		}
	}
}

func writeFile(t *testing.T, name, contents string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(contents), 0o600); err != nil {
		t.Fatal(err)
	}
}

// checkModes looks for n drops in files, and returns how many were not lost.
func checkModes(t *testing.T, files []string, n int, stacks []string) int {
	t.Helper()
	ours, lost := 0, 0
	for _, file := range files {
		c := read(t, file)
		if c.samples[commEvent{"drops", "skb:kfree_skb"}] != c.total || c.skipped != 0 || len(c.Warnings) != 0 {
			t.Errorf("%s: %v; %d records cannot be used; warnings: %v", file, c.samples, c.skipped, c.Warnings)
		}
		ours += c.total
		lost += c.lost
	}
	if ours+lost != n || lost > n/2 {
		t.Errorf("gperf finds %d of %d drops, and that %d were lost", ours, n, lost)
	}
	o, err := findOracle()
	if err != nil {
		t.Log(err)
		return ours
	}
	theirs, piped := 0, 0
	for _, file := range files {
		text, err := o.run(t, "script", "--no-inline", "-i", file)
		if err != nil {
			t.Fatal(err)
		}
		k := len(regexp.MustCompile(`(?m)^ *drops .* skb:kfree_skb: `).FindAllString(text, -1))
		theirs += k
		if k > 0 && len(stacks) > 0 && (!strings.Contains(text, " unix_dgram_connect") ||
			!strings.Contains(text, " main.drop")) {
			t.Errorf("%s: perf names neither the kernel's functions nor the program: %.2000s", file, text)
		}
		if filepath.Base(file) != "stdout" {
			continue
		}
		text2 := o.readPipe(t, file, "script", "--no-inline", "-i", "-")
		piped += strings.Count(text2, " skb:kfree_skb: ")
		if piped != k {
			t.Errorf("perf finds %d drops in the pipe, %d in the file", piped, k)
		}
	}
	if theirs != ours {
		t.Errorf("perf finds %d drops, gperf %d", theirs, ours)
	}
	return ours
}

// readPipe runs perf with a file's contents in a pipe as standard input.
func (o *oracle) readPipe(t *testing.T, file string, args ...string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	cmd := exec.Command(o.command[0], append(slices.Clone(o.command[1:]), args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+recordedFiles.dir)
	cmd.Stdin = struct{ io.Reader }{bytes.NewReader(data)} // no file: exec makes a pipe
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, errs.String())
	}
	return out.String()
}

// All processes are recorded, and perf reads the header that comes by the pipe.
func TestRecordModesAllCPUs(t *testing.T) {
	needTracepoints(t)
	o := needOracle(t)
	modes := outputModes[:4]
	if testing.Short() {
		modes = modes[3:]
	}
	for _, mode := range modes {
		dir := t.TempDir()
		r := mustRecord(t, dir, slices.Concat(mode.flags,
			[]string{"-a", "-g", "-e", "skb:kfree_skb,cpu-clock", "--", binary(t, dropsProgram), "-n", "500"})...)
		file := filepath.Join(dir, mode.files)
		if mode.files == "stdout" {
			writeFile(t, file, r.stdout)
			if !strings.Contains(r.stderr, "drops: sent 500 ") {
				t.Errorf("%s: the command's output is not on stderr:\n%s", mode.name, r.stderr)
			}
		}
		c := read(t, file)
		text, err := o.run(t, "script", "--no-inline", "-i", file)
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range []string{"skb:kfree_skb", "cpu-clock"} {
			if n := strings.Count(text, " "+event+": "); n == 0 || n != countOf(c, event) {
				t.Errorf("%s: perf finds %d samples of %s, gperf %d", mode.name, n, event, countOf(c, event))
			}
		}
		header, err := o.run(t, "report", "--header-only", "-I", "-i", file)
		if err != nil {
			t.Fatal(err)
		}
		host, _ := os.Hostname()
		wants := []string{"hostname : " + host, "os release : ", "nrcpus online : ", "cmdline : ",
			"pmu mappings: ", "sibling "}
		if strings.HasPrefix(mode.name, "compressed") {
			wants = append(wants, "compressed : Zstd, level = 1")
		}
		for _, want := range wants {
			if !strings.Contains(header, "# "+want) {
				t.Errorf("%s: perf's header does not say %q:\n%s", mode.name, want, header)
			}
		}
	}
}

// A compressed file is read up to the last write: the last record may be
// half a one.
func TestRecordKilledCompressed(t *testing.T) {
	needTracepoints(t)
	for _, stacks := range []string{"fp", "dwarf"} {
		dir := t.TempDir()
		file := filepath.Join(dir, "perf.data")
		rec := exec.Command(binary(t, "./cmd/gperf"), "record", "-z", "-q", "--call-graph", stacks, "-e",
			"skb:kfree_skb", "-o", file, "--",
			binary(t, dropsProgram), "-n", "300000", "-rate", "50000")
		if err := rec.Start(); err != nil {
			t.Fatal(err)
		}
		for range patience(1000) { // until there is more than a header and earlier processes
			if st, err := os.Stat(file); err == nil && st.Size() > 60_000 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		rec.Process.Kill()
		rec.Wait()
		c := read(t, file)
		if c.Complete || c.total < 1000 || c.samples[commEvent{"drops", "skb:kfree_skb"}] != c.total || c.skipped > 1 {
			t.Errorf("%s: complete: %v, samples: %v, %d records cannot be used", stacks, c.Complete,
				c.samples, c.skipped)
		}
	}
}

// A pipe receives samples long before the recording ends, each followed by the end of the
// round, so that a reader can print them.
func TestRecordPipeIsLive(t *testing.T) {
	needTracepoints(t)
	rec := exec.Command(binary(t, "./cmd/gperf"), "record", "-q", "-e", "skb:kfree_skb", "--filter", "protocol == 0",
		"--", "sh", "-c", binary(t, dropsProgram)+" -unix -n 5; exec sleep 100")
	out, err := rec.StdoutPipe() // no -o: standard output is a pipe
	if err == nil {
		err = rec.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Wait()
	defer rec.Process.Signal(syscall.SIGTERM)
	stuck := time.AfterFunc(patience(20*time.Second), func() { rec.Process.Kill() })
	defer stuck.Stop()
	head := make([]byte, 16)
	if _, err := io.ReadFull(out, head); err != nil || string(head[:8]) != "PERFILE2" {
		t.Fatalf("%q, %v", head, err)
	}
	samples, rounds := 0, 0
	for rounds < 2 {
		if _, err := io.ReadFull(out, head[:8]); err != nil {
			t.Fatalf("%v after %d samples and %d rounds", err, samples, rounds)
		}
		body := make([]byte, bin.LittleEndian.Uint16(head[6:])-8)
		if _, err := io.ReadFull(out, body); err != nil {
			t.Fatal(err)
		}
		switch format.Type(head[0]) {
		case format.TypeHeaderTracing:
			io.CopyN(io.Discard, out, int64(bin.LittleEndian.Uint32(body)))
		case format.TypeSample:
			samples++
		case format.TypeFinishedRound:
			if samples > 0 {
				rounds++
			}
		}
	}
	if samples != 5 {
		t.Errorf("%d samples of 5 drops", samples)
	}
}

// A reader that goes away ends the recording, and the command.
func TestRecordPipeReaderGoes(t *testing.T) {
	needTracepoints(t)
	for _, flags := range [][]string{{}, {"-z"}} {
		rec := exec.Command(binary(t, "./cmd/gperf"), slices.Concat([]string{"record", "-o", "-", "-a"}, flags,
			[]string{"-e", "cpu-clock", "--", "sleep", "100"})...)
		var errs strings.Builder
		rec.Stderr = &errs
		out, err := rec.StdoutPipe()
		if err == nil {
			err = rec.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		io.ReadFull(out, make([]byte, 100))
		out.Close()
		start := time.Now()
		rec.Wait()
		if d := time.Since(start); d > patience(20*time.Second) {
			t.Errorf("it took %v", d)
		}
		if code := rec.ProcessState.ExitCode(); code != 128+int(syscall.SIGPIPE) ||
			strings.Contains(errs.String(), "gperf record: writing") {
			t.Errorf("exit code %d\n%s", code, errs.String())
		}
	}
}

// Each SIGUSR2 begins another file. Without --switch-output it does nothing.
func TestRecordSwitchSignal(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	const n = 6000
	// The next drops come when the file of the last ones is whole.
	load := fmt.Sprintf(`for i in 1 2 3; do
		%[1]s -unix -n %[2]d -rate %[3]d; kill -USR2 $PPID
		until set -- drops.data.2* && [ -e "$1" ] && [ $# = $i ]; do sleep 0.02; done
	done; %[1]s -unix -n %[2]d -rate %[3]d`, binary(t, dropsProgram), n/4, 3000/patience(1))
	rec := exec.Command(binary(t, "./cmd/gperf"), "record", "--switch-output", "-g", "-m", "4096", "-e", "dummy:u",
		"-e", "skb:kfree_skb", "--filter", "protocol == 0", "-o", "drops.data", "--",
		"sh", "-c", load) // without the packets of others, dropped in softirqs
	rec.Dir = dir
	var errs strings.Builder
	rec.Stderr = &errs
	if err := rec.Start(); err != nil {
		t.Fatal(err)
	}
	// which ends the load
	stuck := time.AfterFunc(patience(5*time.Minute), func() { rec.Process.Signal(syscall.SIGTERM) })
	defer stuck.Stop()
	if err := rec.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 4 {
		t.Errorf("files: %v", files)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if !regexp.MustCompile(`^drops\.data\.20\d{14}$`).MatchString(name) ||
			!strings.Contains(errs.String(), "[ gperf record: Dump "+name+" ]\n") {
			t.Errorf("file %s; stderr:\n%s", name, errs.String())
		}
		if c := read(t, file); !c.Complete {
			t.Errorf("%s is not complete", name)
		}
	}
	got := checkModes(t, files, n, []string{"-g"})
	if k := strings.Count(errs.String(), "[ gperf record: dump data: Woken up "); k != 3 ||
		!strings.Contains(errs.String(), fmt.Sprintf(" MB drops.data.<timestamp> (%d samples) ]", got)) {
		t.Errorf("stderr:\n%s", errs.String())
	}
	r := mustRecord(t, dir, "-e", "cpu-clock:u", "-o", "one.data", "--", "sh", "-c", "kill -USR2 $PPID; sleep 0.1")
	if !strings.Contains(r.stderr, " MB one.data") {
		t.Errorf("stderr:\n%s", r.stderr)
	}
}

// Only so many files are kept: the newest.
func TestRecordSwitchMaxFiles(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	r := mustRecord(t, dir, "--switch-output=1s", "--switch-max-files", "2", "-e", "skb:kfree_skb", "--",
		binary(t, dropsProgram), "-n", strconv.Itoa(patience(3500)), "-rate", "1000")
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	dumped := regexp.MustCompile(`Dump (\S+)`).FindAllStringSubmatch(r.stderr, -1)
	if len(dumped) < 3 || len(files) != 2 {
		t.Fatalf("files: %v\n%s", files, r.stderr)
	}
	for i, d := range dumped[len(dumped)-2:] {
		if filepath.Base(files[i]) != d[1] {
			t.Errorf("file %s instead of %s", files[i], d[1])
		}
	}
}

// A time in the name, without switching.
func TestRecordTimestamp(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	r := mustRecord(t, dir, "--timestamp-filename", "-z", "-e", "cpu-clock:u", "--", "true")
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 1 || !strings.Contains(r.stderr, "Dump "+filepath.Base(files[0])) ||
		!strings.Contains(r.stderr, "perf.data.<timestamp>") {
		t.Errorf("files: %v\n%s", files, r.stderr)
	}
}

// gperf refuses impossible flags before it records.
func TestRecordModesRefused(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "-", "--switch-output", "true"}, "not possible in pipe mode"},
		{[]string{"--switch-output=often", "true"}, `"often" is neither signal nor a size`},
		{[]string{"--switch-output=0K", "true"}, `"0K" is neither`},
		{[]string{"--switch-max-files=-1", "true"}, "the number of files is negative"},
		{[]string{"--compression-level=much", "true"}, "invalid compression level"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			if r := recordIn(t, dir, c.args...); r.code != exitUsage || !strings.Contains(r.stderr, c.want) {
				t.Errorf("%s: exit code %d\n%s", strings.Join(c.args, " "), r.code, r.stderr)
			}
		})
	}
	if l, _ := os.ReadDir(dir); len(l) != 0 {
		t.Errorf("left-over files: %v", l)
	}
}

// Recordings in testdata, in all forms that perf and gperf give them, hold five drops;
// perf finds them at the same times. (6.1 does not read 7.3's attrs.)
func TestRecordingsInAllForms(t *testing.T) {
	o, err := findOracle()
	if err != nil {
		t.Log(err)
	}
	for _, name := range []string{"drops.data", "drops.z.data", "drops.pipe.data", "drops.perf.data",
		"drops.perf.z.data", "drops.perf.pipe.data", "drops.perf.dir"} {
		file := filepath.Join(root, "testdata", name)
		args := []string{"script", "-f", "-G", "-F", "comm,tid,time,event,ip", "--ns", "-i", file}
		got, _ := gperf(t, args...)
		if n := strings.Count(got, " skb:kfree_skb: "); n != 5 || strings.Count(got, "drops") < 5 {
			t.Errorf("%s: %d drops:\n%s", name, n, got)
		}
		if o == nil || o.compat == "6.1" && strings.Contains(name, ".perf.") {
			continue
		}
		want, err := o.run(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		if at := regexp.MustCompile(`\d+\.\d{9}`); !slices.Equal(at.FindAllString(got, -1),
			at.FindAllString(want, -1)) {
			t.Errorf("%s: perf finds\n%s\ngperf\n%s", name, want, got)
		}
	}
}

// -z is followed by a level, or not, among other letters too; flags are negated by no-;
// arguments of the command stay as they are.
func TestRewriteArgs(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"-z", "-z"},
		{"-z3", "-z=3"},
		{"-az22 -e x", "-az=22 -e x"},
		{"-za", "-za"},
		{"-e z3 -z3 ls -z3", "-e z3 -z=3 ls -z3"},
		{"-o z3 --count 3 -z1 -- -z2", "-o z3 --count 3 -z=1 -- -z2"},
		{"-F99 -oz3 -gz9", "-F99 -oz3 -gz=9"},
		{"--event=a -z4", "--event=a -z=4"},
		{"--eve a -z4", "--eve a -z=4"},
		{"--call-graph -z4", "--call-graph -z4"},
		{"-Iax,sp", "-I=ax,sp"},
		{"-aI?", "-aI=?"},
		{"-I -z4", "-I -z=4"},
		{"-I=ax", "-I=ax"},
		{"--no-data-mmap -z4", "--data-mmap=false -z=4"},
		{"--no-no-buildid --inherit", "--no-buildid=false --no-inherit=false"},
		{"--no-inherit --no-such ls --no-data", "--no-inherit --no-such ls --no-data"},
		{"--snap 64 -z4", "--snap 64 -z=4"},
		{"--snap ls -z4", "--snap=96 ls -z4"},
		{"--snap", "--snap=96"},
		{"-", "-"},
		{"-F 99 --no-freq -e x", "-e x"},
		{"-gF 99 -e x --no-fre", "-g -e x"},
		{"--call-graph fp --no-call-graph", "--call-graph fp --call-graph=no"},
		{"-z3 --switch-output --no-switch-output --no-compression-level", ""},
		{"--filter a --no-filter --filter b -- --no-filter", "--filter b -- --no-filter"},
	} {
		t.Run(c.in, func(t *testing.T) {
			record := find(newRoot(io.Discard, io.Discard), "record")
			if got := strings.Join(cli.Rewrite(record, strings.Fields(c.in)), " "); got != c.want {
				t.Errorf("%s: %s instead of %s", c.in, got, c.want)
			}
		})
	}
}

// TestRecordNoIdle: the kernel samples no idle task, and reports leave out the recorded samples of CPUs
// without work.
func TestRecordNoIdle(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	none, all := filepath.Join(dir, "none.data"), filepath.Join(dir, "all.data")
	mustRecord(t, dir, "-e", "cpu-clock", "-F", "999", "-a", "--no-idle", "-o", none, "--", "sleep", "0.5")
	if out := mustGperf(t, "script", "-i", none); strings.Contains(out, "swapper ") {
		t.Errorf("samples of idle tasks:\n%.500s", out)
	}
	mustRecord(t, dir, "-e", "cpu-clock", "-F", "999", "-a", "-o", all, "--", "sleep", "0.5")
	if out := mustGperf(t, "script", "--no-idle", "-i", all); strings.Contains(out, "safe_halt") {
		t.Errorf("script --no-idle: samples of idle CPUs:\n%.500s", out)
	}
}

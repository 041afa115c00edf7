package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gperf/format"
)

// stayer is a running gperf record --continuous.
type stayer struct {
	t    *testing.T
	cmd  *exec.Cmd
	dir  string // of the files
	errs bytes.Buffer
}

// startContinuous starts gperf record --continuous with a file of flags.
func startContinuous(t *testing.T, dir, config string) *stayer {
	t.Helper()
	s := &stayer{t: t, dir: dir}
	s.cmd = exec.Command(binary(t, "./cmd/gperf"), "record", "--continuous", "--config", config, "-o", dir)
	s.cmd.Stderr = &s.errs
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait() })
	return s
}

// files returns the files, the oldest first.
func (s *stayer) files() []string {
	files, _ := filepath.Glob(filepath.Join(s.dir, "*.data"))
	times := map[string]time.Time{}
	for _, f := range files {
		if st, err := os.Stat(f); err == nil {
			times[f] = st.ModTime()
		}
	}
	slices.SortFunc(files, func(a, b string) int { return times[a].Compare(times[b]) })
	return files
}

// await waits until there are n more files than the given ones, and returns all.
func (s *stayer) await(old []string, n int) []string {
	s.t.Helper()
	for end := time.Now().Add(patience(20 * time.Second)); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if files := s.files(); len(files) >= len(old)+n {
			return files
		}
	}
	s.t.Fatalf("%d files, want %d more than %d", len(s.files()), n, len(old))
	return nil
}

// awaitFrequency waits until the newest file has an event with a frequency, and returns all files.
func (s *stayer) awaitFrequency(hz uint64) []string {
	s.t.Helper()
	for end := time.Now().Add(patience(20 * time.Second)); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		files := s.files()
		data, err := os.ReadFile(files[len(files)-1])
		if err != nil {
			s.t.Fatal(err)
		}
		f, err := format.Open(bytes.NewReader(data), int64(len(data)))
		if err != nil { // it has just begun
			continue
		}
		if slices.ContainsFunc(f.Attrs, func(a format.Attr) bool { return a.SamplePeriod == hz }) {
			return files
		}
	}
	s.t.Fatalf("no file of %d Hz", hz)
	return nil
}

// end sends a signal, and returns the messages of the command after it has ended.
func (s *stayer) end(sig syscall.Signal) (stderr string, err error) {
	s.cmd.Process.Signal(sig)
	err = s.cmd.Wait()
	return s.errs.String(), err
}

// taskText returns the side band of a recording as a reader prints it.
func taskText(t *testing.T, program, file string) string {
	t.Helper()
	out, err := exec.Command(program, "script", "-i", file, "--show-task-events", "--show-mmap-events").Output()
	if err != nil {
		t.Errorf("%s script -i %s: %v", program, filepath.Base(file), err)
	}
	return string(out)
}

// A recorder that stays writes files that each describe all processes, reads its configuration again, and leaves a
// readable file when it is killed.
func TestScenarioContinuous(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	out, config := filepath.Join(dir, "out"), filepath.Join(dir, "conf")
	configure := func(flags string) {
		if err := os.WriteFile(config, []byte(flags+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sleeper := func(name string) {
		t.Helper()
		cmd := exec.Command(named(t, "sleep", name), "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}
	sleeper("before")
	configure("--file-time 1s # short minutes\n--max-cpu 100%")
	s := startContinuous(t, out, config)
	s.await(nil, 1)
	sleeper("during")
	files := s.await(nil, 4)
	whole := files[2] // finished, and begun after both programs
	for _, program := range []string{binary(t, "./cmd/gperf"), "perf"} {
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		text := taskText(t, program, whole)
		for _, name := range []string{"before", "during"} {
			_, after, ok := strings.Cut(text, "PERF_RECORD_COMM: "+name+":")
			maps, _, _ := strings.Cut(after, "PERF_RECORD_COMM")
			if !ok || !strings.Contains(maps, "libc.so") {
				t.Errorf("%s: the third file does not describe %q with its mappings", filepath.Base(program), name)
			}
		}
	}
	host, _ := os.Hostname()
	if name := filepath.Base(whole); !strings.HasPrefix(name, host+"-20") || !strings.HasSuffix(name, "Z.data") {
		t.Errorf("the name of the file is %s", name)
	}
	c := read(t, whole)
	if clock, drops := &c.Attrs[0], &c.Attrs[1]; !c.Complete || clock.SamplePeriod != 19 ||
		drops.Name != "skb:kfree_skb" || drops.SamplePeriod != 1 {
		t.Errorf("complete %v, events %+v", c.Complete, c.Attrs)
	}

	configure("--file-time 1s --max-cpu 100% -F 49 -e sched:sched_process_exec")
	s.cmd.Process.Signal(syscall.SIGHUP)
	files = s.awaitFrequency(49)
	s.await(files, 1)
	if c := read(t, files[len(files)-1]); c.Attrs[0].Name != "sched:sched_process_exec" || len(c.Attrs) != 4 {
		t.Errorf("after SIGHUP: events %+v", c.Attrs)
	}
	configure("--no-such-flag")
	s.cmd.Process.Signal(syscall.SIGHUP)
	s.await(files, 2)
	// The file in which gperf is killed is not to end before.
	configure("--file-time 1h --max-cpu 100% -F 47 -e sched:sched_process_exec")
	s.cmd.Process.Signal(syscall.SIGHUP)
	s.awaitFrequency(47)

	// Programs named by numbers start until gperf is killed.
	last, at := 0, time.Time{}
	for range patience(15) {
		last++
		if err := exec.Command(named(t, "true", fmt.Sprintf("mark-%d", last))).Run(); err != nil {
			t.Fatal(err)
		}
		at = time.Now()
		time.Sleep(100 * time.Millisecond)
	}
	stderr, _ := s.end(syscall.SIGKILL)
	if where := "Recording into " + out + ": a file each 1s, at most "; !strings.Contains(stderr, where) {
		t.Errorf("no %q in\n%s", where, stderr)
	}
	if !strings.Contains(stderr, "recording with the previous flags: "+config+": ") ||
		!strings.Contains(stderr, "no-such-flag") {
		t.Errorf("after a wrong file of flags:\n%s", stderr)
	}
	files = s.files()
	killed := files[len(files)-1]
	if read(t, killed).Complete {
		t.Errorf("%s is complete: gperf push would send it", filepath.Base(killed))
	}
	for _, program := range []string{binary(t, "./cmd/gperf"), "perf"} {
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		text := taskText(t, program, killed)
		mark := 0
		if i := strings.LastIndex(text, ": mark-"); i >= 0 {
			fmt.Sscanf(text[i:], ": mark-%d:", &mark)
		}
		if lost := last - mark; lost > 9 || mark == 0 { // of a second, and the one that runs
			t.Errorf("%s reads up to mark %d of %d at %v", filepath.Base(program), mark, last, at)
		}
	}

	store := filepath.Join(dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	configure("--file-time 1s --max-cpu 100% --push file:" + store)
	again := startContinuous(t, out, config)
	files = again.await(files, 2)
	second := startContinuous(t, out, "/dev/null")
	if err := second.cmd.Wait(); err == nil || !strings.Contains(second.errs.String(), "another gperf records into") {
		t.Errorf("a second recorder of the same directory: %v\n%s", err, second.errs.String())
	}
	pushed := func() []string {
		archives, _ := filepath.Glob(filepath.Join(store, host, "*.zip"))
		return archives
	}
	for end := time.Now().Add(patience(2 * time.Minute)); len(pushed()) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Error("gperf push sends nothing")
			break
		}
	}
	if stderr, err := again.end(syscall.SIGINT); err != nil || !strings.Contains(stderr, " MB "+out+" (") {
		t.Errorf("after Ctrl-C: %v, or no summary\n%s", err, stderr)
	}
	if c := read(t, files[len(files)-1]); !c.Complete {
		t.Error("the last file is not complete")
	}
}

// Wrong use of the flags of a recorder that stays.
func TestContinuousFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--max-total 1G", "--max-total without --continuous"},
		{"--continuous -p 1", "--pid is not possible"},
		{"--continuous --switch-output=1m", "--switch-output is not possible"},
		{"--continuous -o -", "-o - is not possible"},
		{"--continuous --max-total 1M", "use 8M or more"},
		{"--continuous --max-cpu 1", "use 1%"},
		{"--continuous --file-time 10M", "--file-time 10M: invalid interval"},
		{"--continuous -- true", "and no command"},
	} {
		cmd := exec.Command(binary(t, "./cmd/gperf"), append([]string{"record"}, strings.Fields(c.args)...)...)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) || cmd.ProcessState.ExitCode() != exitUsage {
			t.Errorf("%s: %v\n%s", c.args, err, out)
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// recordWithin runs gperf record, kills it when it does not end in time, and returns its PID.
func recordWithin(t *testing.T, limit time.Duration, args ...string) (pid int) {
	t.Helper()
	var errs strings.Builder
	cmd := exec.Command(binary(t, "./cmd/gperf"), append([]string{"record"}, args...)...)
	cmd.Stderr = &errs
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !killer.Stop() {
		t.Fatalf("gperf record %s did not end within %v\n%s", strings.Join(args, " "), limit, errs.String())
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("gperf record %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return cmd.Process.Pid
}

// Events that the recorder itself causes while it drains must not keep it draining.
func TestScenarioOwnDrainEnds(t *testing.T) {
	needTracepoints(t)
	for _, events := range []string{"raw_syscalls:sys_enter", "kmem:kmalloc", "kmem:*", "raw_syscalls:*",
		"mmap_lock:*", "sched:*"} {
		for _, more := range [][]string{nil, {"--exclude-perf"}} {
			args := append([]string{"-e", events}, more...)
			t.Run(strings.Join(args[1:], " "), func(t *testing.T) {
				dir := strings.ReplaceAll(strings.TrimSuffix(events, "*"), ":", "/")
				if !exists("/sys/kernel/tracing/events/" + dir) {
					t.Skip("this kernel does not have the tracepoint")
				}
				file := filepath.Join(t.TempDir(), "perf.data")
				args := append(args, "-a", "-g", "-o", file, "--", "sleep", "0.5")
				pid := recordWithin(t, patience(30*time.Second), args...)
				c := read(t, file)
				if c.total == 0 {
					t.Error("no samples")
				}
				own := fmt.Sprintf("gperf:%d", pid) // not those of other tests
				for who := range c.samples {
					if who.comm == own && len(more) > 0 {
						t.Errorf("--exclude-perf leaves samples of gperf: %v", who)
					}
				}
			})
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// startRecording starts gperf record and waits until it wrote something.
func startRecording(t *testing.T, file string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary(t, "./cmd/gperf"), append([]string{"record", "-o", file}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); cmd.Wait() })
	for end := time.Now().Add(patience(20 * time.Second)); ; time.Sleep(20 * time.Millisecond) {
		if st, err := os.Stat(file); err == nil && st.Size() > 1<<16 {
			return cmd
		}
		if time.Now().After(end) {
			t.Fatalf("%s: nothing recorded", cmd)
		}
	}
}

// endsWithin waits for a process and returns whether it ended in time.
func endsWithin(cmd *exec.Cmd, limit time.Duration) bool {
	ended := make(chan bool, 1)
	go func() { cmd.Wait(); ended <- true }()
	select {
	case <-ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// A second Ctrl-C ends gperf whatever it waits for, here for a command that does
// not want to end, and the file can be read.
func TestScenarioSecondInterrupt(t *testing.T) {
	needTracepoints(t)
	for _, events := range []string{"sched:*", "raw_syscalls:sys_enter"} {
		for _, more := range [][]string{{"-g"}, {"-z"}} {
			t.Run(events+more[0], func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "perf.data")
				cmd := startRecording(t, file, append(more, "-a", "-e", events, "--", "sh", "-c",
					`trap "" TERM; while :; do sleep 0.01; done`)...)
				cmd.Process.Signal(os.Interrupt)
				time.Sleep(patience(time.Second))
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatalf("gperf has not waited for its command: %v", err)
				}
				if !endsWithin(cmd, patience(time.Second)) {
					t.Error("gperf goes on after the second interrupt")
				}
				if c := read(t, file); c.total == 0 {
					t.Error("no samples in the file")
				}
			})
		}
	}
}

// A recording into a pipe that nobody reads blocks in its write; the second
// Ctrl-C ends it all the same, at once: another process closes the tracepoints.
func TestScenarioSecondInterruptUnreadPipe(t *testing.T) {
	needTracepoints(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	events := "sched:*,net:*,skb:*,sock:*,tcp:*,signal:*,timer:*"
	cmd := exec.Command(binary(t, "./cmd/gperf"), "record", "-q", "-a", "-e", events, "-o", "-")
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for end := time.Now().Add(patience(20 * time.Second)); !isFull(t, r); {
		if time.Now().After(end) {
			t.Fatal("the pipe is never full")
		}
	}
	cmd.Process.Signal(os.Interrupt)
	time.Sleep(300 * time.Millisecond)
	cmd.Process.Signal(os.Interrupt)
	if !endsWithin(cmd, patience(2*time.Second)) {
		t.Error("gperf goes on after the second interrupt")
	}
}

// isFull reports whether a pipe holds data, but gets no more for a while: the writer waits for room.
func isFull(t *testing.T, r *os.File) bool {
	t.Helper()
	pending := func() int {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := pending()
	time.Sleep(patience(100 * time.Millisecond))
	return before > 32<<10 && pending() == before
}

// The process that closes tracepoints after gperf's end must end as well, and must not
// hold files that gperf got from its caller, such as a lock.
func TestScenarioClosingInBackground(t *testing.T) {
	needTracepoints(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(binary(t, "./cmd/gperf"), "record", "-a", "-g", "-e", "sched:*", "-o",
		filepath.Join(t.TempDir(), "perf.data"), "--", "true")
	cmd.ExtraFiles = []*os.File{w} // inherited, as the lock of flock(1) is
	out, err := cmd.CombinedOutput()
	w.Close()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r.SetReadDeadline(time.Now().Add(patience(2 * time.Second)))
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a pipe that gperf inherited is open when it has ended: %v", err)
	}
	closer := "gperf-close\x00" + strconv.Itoa(cmd.Process.Pid)
	for end := time.Now().Add(patience(30 * time.Second)); closers(t, closer) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a process that closes tracepoints does not end")
		}
	}
}

// closers is how many processes with these arguments exist.
func closers(t *testing.T, args string) (n int) {
	comms, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range comms {
		if b, _ := os.ReadFile(file); strings.HasPrefix(string(b), args) {
			n++
		}
	}
	return n
}

// A recording whose file is deleted while it runs is there in the end, or gperf fails.
func TestScenarioOutputDeleted(t *testing.T) {
	needEvents(t)
	for _, c := range []struct {
		name, meanwhile string
		args            []string
		code            int
		want            string // on stderr
		samples         bool
	}{
		{"deleted", "rm $F", nil, exitOK, "was deleted during the recording: written again", true},
		{"deleted, compressed", "rm $F", []string{"-z"}, exitOK, "was deleted during the recording: written again", true},
		{"replaced", "rm $F; echo x > $F", nil, exitError, "is another file now", false},
		{"renamed", "mv $F $F.old", nil, exitOK, "was renamed while it ran", false},
		{"with its folder", "rm -r $(dirname $F)", nil, exitError, "cannot be written again", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "perf.data")
			script := "F=" + file + "; " + c.meanwhile + "; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"
			r := recordIn(t, "", append(c.args, "-o", file, "-e", "cpu-clock:u", "--", "sh", "-c", script)...)
			if r.code != c.code || !strings.Contains(r.stderr, c.want) {
				t.Errorf("exit code %d\n%s", r.code, r.stderr)
			}
			if c.samples && read(t, file).total == 0 {
				t.Error("no samples in the file")
			}
		})
	}
}

// memoryGroup makes a cgroup that allows this many bytes of memory, and returns the file that processes enter it by.
func memoryGroup(t *testing.T, limit int) string {
	t.Helper()
	dir, file := "/sys/fs/cgroup", "memory.max"
	if exists(filepath.Join(dir, "memory")) { // version 1
		dir, file = filepath.Join(dir, "memory"), "memory.limit_in_bytes"
	}
	dir = filepath.Join(dir, fmt.Sprintf("gperf-memory-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	if err := os.WriteFile(filepath.Join(dir, file), fmt.Append(nil, limit), 0); err != nil {
		t.Skipf("memory of cgroups cannot be limited: %v", err)
	}
	return filepath.Join(dir, "cgroup.procs")
}

// Where the kernel would end the recorder for want of memory, it records frame pointers, and says so.
func TestScenarioSmallMemory(t *testing.T) {
	needTracepoints(t)
	group := memoryGroup(t, 64<<20)
	dir := t.TempDir()
	script := `echo $$ > "$2" && cd "$1" && exec "$0" record -o perf.data -a -g -- sleep 0.5`
	out, err := exec.Command("sh", "-c", script, binary(t, "./cmd/gperf"), dir, group).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if said := string(out); !strings.Contains(said, "allows 64 MB of memory") ||
		!strings.Contains(said, "recording frame pointers instead") || !strings.Contains(said, "memory.max") {
		t.Errorf("it says:\n%s", said)
	}
	if c := read(t, filepath.Join(dir, "perf.data")); c.total == 0 {
		t.Error("no samples")
	}
}

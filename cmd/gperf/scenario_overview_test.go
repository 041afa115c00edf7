package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/report/overview"
)

// TestScenarioOverviewAlone: what planted programs do is in the overview, the screen fits, and each command shows more.
func TestScenarioOverviewAlone(t *testing.T) {
	needOffCPU(t)
	dir, self := t.TempDir(), binary(t, "./cmd/gperf")
	waits := waiterProgram.Path(t)
	t.Chdir(dir)
	const file = "seen.data"
	planted := []*exec.Cmd{
		exec.Command("sh", "-c", "while :; do :; done"),
		exec.Command(waits, "60000", dir),                                                    // among others, threads that wait for a lock
		exec.Command("sh", "-c", "while sleep 0.02; do echo x >/dev/full; done 2>/dev/null"), // ENOSPC, and programs
		exec.Command("bash", "-c", fmt.Sprintf("while sleep 0.02; do echo x >/dev/udp/127.0.0.1/%d; done 2>/dev/null",
			closedPort(t))), // NO_SOCKET
		exec.Command("sh", "-c", "while sleep 0.02; do stat -c %a /none /none/none /not /no /none/1 /none/2 /none/3; done 2>/dev/null"),
	}
	yes := exec.Command("yes") // waits in write until the pipe is read
	pipe, err := yes.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for n := int64(1); n > 0; time.Sleep(20 * time.Millisecond) {
			n, _ = io.CopyN(io.Discard, pipe, 1<<16)
		}
	}()
	for _, c := range append(planted, yes) {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			c.Process.Kill()
			c.Wait()
		}()
	}
	out, err := exec.Command(self, "overview", "-d", strconv.Itoa(patience(3)), "-o", file, "--format", "json").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, err.(*exec.ExitError).Stderr)
	}
	var seen overview.Overview
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	has := func(section string, is func(overview.Item) bool) {
		t.Helper()
		for _, s := range seen.Sections {
			if s.Name == section && slices.ContainsFunc(s.Items, is) {
				return
			}
		}
		t.Errorf("%s lacks an item: %s", section, out)
	}
	has("CPU", func(i overview.Item) bool { return i.Who == "sh" })
	has("waits", func(i overview.Item) bool { return i.What == "lock" && i.Who == "waiter" })
	has("failing", func(i overview.Item) bool { return i.Who == "stat" && strings.HasSuffix(i.What, ": ENOENT") })
	has("syscalls", func(i overview.Item) bool { return i.Who == "yes" && strings.HasPrefix(i.What, "write, ") })
	has("errors", func(i overview.Item) bool { return i.Who == "sh" && i.What == "write: ENOSPC" })
	has("programs", func(i overview.Item) bool { return i.Who == "sleep" || i.Who == "stat" })
	has("drops", func(i overview.Item) bool { return i.Who == "NO_SOCKET" && strings.Contains(i.What, ">") })
	for _, s := range seen.Sections {
		for _, i := range s.Items {
			var stdout, stderr outputText
			args := append(slices.Clone(i.More), "-i", file)
			code := run(args, &stdout, &stderr)
			if rows := withoutComments(stdout.String()); code != exitOK || rows == "" {
				t.Errorf("gperf %q shows nothing, exit code %d: %s", args, code, stderr.String())
			}
		}
	}
	text, _ := gperf(t, "overview", "-i", file)
	if !strings.Contains(text, "NO_SOCKET") || !strings.Contains(text, "gperf report -i "+file+" --kind lock ") {
		t.Errorf("the text lacks lines:\n%s", text)
	}
	if first := seen.Item(1); seen.Item(0) != nil || seen.Item(10000) != nil || first == nil {
		t.Errorf("item 1 is %v", first)
	} else {
		want, _ := gperf(t, append(slices.Clone(first.More), "-i", file)...)
		if got, _ := gperf(t, "overview", "-i", file, "--more", "1"); got != want {
			t.Errorf("--more 1 shows\n%s\ninstead of\n%s", got, want)
		}
	}
	screen := seen.Text(overview.Screen{Width: 80, Height: 24})
	for line := range strings.Lines(screen) {
		if len([]rune(line)) > 81 {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
	if n := strings.Count(screen, "\n"); n > 23 {
		t.Errorf("%d lines:\n%s", n, screen)
	}
	t.Logf("%s", screen)
}

// TestScenarioOverviewStatesAlone: what is wrong with a machine is on the first screen of the overview.
func TestScenarioOverviewStatesAlone(t *testing.T) {
	needOffCPU(t)
	for _, c := range []struct {
		name string
		load func(t *testing.T) (*exec.Cmd, string) // and a line of the screen, as an expression
	}{
		{"build", func(t *testing.T) (*exec.Cmd, string) {
			needPrograms(t, "gcc")
			return exec.Command("sh", "-c", `while :; do echo "#include <stdio.h>
				int main(void) { return 0; }" | gcc -x c -O2 -o /dev/null -; done`),
				`^programs +[0-9]+ \S+ +started; [0-9]+ times \S+`
		}},
		{"busy web server", func(t *testing.T) (*exec.Cmd, string) {
			needPrograms(t, "python3")
			return exec.Command("python3", "testdata/renders.py"), `^CPU +[0-9.]+ % python3 +render `
		}},
		{"packet loss", func(t *testing.T) (*exec.Cmd, string) {
			needPrograms(t, "python3")
			return exec.Command("python3", "testdata/deaf.py"), `^drops +[0-9.]+( k)? (SOCKET_RCVBUFF|0x\S+) `
		}},
		{"full disk", func(t *testing.T) (*exec.Cmd, string) {
			dir := t.TempDir()
			if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
				t.Skipf("no small file system: %v", err)
			}
			t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
			return exec.Command("sh", "-c", "cd "+dir+
					"; while sleep 0.02; do dd if=/dev/zero of=log bs=4k count=100 2>/dev/null; done"),
				`^errors +[0-9]+ dd +write: ENOSPC`
		}},
		{"memory pressure", func(t *testing.T) (*exec.Cmd, string) {
			group, file := memoryGroup(t, 24<<20), filepath.Join(t.TempDir(), "table")
			return exec.Command("sh", "-c", fmt.Sprintf("echo $$ >%s; dd if=/dev/zero of=%s bs=1M count=64 2>/dev/null; "+
					"while :; do cat %[2]s >/dev/null; done", group, file)),
				`^memory +[0-9.]+ [mu]?s cat +cgroup is full`
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			load, want := c.load(t)
			load.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := load.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				syscall.Kill(-load.Process.Pid, syscall.SIGKILL)
				load.Wait()
			})
			out, err := exec.Command(binary(t, "./cmd/gperf"), "overview", "-d", strconv.Itoa(patience(3)), "-o",
				filepath.Join(dir, "perf.data"), "--format", "json").Output()
			if err != nil {
				t.Fatal(err)
			}
			var seen overview.Overview
			if err := json.Unmarshal(out, &seen); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			screen := seen.Text(overview.Screen{Width: 80, Height: 24})
			if !regexp.MustCompile(`(?m)` + want).MatchString(screen) {
				t.Errorf("the screen lacks %q:\n%s", want, screen)
			}
		})
	}
}

// withoutComments returns the lines that are neither empty nor comments.
func withoutComments(text string) string {
	var b bytes.Buffer
	for line := range strings.Lines(text) {
		if line != "\n" && !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestRecordEveryNth: -c N takes every Nth occurrence of a tracepoint, and each sample counts as N.
func TestRecordEveryNth(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	for _, args := range [][]string{{"-c", "10", "-e", "raw_syscalls:sys_enter"},
		{"-e", "raw_syscalls:sys_enter/period=10/"}} {
		mustRecord(t, dir, append(args, "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=2000")...)
		out, _ := gperf(t, "script", "-i", filepath.Join(dir, "perf.data"), "-F", "event,period")
		if n := strings.Count(out, "\n"); n < 400 || n > 450 || strings.Count(out, " 10 raw_syscalls:sys_enter:") != n {
			t.Errorf("%v: %d samples of at least 4,000 calls, or not with a period of 10:\n%.300s", args, n, out)
		}
	}
}

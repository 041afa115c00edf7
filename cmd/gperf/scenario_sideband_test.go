package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process that began while the rings were full gets a name all the same: the recorder
// reads /proc again after side band was lost.
func TestScenarioLostSideBand(t *testing.T) {
	needTracepoints(t)
	for _, test := range []struct {
		name string
		args []string
	}{
		{"without stacks", nil},
		{"stacks", []string{"--call-graph", "dwarf"}},
		{"pipe", []string{"-o", "-"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "perf.data")
			out, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			var errs bytes.Buffer
			args := append([]string{"record", "-a", "-m", "4", "-e", "cpu-clock", "-F", "999", "-o", file},
				test.args...)
			cmd := exec.Command(binary(t, "./cmd/gperf"), args...)
			cmd.Stdout, cmd.Stderr = out, &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
			burning := func(name string) int {
				p := exec.Command(named(t, "sh", name), "-c", "while :; do :; done")
				if err := p.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { p.Process.Kill(); p.Wait() })
				return p.Process.Pid
			}
			waitNamed(t, file, burning("before"))
			cmd.Process.Signal(syscall.SIGSTOP)
			start := "for i in $(seq 60); do taskset -c 0 true; done; [ -e /sys/devices/system/cpu/cpu1 ] && for i " +
				"in $(seq 60); do taskset -c 1 true; done; :"
			if out, err := exec.Command("sh", "-c", start).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			pid := burning("meanwhile")
			for exec.Command("grep", "-q", "meanwhile", fmt.Sprintf("/proc/%d/comm", pid)).Run() != nil {
				time.Sleep(time.Millisecond)
			}
			cmd.Process.Signal(syscall.SIGCONT)
			waitNamed(t, file, pid)
			cmd.Process.Signal(syscall.SIGINT)
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v\n%s", err, errs.String())
			}
			if !strings.Contains(errs.String(), "other records (mappings, names of processes)") {
				t.Skip("nothing was lost")
			}
			if names, all := namedSamples(file, pid); names*10 < all*9 {
				t.Errorf("%d of %d samples have names\n%s", names, all, errs.String())
			}
		})
	}
}

// Side band goes on while the events are disabled: samples of a program that started meanwhile have names.
func TestScenarioDisabledSideBand(t *testing.T) {
	needEvents(t)
	const (
		execs = `echo $$ >part; mv part pid; exec "$0" -c "while :; do :; done"`
		forks = `while :; do :; done & echo $! >part; mv part pid; wait`
	)
	for _, test := range []struct {
		name    string
		args    []string
		does    string // while the events are disabled
		disable bool   // by a command, in place of -D
		command bool   // gperf starts the program
	}{
		{"process, -D", []string{"-D", "-1"}, forks, false, false},
		{"process, disable", nil, execs, true, false},
		{"process, disable, stacks", []string{"--call-graph", "dwarf"}, execs, true, false},
		{"command, disable", nil, execs, true, true},
		{"all CPUs, disable", []string{"-a"}, execs, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mkfifo(filepath.Join(dir, "go"), 0o600); err != nil {
				t.Fatal(err)
			}
			program := []string{"sh", "-c", ">ready; read go <go; " + test.does, named(t, "sh", "later")}
			control, extra, commands, acks := controls[0].open(t, dir)
			args := slices.Concat([]string{"--control", control, "-e", "cpu-clock:u", "-F", "999"}, test.args)
			if test.command {
				args = slices.Concat(args, []string{"--"}, program)
			} else {
				own := exec.Command(program[0], program[1:]...)
				own.Dir, own.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
				if err := own.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { syscall.Kill(-own.Process.Pid, syscall.SIGKILL); own.Wait() })
				if !slices.Contains(args, "-a") {
					args = append(args, "-p", strconv.Itoa(own.Process.Pid))
				}
			}
			r := startRecord(t, dir, extra, args...)
			wait := func(what string, done func() bool) {
				t.Helper()
				for end := time.Now().Add(patience(10 * time.Second)); !done(); time.Sleep(10 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("%s\n%s", what, r.errs)
					}
				}
			}
			read := func(path string) string {
				b, _ := os.ReadFile(path)
				return strings.TrimSpace(string(b))
			}
			send := commandSender(t, commands, acks)
			wait("the program does not start", func() bool { return exists(filepath.Join(dir, "ready")) })
			if send("ping"); test.disable {
				send("disable")
			}
			if err := os.WriteFile(filepath.Join(dir, "go"), []byte("go\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			wait("the program starts no process", func() bool { return exists(filepath.Join(dir, "pid")) })
			pid, _ := strconv.Atoi(read(filepath.Join(dir, "pid")))
			wait("the program does not call exec", func() bool {
				return test.does == forks || read(fmt.Sprintf("/proc/%d/comm", pid)) == "later"
			})
			send("enable")
			file := filepath.Join(dir, "perf.data")
			waitNamed(t, file, pid)
			send("stop")
			if err := r.Wait(); err != nil && !test.command { // gperf ends the command
				t.Errorf("%v\n%s", err, r.errs)
			}
			if names, all := namedSamples(file, pid); names < all {
				t.Errorf("%d of %d samples have names\n%s", names, all, r.errs)
			}
		})
	}
}

// waitNamed waits until a process yields many samples with names.
func waitNamed(t *testing.T, file string, pid int) {
	t.Helper()
	names, all := 0, 0
	for end := time.Now().Add(patience(10 * time.Second)); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if names, all = namedSamples(file, pid); names >= 100 {
			return
		}
	}
	t.Fatalf("%d of %d samples of process %d have names", names, all, pid)
}

// namedSamples counts a process's samples in user space with the name of the thread
// and of the file, and all since the first of them: before, gperf still needed to read the names again.
func namedSamples(file string, pid int) (names, all int) {
	var out, errs bytes.Buffer
	run([]string{"script", "-i", file, "-G", "-F", "comm,pid,ip,dso"}, &out, &errs)
	for line := range strings.Lines(out.String()) {
		f := strings.Fields(line)
		if len(f) < 4 || f[1] != fmt.Sprint(pid) || strings.HasSuffix(line, "([kernel.kallsyms])\n") {
			continue
		}
		if !strings.HasPrefix(f[0], ":") && !strings.Contains(line, "[unknown]") {
			names++
		}
		if names > 0 {
			all++
		}
	}
	return names, all
}

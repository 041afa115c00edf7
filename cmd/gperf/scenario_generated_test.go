package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gperf/internal/testutil/programs"
)

var generatesProgram = programs.C("testdata/generates.c", "-O2")

// TestScenarioGeneratedElsewhere records programs in mount and PID namespaces of their own, which are gone when the
// recording is read: the generated functions get names from the copies of perf maps and jitdumps that
// the recorder keeps, in archives, too, and only in this recording.
func TestScenarioGeneratedElsewhere(t *testing.T) {
	needPrograms(t, "unshare", "mount")
	needArchives(t)
	const inside = `mount -t tmpfs none /mnt; cp "$0" /mnt/server; mount -t tmpfs none /tmp; exec /mnt/server "$1" "$2"`
	for _, c := range []struct {
		name, form string
		flags      []string
		alive      bool // until the recording ends
		kept       bool
	}{
		{"perf map", "map", []string{"-g"}, false, true},
		{"jitdump", "dump", []string{"-g", "-k", "monotonic"}, false, true},
		{"perf map without stacks", "map", nil, true, true},
		{"jitdump without stacks", "dump", nil, true, true},
		{"-N", "map", []string{"-g", "-N"}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			dir := t.TempDir()
			run := []string{"unshare", "-m", "-p", "-f", "--kill-child", "sh", "-ec", inside,
				generatesProgram.Path(t), c.form}
			args := append([]string{"-F", "499"}, c.flags...)
			var end func()
			if c.alive {
				var pid int
				pid, end = startNamed(t, "server", append(run, "600000"))
				args = append(append(args, "-p", strconv.Itoa(pid), "--"), untilUsed(pid, 500)...)
			} else {
				args = append(append(append(args, "--"), run...), "1500")
			}
			r := mustRecord(t, dir, args...)
			if end != nil {
				end()
			}
			if strings.Contains(r.stderr, "Kept 1 perf map or jitdump") != c.kept {
				t.Errorf("record says:\n%s", r.stderr)
			}
			data := filepath.Join(dir, "perf.data")
			for _, command := range []string{"script", "report"} {
				if out := mustGperf(t, command, "-i", data); strings.Contains(out, "compiled") != c.kept {
					t.Errorf("%s prints:\n%.2000s", command, out)
				}
			}
			if !c.kept {
				return
			}
			packed := filepath.Join(dir, "packed")
			mustGperf(t, "archive", "-i", data, "-o", packed)
			t.Setenv("HOME", t.TempDir()) // without the kept copies
			if out := mustGperf(t, "report", "-i", packed); !strings.Contains(out, "compiled") {
				t.Errorf("report of the archive prints:\n%.2000s", out)
			}
			if out := mustGperf(t, "report", "-i", data); strings.Contains(out, "compiled") {
				t.Errorf("report without the copies prints:\n%.2000s", out)
			}
		})
	}
}

// startNamed starts a command that executes a program of this name, which it waits for, as a child, and returns the
// program's PID. end ends the command.
func startNamed(t *testing.T, name string, args []string) (pid int, end func()) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Cleanup(end)
	children := "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/task/" + strconv.Itoa(cmd.Process.Pid) + "/children"
	const pause = 10 * time.Millisecond
	for deadline := time.Now().Add(patience(time.Minute)); time.Now().Before(deadline); time.Sleep(pause) {
		list, _ := os.ReadFile(children)
		pid, err := strconv.Atoi(strings.TrimSpace(string(list)))
		if err != nil {
			continue
		}
		if comm, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm"); strings.TrimSpace(string(comm)) == name {
			return pid, end
		}
	}
	t.Fatalf("%v does not execute %s", args, name)
	return 0, nil
}

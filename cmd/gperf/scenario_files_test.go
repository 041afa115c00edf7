package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

// Programs that differ in the name and the place of a function. Only one has a build ID. In the last one, the function
// first is where the others have theirs.
var (
	insideProgram     = withFunction("inside", "-Wl,--build-id=none")
	identifiedProgram = withFunction("kept", "-Wl,--build-id")
	outsideProgram    = withFunction("outside", "-Wl,--build-id=none", "-DFIRST")
)

func withFunction(function string, flags ...string) *programs.Program {
	return programs.C("testdata/named.c", append(flags, "-O2", "-g", "-DNAME="+function)...)
}

// TestScenarioNoBuildID records a program without build ID in a container, with nothing or with another program at its
// path outside: gperf reads the recorded file, in reports, code and archives, or says why it does not.
func TestScenarioNoBuildID(t *testing.T) {
	needPrograms(t, "unshare", "mount")
	needArchives(t)
	for name, outside := range map[string]*programs.Program{"nothing outside": nil, "another outside": outsideProgram} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			app := filepath.Join(dir, "app")
			if err := os.Mkdir(app, 0o755); err != nil {
				t.Fatal(err)
			}
			if outside != nil {
				copyFile(t, outside.Path(t), filepath.Join(app, "server"))
			}
			pid, end := startContained(t, app, insideProgram.Path(t))
			mustRecord(t, dir, append([]string{"-N", "-g", "-F", "199", "-p", strconv.Itoa(pid), "--"},
				untilUsed(pid, 500)...)...) // and keeps no copy
			data := filepath.Join(dir, "perf.data")
			report := []string{"report", "--stdio", "-g", "none", "--no-children", "-i"}
			checkNamed := func(what, out string) {
				t.Helper()
				if !strings.Contains(out, "inside") || strings.Contains(out, "first") {
					t.Errorf("%s does not print the function inside:\n%s", what, out)
				}
			}
			checkNamed("report", mustGperf(t, append(report, data)...))
			checkNamed("annotate", mustGperf(t, "annotate", "--stdio", "-i", data))
			archive, _ := archived(t, dir)
			end()
			checkNamed("the archive", mustGperf(t, append(report, archive)...))
			r := runGperf(t, append(report, data)...)
			if strings.Contains(r.stdout, "first") {
				t.Errorf("report has names of another program:\n%s", r.stdout)
			}
			if outside != nil && !strings.Contains(r.stderr, "1 file without build ID") {
				t.Errorf("report does not say why it has no names:\n%s", r.stderr)
			}
			if out := mustGperf(t, append(report, data, "-f")...); outside != nil && !strings.Contains(out, "first") {
				t.Errorf("report -f does not use the program at the path:\n%s", out)
			}
		})
	}
}

const withoutID = "without build ID"

// TestScenarioKept records programs that are gone when the recording is read: one was built again, the container of the
// other has ended. Their names come from the copies that the recorder keeps in perf's build-ID cache, unless -N is set,
// also without a build ID.
func TestScenarioKept(t *testing.T) {
	needPrograms(t, "unshare", "mount")
	needArchives(t)
	const inContainer = `exec unshare -m sh -ec 'mount -t tmpfs none "${1%/*}"; cp "$0" "$1"; "$1" 300' "$0" "$1"`
	for _, c := range []struct {
		name, script string // for sh: $0 is the program, $1 a copy in a directory of its own
		flags        []string
		kept         bool
	}{
		{"built again", `"$1" 300`, []string{"-g"}, true},
		{"without stacks", `"$1" 300`, nil, true},
		{"by frame pointers", `"$1" 300`, []string{"--call-graph", "fp"}, true},
		{"in a container", inContainer, []string{"-g"}, true},
		{withoutID, `"$1" 300`, []string{"-g"}, true},
		{withoutID + ", without stacks", `"$1" 300`, nil, true},
		{withoutID + ", in a container", inContainer, []string{"-g"}, true},
		{"-N", `"$1" 300`, []string{"-g", "-N"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			dir := t.TempDir()
			program, function := identifiedProgram, "kept"
			if strings.HasPrefix(c.name, withoutID) {
				program, function = insideProgram, "inside"
			}
			path := filepath.Join(dir, "app", "server")
			if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			copyFile(t, program.Path(t), path)
			r := mustRecord(t, dir, append(append([]string{"-F", "199"}, c.flags...), "--", "sh", "-c", c.script,
				program.Path(t), path)...)
			if strings.Contains(r.stderr, "Kept a copy of 1 file") != c.kept {
				t.Errorf("record says:\n%s", r.stderr)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			copyFile(t, outsideProgram.Path(t), path)
			out := mustGperf(t, "report", "--stdio", "-g", "none", "--comm", "server",
				"-i", filepath.Join(dir, "perf.data"))
			if strings.Contains(out, function) != c.kept || strings.Contains(out, "first") {
				t.Errorf("report prints:\n%s", out)
			}
		})
	}
}

// startContained starts a copy of a program as server in a directory, where other processes do not see it, and returns
// its PID. end ends it.
func startContained(t *testing.T, dir, program string) (pid int, end func()) {
	t.Helper()
	cmd := exec.Command("unshare", "-m", "sh", "-ec",
		`mount -t tmpfs none "$0"; cp "$1" "$0/server"; echo $$; exec "$0/server"`, dir, program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Cleanup(end)
	line := bufio.NewScanner(out)
	if !line.Scan() {
		end()
		t.Skip("no mount namespace, or no tmpfs in it")
	}
	if pid, err = strconv.Atoi(line.Text()); err != nil {
		t.Fatal(err)
	}
	return pid, end
}

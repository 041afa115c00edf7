package record

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gperf/bpf"
	"gperf/internal/testutil/programs"
)

// testdata/hidden.c as programs and as a library.
var (
	hiddenProgram = buildHidden()
	hiddenStatic  = buildHidden("-static")
	hiddenLibrary = buildHidden("-shared", "-fPIC")
)

func buildHidden(flags ...string) *programs.Program {
	return programs.C("testdata/hidden.c", append(flags, "-O2", "-fomit-frame-pointer",
		"-fno-optimize-sibling-calls")...)
}

// withoutMapFiles is set for a run of the test without the right to open /proc/PID/map_files.
const withoutMapFiles = "GPERF_TEST_WITHOUT_MAP_FILES"

// TestHiddenFiles checks that stacks are complete if the mapped files have no path, or lead to
// another file by their path.
func TestHiddenFiles(t *testing.T) {
	least := uint64(98) // percent
	if os.Getenv("GPERF_SLOW") != "" {
		least = 94 // tables take longer to build there, and most samples come before
	}
	for _, c := range []struct {
		name    string
		program *programs.Program
		script  string // for sh: $0 is the program, $1 the library, in a directory of their own; $2 is an empty directory
		mounts  bool
	}{
		{name: "memfd", program: hiddenProgram, script: `exec $0 memfd`},
		{name: "deleted program", program: hiddenProgram, script: `exec $0 deleted`},
		{name: "deleted library", program: hiddenProgram, script: `exec $0 library $1`},
		{name: "replaced program", program: hiddenProgram, script: `exec $0 replaced`},
		{name: "other root", program: hiddenStatic, script: `exec chroot ${0%/*} /${0##*/} run`},
		{name: "other mount namespace", program: hiddenProgram, mounts: true,
			script: `exec unshare -m sh -c 'mount --bind ${0%/*} $1 && exec $1/${0##*/} run' $0 $2`},
	} {
		for _, noBuildIDs := range []bool{false, true} {
			if without := os.Getenv(withoutMapFiles) != ""; without != noBuildIDs && (without || testing.Short()) {
				continue // once is enough
			}
			name := c.name
			if noBuildIDs {
				name += ", by inode"
			}
			t.Run(name, func(t *testing.T) {
				if c.mounts && os.Getenv(withoutMapFiles) != "" {
					t.Skip("requires the right to mount")
				}
				dir := t.TempDir()
				library := copyTo(t, dir, hiddenLibrary.Path(t)+".so", hiddenLibrary.Path(t))
				program := copyTo(t, dir, c.program.Path(t), c.program.Path(t))
				sum, _ := recordDWARF(t, Options{Stacks: StackOptions{DWARF: true},
					SideBand: SideBandOptions{NoBuildIDMmap: noBuildIDs}},
					"sh", "-c", c.script, program, library, t.TempDir())
				// Until the tables are available, a copy of the stack may be lost; how long that takes depends on the
				// other load of the machine.
				u := sum.Unwind
				if u == nil || u.Missing > 0 {
					t.Fatalf("%d samples: %+v", sum.Samples, u)
				}
				walked := sum.Samples - u.None - u.Early[bpf.EndNoTable]
				if walked < 100 || u.Complete*100 < walked*least {
					t.Errorf("%d samples: %+v", sum.Samples, u)
				}
			})
		}
	}
}

// TestHiddenFilesInMemory is TestHiddenFiles without the right to open files through mappings:
// their unwind information is in the process's memory.
func TestHiddenFilesInMemory(t *testing.T) {
	if os.Getenv(withoutMapFiles) != "" {
		t.Skip("runs itself")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		t.Skipf("requires root and setpriv: %v", err)
	}
	cmd := exec.Command(setpriv, "--bounding-set", "-sys_admin,-checkpoint_restore", os.Args[0],
		"-test.run", "^TestHiddenFiles$")
	cmd.Env = append(os.Environ(), withoutMapFiles+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// copyTo copies the file from to the directory dir, under the last part of name.
func copyTo(t *testing.T, dir, name, from string) string {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(name))
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

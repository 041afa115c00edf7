package untrusted

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const confinedEnv = "GPERF_CONFINED" // the directory of TestHostileConfined

// TestHostileConfined: a process that gave up rights keeps only the rights that it named. The kernel gives nothing
// back, so another process tries.
func TestHostileConfined(t *testing.T) {
	if !CanConfine() {
		t.Skip("the kernel has no Landlock")
	}
	dir := t.TempDir()
	for _, name := range []string{"in", "out"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestConfinedProcess$", "-test.v")
	cmd.Env = append(os.Environ(), confinedEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestConfinedProcess") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestConfinedProcess gives up rights, and tries which actions are still allowed.
func TestConfinedProcess(t *testing.T) {
	dir := os.Getenv(confinedEnv)
	if dir == "" {
		t.Skip("only TestHostileConfined starts it")
	}
	path, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	shell := exec.Command("/bin/sh", "-c", "sleep 60")
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	defer shell.Process.Kill()
	if err := Confine([]string{filepath.Join(dir, "in"), os.DevNull, dir + "/missing"}, nil); err != nil {
		t.Fatal(err)
	}
	root := "/proc/" + strconv.Itoa(shell.Process.Pid) + "/root/"
	for _, c := range []struct {
		name string
		may  bool
		do   func() error
	}{
		{"read a file", true, func() error { _, err := os.ReadFile("/etc/passwd"); return err }},
		{"write to a device", true, func() error { return os.WriteFile(os.DevNull, nil, 0) }},
		{"make a file in the directory", true, func() error { return os.WriteFile(dir+"/in/file", []byte("x"), 0o600) }},
		{"rename it", true, func() error { return os.Rename(dir+"/in/file", dir+"/in/other") }},
		{"remove it", true, func() error { return os.Remove(dir + "/in/other") }},
		{"make a file elsewhere", false, func() error { return os.WriteFile(dir+"/out/file", nil, 0o600) }},
		{"make a link elsewhere", false, func() error { return os.Symlink("x", dir+"/out/link") }},
		{"remove a directory elsewhere", false, func() error { return os.Remove(dir + "/out") }},
		{"start a program", false, func() error { return exec.Command(path).Run() }},
		{"look at another process's files", false, func() error { _, err := os.ReadDir(root); return err }},
	} {
		err := c.do()
		if denied := errors.Is(err, fs.ErrPermission); c.may && err != nil || !c.may && !denied {
			t.Errorf("%s, allowed: %t: %v", c.name, c.may, err)
		}
	}
	if b, err := os.ReadFile("/proc/thread-self/status"); err != nil || !strings.Contains(string(b), "NoNewPrivs:\t1") {
		t.Errorf("the process can get rights from programs: %v", err)
	}
}

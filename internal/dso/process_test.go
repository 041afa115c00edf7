package dso

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gperf/internal/procfs"
)

// The PID and the files of a process differ in the process's own namespaces.
func TestOpenOfContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: namespaces cannot be made")
	}
	cmd := exec.Command("sh", "-c", `mount -t tmpfs none /tmp && echo inside > /tmp/perf-$$.map && echo $$ && read end`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Unshareflags: syscall.CLONE_NEWNS}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("this kernel or user makes no namespaces: ", err)
	}
	defer func() {
		in.Close()
		cmd.Wait()
	}()
	number, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(number) == fmt.Sprint(cmd.Process.Pid) {
		t.Skipf("no namespaces: the process says that it is %q: %v", number, err)
	}
	pid := int32(cmd.Process.Pid)
	file, err := new(Locator).OpenOf(pid, "/tmp/perf-%d.map")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if b, err := io.ReadAll(file); string(b) != "inside\n" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestOpenOf(t *testing.T) {
	dir := t.TempDir()
	f := &Locator{Tree: Tree{Root: dir}}
	writeFile(t, dir+"/tmp/jit-7.dump", []byte("x"))
	file, err := f.OpenOf(7, "/tmp/jit-%d.dump")
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	if err := syscall.Mkfifo(dir+"/tmp/jit-8.dump", 0o600); err != nil {
		t.Fatal(err)
	}
	for pid, what := range map[int32]string{8: "a pipe", 9: "nothing"} {
		if file, err := f.OpenOf(pid, "/tmp/jit-%d.dump"); err == nil {
			t.Errorf("%s was opened: %v", what, file)
		}
	}
}

// A file that was deleted is found as long as a process maps it, or if a file with the same build ID replaced it.
func TestFindDeleted(t *testing.T) {
	dir := t.TempDir()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	contents, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	id, err := BuildIDOf(sleep)
	if err != nil {
		t.Skip(err)
	}
	path := writeFile(t, filepath.Join(dir, "sleep"), contents)
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	f := &Locator{Tree: Tree{BuildIDDir: dir, DebugDir: dir}, trees: func() []string { return nil }}
	im, err := f.Find(path+deleted, id)
	if err != nil || im.Path != path {
		t.Errorf("the same file in its place: %v, %v", im, err)
	}
	im.Close()
	if os.Remove(path); os.Geteuid() != 0 {
		t.Skip("not root: deleted files cannot be opened")
	}
	im, err = f.Find(path+deleted, id)
	if err != nil || !strings.Contains(im.Path, "map_files") {
		t.Fatalf("deleted: %v, %v", im, err)
	}
	im.Close()
}

func TestPathOf(t *testing.T) {
	maps, err := procfs.Maps(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own := func(m procfs.Mapping) bool { return m.Path == self && m.Executable() }
	i := slices.IndexFunc(slices.Collect(maps), own)
	if i < 0 {
		t.Fatalf("no code of %s among the mappings", self)
	}
	m := slices.Collect(maps)[i]
	path := PathOf(os.Getpid(), m.Path, m.Inode, m.Start, m.End)
	a, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := os.Stat(self); !os.SameFile(a, b) {
		t.Errorf("%s is not %s", path, self)
	}
	if path := PathOf(os.Getpid(), m.Path, m.Inode+1, m.Start, m.End); !strings.HasSuffix(path,
		fmt.Sprintf("/map_files/%x-%x", m.Start, m.End)) {
		t.Errorf("another file is mapped under the name, but its path is %s", path)
	}
}

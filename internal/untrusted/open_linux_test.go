package untrusted

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
)

const other = 65534 // a user who is neither root nor the current one

// write makes a file of a user.
func write(t *testing.T, path string, uid int) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(filepath.Base(path)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(path, uid, -1); err != nil {
		t.Skip(err)
	}
	return path
}

// link makes a link of a user.
func link(t *testing.T, path, target string, uid int) string {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(path, uid, -1); err != nil {
		t.Skip(err)
	}
	return path
}

func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	fifo := dir + "/fifo"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, dir, "/dev/null", link(t, dir+"/to fifo", fifo, os.Geteuid())} {
		if _, err := Open(path); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := OpenOwned(path, true); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s, owned: %v", path, err)
		}
	}
	if _, err := Open(dir + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
	file, err := Open(link(t, dir+"/to file", write(t, dir+"/file", os.Geteuid()), os.Geteuid()))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if b, err := io.ReadAll(file); string(b) != "file" || file.Name() != dir+"/to file" {
		t.Errorf("%q of %s, %v", b, file.Name(), err)
	}
}

// A file that becomes a FIFO at any moment makes nobody wait.
func TestOpenSwapped(t *testing.T) {
	dir := t.TempDir()
	file, fifo, path := write(t, dir+"/file", os.Geteuid()), dir+"/fifo", dir+"/path"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	done := make(chan bool)
	go func() {
		defer close(done)
		for i := 0; !stop.Load(); i++ {
			os.Symlink([]string{file, fifo}[i%2], path+".new")
			os.Rename(path+".new", path)
		}
	}()
	regular, refused := 0, 0
	for range 20000 {
		switch f, err := Open(path); {
		case err == nil:
			regular++
			f.Close()
		case errors.Is(err, ErrNotRegular):
			refused++
		}
	}
	stop.Store(true)
	<-done
	if regular == 0 || refused == 0 {
		t.Errorf("%d times the file, %d times the FIFO", regular, refused)
	}
}

// A link leads only to files of the link's owner.
func TestOpenOwned(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of other users")
	}
	dir := t.TempDir()
	root, theirs := write(t, dir+"/root", 0), write(t, dir+"/theirs", other)
	for _, c := range []struct {
		path         string
		plain, force bool // whether it is opened
	}{
		{root, true, true},
		{theirs, false, true},
		{link(t, dir+"/root to root", root, 0), true, true},
		{link(t, dir+"/root to theirs", theirs, 0), false, true},
		{link(t, dir+"/theirs to root", root, other), false, false},
		{link(t, dir+"/theirs to theirs", theirs, other), false, true},
		{link(t, dir+"/theirs to root, by another link", dir+"/root to root", other), false, false},
		{link(t, dir+"/relative", "root", 0), true, true},
		{link(t, dir+"/itself", "itself", 0), false, false},
	} {
		for _, force := range []bool{false, true} {
			file, err := OpenOwned(c.path, force)
			if opened := err == nil; opened != (c.plain && !force || c.force && force) {
				t.Errorf("%s, force %t: %v", c.path, force, err)
			}
			file.Close()
		}
	}
}

// Links of a process with a separate root directory do not lead outside.
func TestOpenInRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for chroot")
	}
	sleep, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs a static program: busybox")
	}
	dir := t.TempDir()
	if b, err := os.ReadFile(sleep); err != nil || os.WriteFile(dir+"/busybox", b, 0o755) != nil {
		t.Skip(err)
	}
	cmd := exec.Command("/busybox", "sleep", "100")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	os.Mkdir(dir+"/etc", 0o755)
	write(t, dir+"/etc/name", 0)
	link(t, dir+"/absolute", "/etc/name", 0)
	link(t, dir+"/up", "../../../../../../etc/name", 0)
	link(t, dir+"/etc/outside", "/etc/passwd", 0)
	root := "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/root"
	for path, want := range map[string]error{"/absolute": nil, "/up": nil, "/etc/outside": os.ErrNotExist} {
		for how, open := range map[string]func(string) (*os.File, error){
			"Open": Open, "OpenOwned": func(path string) (*os.File, error) { return OpenOwned(path, false) },
		} {
			file, err := open(root + path)
			if !errors.Is(err, want) {
				t.Errorf("%s %s: %v, want %v", how, path, err, want)
			}
			file.Close()
		}
	}
}

// TestHostileCreate makes files at names that another user took before, in a shared directory.
func TestHostileCreate(t *testing.T) {
	dir, secret := t.TempDir(), t.TempDir()
	own := os.Geteuid()
	write(t, secret+"/file", own)
	for _, c := range []struct {
		name string
		make func(path string)
		ok   bool
	}{
		{"nothing", func(string) {}, true},
		{"an own file", func(path string) { write(t, path, own) }, true},
		{"an own link", func(path string) { link(t, path, dir+"/to", own) }, true},
		{"an own link to a link", func(path string) { link(t, path, link(t, dir+"/second", "third", own), own) }, true},
		{"links in a circle", func(path string) { link(t, path, path, own) }, false},
		{"a file of another user", func(path string) { write(t, path, other) }, false},
		{"a link of another user", func(path string) { link(t, path, secret+"/file", other) }, false},
		{"a link of another user to nothing", func(path string) { link(t, path, secret+"/new", other) }, false},
		{"an own link to one of another user", func(path string) {
			link(t, path, link(t, dir+"/foreign", secret+"/file", other), own)
		}, false},
		{"a FIFO of another user", func(path string) {
			if err := errors.Join(syscall.Mkfifo(path, 0o666), os.Chown(path, other, -1)); err != nil {
				t.Skip(err)
			}
		}, false},
		{"standard output", func(path string) { link(t, path, "/dev/stdout", own) }, true},
		{"a device", func(path string) { link(t, path, "/dev/null", own) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, c.name)
			c.make(path)
			file, err := Create(path, 0o600)
			if (err == nil) != c.ok {
				t.Fatalf("%v", err)
			}
			if err == nil {
				file.Close()
			}
			if l, err := os.ReadDir(secret); err != nil || len(l) != 1 {
				t.Errorf("the other directory has %v, %v", l, err)
			}
			if b, err := os.ReadFile(secret + "/file"); string(b) != "file" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
	if st, err := os.Stat(dir + "/nothing"); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	if err := os.Chown(dir, other, -1); err != nil {
		t.Skip(err)
	}
	file, err := Create(write(t, dir+"/theirs", other), 0o600)
	if err != nil {
		t.Fatalf("a file in its owner's directory: %v", err)
	}
	file.Close()
}

package untrusted

import (
	"os"
	"path/filepath"
	"testing"
)

// openable makes a folder that all users can search, unlike a test's temporary folder.
func openable(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of other users")
	}
	dir, err := os.MkdirTemp("/var/tmp", "gperf-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Root shows a file where another one names it only if all users can read it, or the owner is the same.
func TestHostileMayShow(t *testing.T) {
	dir := openable(t)
	os.Mkdir(dir+"/closed", 0o700)
	for _, name := range []string{"/public", "/closed/public", "/secret", "/theirs"} {
		write(t, dir+name, 0)
	}
	os.Chmod(dir+"/public", 0o644)
	os.Chmod(dir+"/closed/public", 0o644)
	os.Lchown(dir+"/theirs", other, -1)
	link(t, dir+"/link to secret", dir+"/secret", other)
	link(t, dir+"/link to closed", dir+"/closed/public", other)
	root, them := uint32(0), uint32(other)
	for _, c := range []struct {
		path                string
		unknown, root, them bool // whether it is shown for programs of these owners
	}{
		{"/public", true, true, true},
		{"/closed/public", false, true, false},
		{"/secret", false, true, false},
		{"/theirs", false, false, true},
		{"/link to secret", false, true, false},
		{"/link to closed", false, true, false},
	} {
		file, err := Open(dir + c.path)
		if err != nil {
			t.Fatal(err)
		}
		got := [...]bool{MayShow(file, nil), MayShow(file, &root), MayShow(file, &them)}
		if got != [...]bool{c.unknown, c.root, c.them} {
			t.Errorf("%s: shown for programs of unknown owner, root, others: %v", c.path, got)
		}
		file.Close()
	}
}

// The owner of a program counts only at the program's own path.
func TestHostileOwner(t *testing.T) {
	dir := openable(t)
	path := write(t, dir+"/program", 0)
	for _, c := range []struct {
		path string
		ok   bool
	}{{path, true}, {link(t, dir+"/link", path, other), false}, {dir + "/../" + filepath.Base(dir) + "/program", false}} {
		file, err := Open(c.path)
		if err != nil {
			t.Fatal(err)
		}
		if uid, ok := Owner(file, c.path); ok != c.ok || uid != 0 {
			t.Errorf("%s: owner %d, known: %t", c.path, uid, ok)
		}
		file.Close()
	}
}

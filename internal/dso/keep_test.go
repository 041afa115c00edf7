package dso

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStays: files of the system that are still at their paths, and the running program.
func TestStays(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(own, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	for _, test := range []struct {
		name, path string
		stays      bool
	}{{self, self, true}, {own, own, false}, {shell, shell, true}, {shell, own, false}, {own, shell, false}} {
		file, err := os.Open(test.path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if stays := Stays(test.name, file); stays != test.stays {
			t.Errorf("the file %s, recorded as %s, stays: %v", test.path, test.name, stays)
		}
	}
}

// A copy of another user's file, which may contain the build ID of an honest file, is found only for the copied
// file's path, and after the file that is there.
func TestHostileKept(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: files have one owner")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("SUDO_UID", "")
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	id, err := BuildIDOf(shell)
	if err != nil {
		t.Skip(err)
	}
	b, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range []int{65534, 0} {
		strangers := filepath.Join(t.TempDir(), "copy")
		if err := os.WriteFile(strangers, append(b, 0), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(strangers, owner, owner); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(strangers)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var kept Kept
		if err := kept.Keep(strangers, id, file); err != nil || kept.Files != 1 {
			t.Fatalf("%d files kept: %v", kept.Files, err)
		}
		if err := os.Remove(strangers); err != nil {
			t.Fatal(err)
		}
		for name, copied := range map[string]bool{strangers: true, shell: owner == 0, "/gone": owner == 0} {
			im, err := new(Locator).Find(name, id)
			if found := err == nil && im.Size == uint64(len(b)+1); found != copied {
				t.Errorf("owner %d: the copy is found for %s: %v (%v)", owner, name, found, err)
			}
			im.Close()
		}
	}
}

// Files of other users take a part of the room of a recording's copies, so that there is room for honest programs. No
// copy takes more than half of the free space.
func TestHostileKeptSizes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: files have one owner")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("SUDO_UID", "")
	open := func(owner int, size int64) *os.File {
		path := filepath.Join(t.TempDir(), "program")
		err := os.WriteFile(path, nil, 0o755)
		if err = errors.Join(err, os.Truncate(path, size), os.Chown(path, owner, owner)); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	inode := Inode{Major: 1, Minor: 2, Number: 3}.ID()
	var kept Kept
	for _, c := range []struct {
		owner int
		size  int64
		says  string
	}{
		{65534, maxKeptOthers + 1, "other users' files are limited"},
		{65534, 1 << 20, ""},
		{65534, maxKeptOthers - 1<<20 + 1, "other users' files are limited"},
		{0, 2 << 20, ""},
		{0, maxKept, "are limited to"},
	} {
		err := kept.Keep("/program", inode, open(c.owner, c.size))
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("owner %d, %d bytes: %v, not %q", c.owner, c.size, err, c.says)
		}
	}
	if kept.Files != 2 || kept.Bytes != 3<<20 {
		t.Errorf("%d files of %d bytes are kept", kept.Files, kept.Bytes)
	}
	there, missing := SpareSpace(os.Getenv("HOME")), SpareSpace(filepath.Join(os.Getenv("HOME"), "a", "b"))
	if there <= 0 || missing <= 0 {
		t.Errorf("%d bytes are spare, or %d below a directory that does not exist", there, missing)
	}
}

// Many files, each of which is as large as allowed, leave space.
func TestHostileKeptSpace(t *testing.T) {
	for _, size := range []int64{1 << 30, 20 << 30, 1 << 40} {
		free := size
		for range 100 {
			free -= spare(free, size)
		}
		if left := min(size/10, 4<<30); free != left {
			t.Errorf("%d of %d bytes are left, not %d", free, size, left)
		}
	}
	for _, c := range [][3]int64{{0, 0, 0}, {1 << 20, 1 << 30, 0}, {1 << 30, 1 << 30, 1 << 29},
		{150 << 30, 1 << 40, 75 << 30}} {
		if got := spare(c[0], c[1]); got != c[2] {
			t.Errorf("of %d free bytes of %d, a file may take %d, not %d", c[0], c[1], got, c[2])
		}
	}
}

// Names in brackets, such as names for interpreted functions, are stored, too.
func TestStoreNames(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	tree := new(Tree)
	id := NewBuildID([]byte{1, 2, 3, 4})
	fill := func(to *os.File) error { _, err := to.WriteString("contents"); return err }
	for _, name := range []string{"[functions]", "/usr/bin/program"} {
		if err := tree.Cache().Store(name, id, fill); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(tree.Cache().Dir, name, "01020304", "elf")); string(b) != "contents" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		if b, err := os.ReadFile(tree.Cache().Path(id, "elf")); string(b) != "contents" {
			t.Errorf("%s by build ID: %q, %v", name, b, err)
		}
	}
}

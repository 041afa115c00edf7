package dso

import (
	"os"
	"path/filepath"
	"testing"
)

// TestStays: files of the system, where they are still those of their names, and the running program.
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

// A copy of another user's file, which may have the build ID of an honest one, is found for its own path only, and
// after the file that is there.
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

// Names in brackets, such as those of interpreted functions, are stored, too.
func TestStoreNames(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	tree := new(Tree)
	id := NewBuildID([]byte{1, 2, 3, 4})
	fill := func(to *os.File) error { _, err := to.WriteString("contents"); return err }
	for _, name := range []string{"[functions]", "/usr/bin/program"} {
		if err := tree.Store(name, id, fill); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(tree.CacheDir(), name, "01020304", "elf")); string(b) != "contents" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		if b, err := os.ReadFile(tree.CachePath(id, "elf")); string(b) != "contents" {
			t.Errorf("%s by build ID: %q, %v", name, b, err)
		}
	}
}

package dso

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFindByInode finds files without build ID by the recorded inode, also in the tree of another process, and
// rejects other files at the recorded paths, and files that were written after the recording.
func TestFindByInode(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, filepath.Join(dir, "server"), withID("", true))
	tree := filepath.Join(dir, "tree")
	inside := writeFile(t, filepath.Join(tree, path), withID("", true))
	none := filepath.Join(dir, "none")
	cache := Tree{BuildIDDir: none, DebugDir: none}
	trees := func() []string { return []string{tree} }
	own, other := inodeOf(t, path), inodeOf(t, inside)
	for _, c := range []struct {
		name  string
		l     Locator
		inode Inode
		want  string
		err   error
	}{
		{"the path", Locator{Tree: cache, trees: trees}, own, path, nil},
		{"another tree", Locator{Tree: cache, trees: trees}, other, inside, nil},
		{"another device", Locator{Tree: cache}, Inode{Major: 4711, Number: own.Number}, "", ErrReplaced},
		{"another inode", Locator{Tree: cache}, Inode{Major: own.Major, Minor: own.Minor, Number: 1 << 60}, "",
			ErrReplaced},
		{"written later", Locator{Tree: cache, trees: trees}, until(own, 1), "", ErrReplaced},
		{"written before", Locator{Tree: cache, trees: trees}, until(own, 1<<62), path, nil},
		{"forced", Locator{Tree: cache, Force: true}, until(own, 1), path, nil},
		{"a copy", Locator{Tree: Tree{Root: tree}}, own, inside, nil},
		{"a preferred copy", Locator{Tree: cache, Sysroot: tree}, own, inside, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.l.trees == nil {
				c.l.trees = func() []string { return nil }
			}
			id := c.l.ByInode(path, c.inode)
			im, err := c.l.Find(path, id)
			if !errors.Is(err, c.err) || err == nil && im.Path != c.want {
				t.Fatalf("Find = %v, %v; want %s, %v", im, err, c.want, c.err)
			}
			im.Close()
			syms, _, err := c.l.FindSymbols(path, id)
			if !errors.Is(err, c.err) || err == nil && syms.Path != c.want {
				t.Fatalf("FindSymbols = %v, %v; want %s, %v", syms, err, c.want, c.err)
			}
			syms.Close()
		})
	}
}

func until(i Inode, ns int64) Inode {
	i.Until = ns
	return i
}

func inodeOf(t *testing.T, path string) Inode {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	sys := st.Sys().(*syscall.Stat_t)
	return Inode{Major: unix.Major(uint64(sys.Dev)), Minor: unix.Minor(uint64(sys.Dev)), Number: sys.Ino}
}

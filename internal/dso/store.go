package dso

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNoCache means that there is no directory for perf's build-ID cache.
var ErrNoCache = errors.New("no home directory")

// Store stores an ELF file in perf's build-ID cache, for the DSO recorded under a name. fill writes the contents.
// The cache contains a directory NAME/ID for a file, and a link .build-id/xx/yyyy to it; for a file without build
// ID, only the directory of CachePath. Store replaces a file of the same ID.
func (t *Tree) Store(name string, id BuildID, fill func(*os.File) error) error {
	root, hex := t.CacheDir(), id.String()
	if root == "" {
		return ErrNoCache
	}
	if id.IsZero() {
		return fillFile(t.CachePath(id, "elf"), fill)
	}
	link := filepath.Join(root, ".build-id", hex[:2], hex[2:])
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	if err := storeNamed(t, name, id, fill); err != nil {
		return err
	}
	err := os.Symlink(filepath.Join("..", "..", name, hex), link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// storeNamed stores a file as Store does, but without the link: it is found by name and ID together.
func storeNamed(t *Tree, name string, id BuildID, fill func(*os.File) error) error {
	if t.CacheDir() == "" {
		return ErrNoCache
	}
	return fillFile(namedPath(t, name, id), fill)
}

// fillFile makes a file, and the directories above it. The file exists only when the contents are complete.
func fillFile(path string, fill func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "new.")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if err = errors.Join(fill(tmp), tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

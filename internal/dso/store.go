package dso

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNoCache means that there is no directory for perf's build-ID cache.
var ErrNoCache = errors.New("no home directory")

// Store stores an ELF file in perf's build-ID cache, for the DSO recorded under a name. fill writes its contents. The
// cache has a directory NAME/ID for a file, and a link .build-id/xx/yyyy to it. Store replaces a file of the same ID.
func (t *Tree) Store(name string, id BuildID, fill func(*os.File) error) error {
	root, hex := t.CacheDir(), id.String()
	if root == "" {
		return ErrNoCache
	}
	dir, link := filepath.Join(root, name, hex), filepath.Join(root, ".build-id", hex[:2], hex[2:])
	for _, d := range []string{dir, filepath.Dir(link)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	tmp, err := os.CreateTemp(dir, "elf.")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if err = errors.Join(fill(tmp), tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), filepath.Join(dir, "elf")); err != nil {
		return err
	}
	err = os.Symlink(filepath.Join("..", "..", name, hex), link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

package functions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gperf/internal/dso"
)

// Save stores the files in perf's build-ID cache, if functions were added since the last time. The cache has a
// directory NAME/ID for a file, and a link .build-id/xx/yyyy to it.
func (s *Set) Save() error {
	if len(s.byValue) == s.saved {
		return nil
	}
	root := new(dso.Tree).CacheDir()
	if root == "" {
		return errors.New("storing the names of functions: no home directory")
	}
	for _, f := range s.files {
		if f.saved == len(f.list) {
			continue
		}
		if err := f.save(root); err != nil {
			return fmt.Errorf("storing the names of functions: %w", err)
		}
		f.saved = len(f.list)
	}
	s.saved = len(s.byValue)
	return nil
}

func (f *file) save(root string) error {
	id := f.id.String()
	dir, link := filepath.Join(root, f.name, id), filepath.Join(root, ".build-id", id[:2], id[2:])
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
	for _, p := range f.pieces() {
		if _, e := tmp.WriteAt(p.data, int64(p.off)); e != nil {
			err = errors.Join(err, e)
		}
	}
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), filepath.Join(dir, "elf")); err != nil {
		return err
	}
	err = os.Symlink(filepath.Join("..", "..", f.name, id), link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

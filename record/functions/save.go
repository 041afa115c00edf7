package functions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gperf/internal/dso"
)

// Save stores the file in perf's build-ID cache, if functions were added since the last time. The cache has a
// directory NAME/ID for the file, and a link .build-id/xx/yyyy to it.
func (s *Set) Save() error {
	if len(s.list) == s.saved {
		return nil
	}
	root := new(dso.Tree).CacheDir()
	if root == "" {
		return errors.New("storing the names of functions: no home directory")
	}
	if err := s.save(root); err != nil {
		return fmt.Errorf("storing the names of functions: %w", err)
	}
	s.saved = len(s.list)
	return nil
}

func (s *Set) save(root string) error {
	id := s.id.String()
	dir, link := filepath.Join(root, Name, id), filepath.Join(root, ".build-id", id[:2], id[2:])
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
	err = s.write(tmp)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), filepath.Join(dir, "elf")); err != nil {
		return err
	}
	err = os.Symlink(filepath.Join("..", "..", Name, id), link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

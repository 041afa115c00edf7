package dso

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Kept counts the files that were stored in perf's build-ID cache.
type Kept struct {
	Files   int
	Bytes   int64
	TooMany int // files that were not stored, because the recording held too many others
}

// maxKept is how many bytes a recording stores.
const maxKept = 1 << 30

// Keep stores an open file, which was recorded under a name, in perf's build-ID cache, unless the cache has it.
func (k *Kept) Keep(name string, id BuildID, file *os.File) error {
	if err := k.keep(name, id, file); err != nil {
		return fmt.Errorf("keeping a copy of %s: %w", name, err)
	}
	return nil
}

func (k *Kept) keep(name string, id BuildID, file *os.File) error {
	tree := new(Tree)
	if _, err := os.Stat(tree.CachePath(id, "elf")); err == nil {
		return nil
	}
	st, err := file.Stat()
	if err != nil {
		return err
	}
	if k.Bytes+st.Size() > maxKept {
		return fmt.Errorf("the copies of a recording are limited to %d MB", maxKept>>20)
	}
	err = tree.Store(name, id, func(to *os.File) error {
		if _, err := io.Copy(to, file); err != nil { // shares the blocks if the file system can
			return err
		}
		if got, err := BuildIDOf(to.Name()); err != nil || got != id {
			return errors.New("the file was changed during the recording")
		}
		return nil
	})
	if err == nil {
		k.Files++
		k.Bytes += st.Size()
	}
	return err
}

// Stays reports whether the file recorded under a name belongs to the system: packages bring their symbols back after
// an update.
func Stays(name string, file *os.File) bool {
	system := slices.ContainsFunc([]string{"/usr/", "/lib", "/bin/", "/sbin/"}, func(dir string) bool {
		return strings.HasPrefix(name, dir) && !strings.HasPrefix(name, "/usr/local/")
	})
	there, err := os.Stat(name)
	if err != nil || !system {
		return false
	}
	own, err := file.Stat()
	return err == nil && os.SameFile(there, own)
}

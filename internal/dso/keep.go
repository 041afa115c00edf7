package dso

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"gperf/internal/untrusted"
)

// Kept counts the files that were stored in perf's build-ID cache.
type Kept struct {
	Files     int
	Generated int   // perf maps and jitdumps, not among Files
	Bytes     int64 // of both
	TooMany   int   // files that were not stored, because the recording held too many others
	others    int64 // bytes of files of other users
}

// Limits of a recording's stored files, in bytes. Files of other users get only a part of it, because these users may
// run large files to use up the room.
const (
	maxKept       = 1 << 30
	maxKeptOthers = maxKept / 4
)

// Keep stores an open file, which was recorded under a name, in perf's build-ID cache, unless the cache contains
// it. Files without build ID are in a directory of gperf there, by inode.
func (k *Kept) Keep(name string, id BuildID, file *os.File) error {
	if err := k.keep(name, id, file); err != nil {
		return fmt.Errorf("keeping a copy of %s: %w", name, err)
	}
	return nil
}

func (k *Kept) keep(name string, id BuildID, file *os.File) error {
	st, err := file.Stat()
	if err != nil {
		return err
	}
	cache := new(Tree).Cache()
	at, store := cache.Path(id, "elf"), cache.Store
	if !id.IsZero() && untrusted.IsOthers(st) { // which can contain the build ID of any other program
		at, store = cache.named(name, id), cache.storeNamed
	}
	if has, err := os.Stat(at); err == nil && (!id.IsZero() || sameVersion(has, st)) {
		return nil
	}
	if err := k.hasRoom(cache, st); err != nil {
		return err
	}
	err = store(name, id, func(to *os.File) error {
		if _, err := io.Copy(to, file); err != nil { // shares the blocks if the file system can
			return err
		}
		if !isCopy(to, file, id, st) {
			return errors.New("the file was changed during the recording")
		}
		return os.Chtimes(to.Name(), time.Time{}, st.ModTime())
	})
	if err == nil {
		k.Files++
		k.count(st)
	}
	return err
}

// hasRoom returns an error if a recording may not store another file.
func (k *Kept) hasRoom(cache BuildIDCache, st fs.FileInfo) error {
	switch {
	case k.Bytes+st.Size() > maxKept:
		return fmt.Errorf("the copies of a recording are limited to %d MB", maxKept>>20)
	case untrusted.IsOthers(st) && k.others+st.Size() > maxKeptOthers:
		return fmt.Errorf("the copies of other users' files are limited to %d MB", maxKeptOthers>>20)
	case st.Size() > SpareSpace(cache.Dir):
		return errors.New(SpareText)
	}
	return nil
}

// count counts the bytes of a stored file.
func (k *Kept) count(st fs.FileInfo) {
	k.Bytes += st.Size()
	if untrusted.IsOthers(st) {
		k.others += st.Size()
	}
}

// isCopy reports whether a copy of a file is complete: the build ID matches, or the file did not change since st.
func isCopy(to, file *os.File, id BuildID, st fs.FileInfo) bool {
	if !id.IsZero() {
		got, err := BuildIDOf(to.Name())
		return err == nil && got == id
	}
	now, err := file.Stat()
	return err == nil && sameVersion(now, st)
}

func sameVersion(a, b fs.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// Stays reports whether there is no need to keep the file recorded under a name: it belongs to the system, and
// packages bring the symbols back after an update; or it is the running recorder, which the kernel still shows as
// the caller in samples of a command that it is starting.
func Stays(name string, file *os.File) bool {
	own, err := file.Stat()
	if err != nil {
		return false
	}
	if self, err := os.Stat("/proc/self/exe"); err == nil && os.SameFile(self, own) {
		return true
	}
	system := slices.ContainsFunc([]string{"/usr/", "/lib", "/bin/", "/sbin/"}, func(dir string) bool {
		return strings.HasPrefix(name, dir) && !strings.HasPrefix(name, "/usr/local/")
	})
	there, err := untrusted.Stat(name)
	return err == nil && system && os.SameFile(there, own)
}

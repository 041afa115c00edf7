package debuginfod

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// partial is a file that is being received. It is unnamed, so that no file is left however gperf ends. If the file
// system does not support unnamed files (O_TMPFILE), the file is named and locked, and the next gperf removes
// unlocked ones.
type partial struct {
	*os.File
	named bool
}

// partialSuffix is the end of the names of partial files, before a number.
const partialSuffix = ".partial-"

func newPartial(path string) (*partial, error) {
	file, err := os.OpenFile(filepath.Dir(path), os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err == nil {
		return &partial{File: file}, nil
	}
	if file, err = os.CreateTemp(filepath.Dir(path), filepath.Base(path)+partialSuffix); err != nil {
		return nil, err
	}
	p := &partial{File: file, named: true}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		p.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return p, nil
}

// keep gives the file a path, replacing a file that is there.
func (p *partial) keep(path string) error {
	if p.named {
		return os.Rename(p.Name(), path)
	}
	self := fmt.Sprintf("/proc/self/fd/%d", p.Fd())
	err := unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	if errors.Is(err, os.ErrExist) { // a damaged one, or one that another gperf received meanwhile
		if err = os.Remove(path); err == nil {
			err = unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
		}
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	return nil
}

// Close closes the file, which disappears unless keep was called.
func (p *partial) Close() error {
	if p.named {
		os.Remove(p.Name()) // which fails after keep
	}
	return p.File.Close()
}

// removePartials removes the partial files that killed gperfs left in the cache.
func removePartials(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, "*", "*"+partialSuffix+"*"))
	for _, path := range left {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.Remove(path)
		}
		file.Close()
	}
}

// lastUse returns when a file was used: the access time, as in elfutils.
func lastUse(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Atim.Unix())
	}
	return info.ModTime()
}

// use sets the access time, so that clean keeps the file.
func use(path string, st fs.FileInfo) { os.Chtimes(path, time.Now(), st.ModTime()) }

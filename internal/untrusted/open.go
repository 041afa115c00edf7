// Package untrusted opens files that other users may have made, or may replace at any moment: programs, debug
// information and source files that recordings name, and files in shared directories.
package untrusted

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

var (
	// ErrNotRegular means that a path names a directory, a FIFO, a socket or a device.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge means that a file is larger than the caller reads.
	ErrTooLarge = errors.New("file too large")
	// ErrOwner means that a file, or a link to it, belongs to a user who is not trusted.
	ErrOwner = errors.New("not owned by the current user or root")
)

// Open opens a regular file for reading. It follows links; below /proc/PID/root, they stay in the root directory of
// the process. It waits neither for a FIFO's writer nor for a file system that does not answer, and never opens a
// device. The error wraps ErrNotRegular, ErrBlocked, or the error of open(2).
func Open(path string) (*os.File, error) {
	file, err := within(path, func() (*os.File, error) { return open(path) }, closeFile)
	if err != nil {
		return nil, pathError(path, err)
	}
	return file, nil
}

func closeFile(file *os.File) { file.Close() }

// Stat is os.Stat, which does not wait for a file system that does not answer. The error may wrap ErrBlocked.
func Stat(path string) (fs.FileInfo, error) {
	st, err := within(path, func() (fs.FileInfo, error) { return os.Stat(path) }, func(fs.FileInfo) {})
	if errors.Is(err, ErrBlocked) {
		err = &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return st, err
}

// ReadFile returns the contents of a file of at most max bytes, opened by Open. The error may also wrap ErrTooLarge.
func ReadFile(path string, max int64) ([]byte, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadAll(file, max)
}

// ReadAll returns the contents of an open file of at most max bytes. The error may wrap ErrTooLarge.
func ReadAll(file *os.File, max int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(file, max+1))
	if err == nil && int64(len(b)) > max {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: file.Name(), Err: err}
	}
	return b, nil
}

// OpenOwned is Open for a file of the current user or root, or of anybody if force is set. The target of a link
// must belong to the owner of the link, unless the link belongs to the current user or root: otherwise a link could
// make a privileged reader show a file that the link's owner may not read. The error may also wrap ErrOwner.
func OpenOwned(path string, force bool) (*os.File, error) {
	trusted := owners{euid: uint32(os.Geteuid()), all: force}
	file, err := within(path, func() (*os.File, error) { return openOwned(path, trusted, maxLinks) }, closeFile)
	if err != nil {
		return nil, pathError(path, err)
	}
	return file, nil
}

// Create opens a file for writing: it truncates it, or makes it with these permissions. It is for names that the user
// chose, and which other users can make in a shared directory before. It follows links of the current user or root
// only, and opens files of these two and of the directory's owner. The error may wrap ErrOwner.
func Create(path string, perm fs.FileMode) (*os.File, error) {
	file, err := create(path, perm, maxLinks)
	if err != nil {
		return nil, pathError(path, err)
	}
	return file, nil
}

// maxLinks is how many links may follow each other, as in the kernel (MAXSYMLINKS in linux/namei.h).
const maxLinks = 40

// owners is a set of trusted users.
type owners struct {
	euid uint32
	all  bool
	only *uint32 // the owner of a link that led here, if that is another user
}

func (o owners) trust(uid uint32) bool {
	if o.only != nil && uid != *o.only {
		return false
	}
	return o.all || uid == 0 || uid == o.euid
}

// after returns the users whose files a link of a user may lead to.
func (o owners) after(uid uint32) owners {
	if uid != 0 && uid != o.euid {
		o.only = &uid
	}
	return o
}

func pathError(path string, err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = p.Err
	}
	return &fs.PathError{Op: "open", Path: path, Err: err}
}

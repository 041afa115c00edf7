package untrusted

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

func open(path string) (*os.File, error) {
	fd, err := find(path, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	return reopen(fd, &st, path)
}

func openOwned(path string, owners owners, links int) (*os.File, error) {
	fd, err := find(path, unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	switch {
	case !owners.trust(st.Uid):
		return nil, ErrOwner
	case st.Mode&unix.S_IFMT != unix.S_IFLNK:
		return reopen(fd, &st, path)
	case links == 0:
		return nil, unix.ELOOP
	}
	next, err := follow(fd, path)
	if err != nil {
		return nil, err
	}
	return openOwned(next, owners.after(st.Uid), links-1)
}

// follow returns where the link at path leads, whose descriptor is fd.
func follow(fd int, path string) (string, error) {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", target)
	if err != nil {
		return "", err
	}
	next := string(target[:n])
	if root := processRoot.FindString(path); filepath.IsAbs(next) {
		return root + next, nil
	}
	return filepath.Dir(path) + "/" + next, nil
}

// create makes a file that is missing, or truncates one that exists.
func create(path string, perm os.FileMode, links int) (file *os.File, err error) {
	for range maxTries {
		file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, os.ErrExist) {
			break
		}
		file, err = truncate(path, perm, links)
		if !errors.Is(err, os.ErrNotExist) { // it was not removed between the two
			break
		}
	}
	return file, err
}

// truncate opens the file that create finds at a path.
func truncate(path string, perm os.FileMode, links int) (*os.File, error) {
	fd, err := find(path, unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st, dir unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Stat(filepath.Dir(path), &dir)); err != nil {
		return nil, err
	}
	trusted := owners{euid: uint32(os.Geteuid())}.trust(st.Uid)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		if !trusted {
			return nil, ErrOwner
		}
		return createAt(fd, path, perm, links)
	case unix.S_IFCHR: // only root makes devices; a terminal belongs to who logged in
	default:
		if !trusted && st.Uid != dir.Uid {
			return nil, ErrOwner
		}
	}
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_WRONLY|os.O_TRUNC, 0)
}

// createAt creates the file to which a link leads.
func createAt(fd int, path string, perm os.FileMode, links int) (*os.File, error) {
	var in unix.Statfs_t
	if err := unix.Fstatfs(fd, &in); err != nil {
		return nil, err
	}
	if in.Type == unix.PROC_SUPER_MAGIC { // /proc/self/fd/1, which /dev/stdout leads to, may be no path
		return os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	}
	next, err := follow(fd, path)
	if err == nil && links == 0 {
		err = unix.ELOOP
	}
	if err != nil {
		return nil, err
	}
	return create(next, perm, links-1)
}

// processRoot matches the root directory of a process at the begin of a path.
var processRoot = regexp.MustCompile(`^/proc/[0-9]+/root(?:/|$)`)

// find returns a file descriptor that stands for a path (O_PATH), whatever kind of file it is.
func find(path string, flags uint64) (fd int, err error) {
	flags |= unix.O_PATH | unix.O_CLOEXEC
	if root := processRoot.FindString(path); root != "" && len(path) > len(root) {
		fd, err = findIn(root, path[len(root):], flags)
		// Linux before 5.6 lacks openat2; filters of containers may refuse system calls that they do not know.
		if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
			return fd, err
		}
	}
	return again(func() (int, error) { return unix.Open(path, int(flags), 0) })
}

// maxTries is how often a call is repeated that a signal interrupts, or a path that changes.
const maxTries = 100

func again(call func() (int, error)) (fd int, err error) {
	for range maxTries {
		fd, err = call()
		if err != unix.EINTR && err != unix.EAGAIN {
			break
		}
	}
	return fd, err
}

// findIn resolves a path as a process with this root directory would: neither "..", a link nor /proc leads outside.
func findIn(root, path string, flags uint64) (int, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(dir)
	how := unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	return again(func() (int, error) { return unix.Openat2(dir, path, &how) })
}

// reopen opens a file for reading, if it is regular.
func reopen(fd int, st *unix.Stat_t, path string) (*os.File, error) {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, ErrNotRegular
	}
	self := fmt.Sprintf("/proc/self/fd/%d", fd)
	fd, err := again(func() (int, error) { return unix.Open(self, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if errors.Is(err, os.ErrNotExist) { // without /proc
		return openSame(st, path)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openSame opens a path, if it still names the file.
func openSame(st *unix.Stat_t, path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	var now unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &now); err != nil || now.Dev != st.Dev || now.Ino != st.Ino {
		file.Close()
		return nil, ErrNotRegular
	}
	return file, nil
}

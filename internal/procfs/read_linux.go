package procfs

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// buffers hold a page of text, because the kernel returns at most about a page at once.
var buffers = sync.Pool{New: func() any { return new([1 << 15]byte) }}

// readFile returns the text of a small file of /proc. Package os takes three times as many
// system calls: it reads such files, whose size is unknown, in small parts, and tries to add
// them to the runtime's poller.
func readFile(path string) (string, error) {
	fd, err := retry(func() (int, error) { return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	buf := buffers.Get().(*[1 << 15]byte)
	defer buffers.Put(buf)
	var text []byte
	for part := buf[:]; ; {
		n, err := retry(func() (int, error) { return syscall.Read(fd, part) })
		switch {
		case err != nil:
			return "", &fs.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return string(text) + string(buf[:len(buf)-len(part)]), nil
		}
		if part = part[n:]; len(part) == 0 {
			text, part = append(text, buf[:]...), buf[:]
		}
	}
}

// retry calls a system call again if a signal interrupted it.
func retry(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != syscall.EINTR {
			return n, err
		}
	}
}

// spaceLeft returns how many bytes of address space this process may still take. Go itself takes 0.7 GB, mostly for
// tables of the memory that it will allocate.
func spaceLeft(statm string) uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &limit) != nil || limit.Cur == unix.RLIM_INFINITY {
		return math.MaxUint64
	}
	pages, _, _ := strings.Cut(statm, " ")
	taken, err := strconv.ParseUint(pages, 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return limit.Cur - min(taken*uint64(os.Getpagesize()), limit.Cur)
}

// CgroupID returns the ID of a cgroup, from the path of its directory: the kernel's file handle of that.
func CgroupID(path string) (uint64, error) {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	b := h.Bytes()
	if len(b) < 8 {
		return 0, fmt.Errorf("%s: not in a file system of cgroups", path)
	}
	return binary.LittleEndian.Uint64(b), nil
}

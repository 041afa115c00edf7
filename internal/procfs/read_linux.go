package procfs

import (
	"io/fs"
	"sync"
	"syscall"
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

package format

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Mapping is a file in memory: records borrowed from it cost no copy. It is an
// io.ReaderAt for Open.
type Mapping struct {
	b       []byte
	dropped int // where what was given back to the kernel ends
}

// Map maps a file as long as it is now.
func Map(f *os.File) (*Mapping, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() == 0 {
		return &Mapping{}, nil
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", f.Name(), err)
	}
	unix.Madvise(b, unix.MADV_SEQUENTIAL) // a hint
	return &Mapping{b: b}, nil
}

// Size is the file's size in bytes.
func (m *Mapping) Size() int64 { return int64(len(m.b)) }

// Close ends the mapping, and with it the life of all that was borrowed.
func (m *Mapping) Close() error {
	if m.b == nil {
		return nil
	}
	return unix.Munmap(m.b)
}

// ReadAt implements io.ReaderAt.
func (m *Mapping) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(p, m.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// dropStep is how far is read before what lies behind is dropped, dropSpan how
// far back, in bytes.
const (
	dropStep = 16 << 20
	dropSpan = 1 << 30
)

// drop tells the kernel that what lies well before pos is not needed, so that
// memory does not grow with the file. What is still borrowed from there comes
// back from the file when it is touched, and is dropped again with the next step.
func (m *Mapping) drop(pos int64) {
	if end := int(pos)&^(dropStep-1) - dropStep; end > m.dropped {
		unix.Madvise(m.b[max(0, end-dropSpan):end], unix.MADV_DONTNEED)
		m.dropped = end
	}
}

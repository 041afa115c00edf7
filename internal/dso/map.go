package dso

import (
	"debug/elf"
	"io"
	"os"
	"sync"
)

// mapping is a file mapped into memory.
type mapping struct {
	once sync.Once
	b    []byte
}

// Map returns the raw bytes of a section, mapped from the file if possible. The caller must not change them, nor use
// them after Close. If another process truncates the file, reading them faults.
func (im *Image) Map(s *elf.Section) ([]byte, error) {
	if s.Type == elf.SHT_NOBITS || s.FileSize == 0 {
		return nil, nil
	}
	im.mapped.open(im.r, im.Size)
	if b := im.mapped.b; s.Offset <= uint64(len(b)) && s.FileSize <= uint64(len(b))-s.Offset {
		return b[s.Offset : s.Offset+s.FileSize], nil
	}
	return im.Data(s)
}

// open maps r once, if it is a file.
func (m *mapping) open(r io.ReaderAt, size uint64) {
	m.once.Do(func() {
		f, ok := r.(*os.File)
		if !ok || size == 0 {
			return
		}
		m.b = mmap(f, size)
	})
}

// close unmaps the file. A later open maps nothing.
func (m *mapping) close() {
	m.once.Do(func() {})
	if b := m.b; b != nil {
		m.b = nil
		munmap(b)
	}
}

package dso

import (
	"debug/elf"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// mapping is the file in memory.
type mapping struct {
	once sync.Once
	b    []byte
}

// Map returns the raw bytes of a section, mapped from the file if possible. The
// caller must not change them, nor use them after Close. If the file is truncated
// meanwhile, reading them faults.
func (im *Image) Map(s *elf.Section) ([]byte, error) {
	if s.Type == elf.SHT_NOBITS || s.FileSize == 0 {
		return nil, nil
	}
	im.mapped.once.Do(im.mapFile)
	if b := im.mapped.b; s.Offset <= uint64(len(b)) && s.FileSize <= uint64(len(b))-s.Offset {
		return b[s.Offset : s.Offset+s.FileSize], nil
	}
	return im.Data(s)
}

// mapFile maps the file, if there is one; Map reads files that cannot be mapped.
func (im *Image) mapFile() {
	f, ok := im.r.(*os.File)
	if !ok || im.Size == 0 {
		return
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(im.Size), unix.PROT_READ, unix.MAP_PRIVATE)
	if err == nil {
		im.mapped.b = b
	}
}

func (im *Image) unmap() {
	im.mapped.once.Do(func() {})
	if b := im.mapped.b; b != nil {
		im.mapped.b = nil
		unix.Munmap(b) // of a slice that Mmap returned: it cannot fail
	}
}

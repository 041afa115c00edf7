package dso

import (
	"fmt"
	"io"

	"gperf/internal/procfs"
	"gperf/internal/procmem"
)

// OpenMemory opens the 64-bit ELF file that is mapped at ip in process pid, as the process's memory shows it: the
// file itself may be deleted, replaced or in another mount namespace. The image contains only the mapped parts of
// the file, and no sections. OpenMemory requires the right to read the memory. The error wraps ErrNoFile if the
// inode of the mapped file differs; inode 0 matches any file.
func OpenMemory(pid int32, ip, inode uint64) (*Image, error) {
	mem, err := procmem.Open(int(pid))
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	im, err := imageInMemory(mem, pid, ip, inode)
	if err != nil {
		mem.Close()
		return nil, err
	}
	im.close = mem.Close
	return im, nil
}

func imageInMemory(mem io.ReaderAt, pid int32, ip, inode uint64) (*Image, error) {
	parts, err := mappedParts(pid, ip, inode)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("memory of process %d at %#x", pid, ip)
	size := uint64(0)
	for _, p := range parts {
		size = max(size, p.off+p.n)
	}
	if size > 1<<62 {
		return nil, fmt.Errorf("read %s: %w", name, ErrNotELF)
	}
	return NewImage(&memoryFile{mem, parts}, int64(size), name)
}

// memoryFile reads a file from the memory of a process that maps it.
type memoryFile struct {
	mem   io.ReaderAt
	parts []mappedPart
}

// mappedPart is a part of a file, and where it is mapped in a process.
type mappedPart struct{ off, n, ip uint64 }

// mappedParts returns the mapped parts of the file at ip in a process. It leaves out writable parts, because the
// process may have changed the contents.
func mappedParts(pid int32, ip, inode uint64) (parts []mappedPart, err error) {
	maps, err := procfs.Maps(int(pid))
	if err != nil {
		return nil, err
	}
	type file struct {
		path         string
		major, minor uint32
		inode        uint64
	}
	of := func(m procfs.Mapping) file { return file{m.Path, m.Major, m.Minor, m.Inode} }
	var at file
	for m := range maps {
		if ip >= m.Start && ip < m.End {
			at = of(m)
		}
	}
	if at.path == "" || inode != 0 && at.inode != inode {
		return nil, fmt.Errorf("process %d at %#x: %w", pid, ip, ErrNoFile)
	}
	const readable, writable = 1, 2
	for m := range maps {
		if of(m) == at && m.Prot&readable != 0 && m.Prot&writable == 0 {
			parts = append(parts, mappedPart{m.Off, m.End - m.Start, m.Start})
		}
	}
	return parts, nil
}

// ReadAt implements io.ReaderAt for the file's bytes. The ELF header that it returns refers to no section headers,
// because these are not mapped.
func (f *memoryFile) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) {
		at := uint64(off) + uint64(n)
		ip, left, ok := f.find(at)
		if !ok {
			return n, fmt.Errorf("offset %#x is not mapped", at)
		}
		part := b[n:]
		part = part[:min(uint64(len(part)), left)]
		if _, err := f.mem.ReadAt(part, int64(ip)); err != nil {
			return n, err
		}
		n += len(part)
	}
	withoutSections(b, off)
	return n, nil
}

// find returns the ip of an offset, and the number of bytes that are mapped there.
func (f *memoryFile) find(off uint64) (ip, left uint64, ok bool) {
	for _, p := range f.parts {
		if off >= p.off && off-p.off < p.n {
			return p.ip + off - p.off, p.n - (off - p.off), true
		}
	}
	return 0, 0, false
}

// withoutSections clears the fields of a 64-bit ELF header that describe section headers (e_shoff; e_shnum and
// e_shstrndx), in the bytes read from off on.
func withoutSections(b []byte, off int64) {
	for _, field := range [][2]int64{{40, 48}, {60, 64}} {
		for at := max(field[0], off); at < min(field[1], off+int64(len(b))); at++ {
			b[at-off] = 0
		}
	}
}

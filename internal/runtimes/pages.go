package runtimes

import "io"

// pages reads memory in pages, each once: objects that refer to each other are often near each other, and a system call
// for each word takes most of the time. What it returns is as old as its first use.
type pages struct {
	mem   io.ReaderAt
	known map[uint64][]byte // by address
	free  [][]byte
}

const (
	pageSize = 4096
	maxPages = 64
)

// of makes the pages those of a process's memory as it is now.
func (p *pages) of(mem io.ReaderAt) *pages {
	p.mem = mem
	for _, b := range p.known {
		p.free = append(p.free, b)
	}
	clear(p.known)
	return p
}

// ReadAt implements io.ReaderAt. More than a page is read directly, and what is in pages that cannot be read as a whole.
func (p *pages) ReadAt(b []byte, addr int64) (int, error) {
	at := uint64(addr) &^ (pageSize - 1)
	off := uint64(addr) - at
	page := p.known[at]
	if page == nil && len(b) < pageSize && len(p.known) < maxPages {
		page = p.read(at)
	}
	if page == nil {
		return p.mem.ReadAt(b, addr)
	}
	n := copy(b, page[off:])
	if n == len(b) {
		return n, nil
	}
	more, err := p.ReadAt(b[n:], addr+int64(n))
	return n + more, err
}

// read reads a page, nil if that is not possible.
func (p *pages) read(at uint64) []byte {
	if len(p.free) == 0 {
		p.free = append(p.free, make([]byte, pageSize))
	}
	page := p.free[len(p.free)-1]
	if _, err := p.mem.ReadAt(page, int64(at)); err != nil {
		return nil
	}
	p.free = p.free[:len(p.free)-1]
	if p.known == nil {
		p.known = map[uint64][]byte{}
	}
	p.known[at] = page
	return page
}

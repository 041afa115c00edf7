package runtimes

import (
	"io"
	"sync"
)

// pages reads memory in pages, each once: objects that refer to each other are often near each other, and a system call
// for each word takes most of the time. What it returns is as old as its first use.
type pages struct {
	mem   io.ReaderAt
	known map[uint64]*page // by address
}

const (
	pageSize = 4096
	maxPages = 64
)

type page [pageSize]byte

var pagePool = sync.Pool{New: func() any { return new(page) }}

// newPages returns the pages of a process's memory, which have to be released.
func newPages(mem io.ReaderAt) *pages { return &pages{mem, map[uint64]*page{}} }

// release frees the pages.
func (p *pages) release() {
	for _, b := range p.known {
		pagePool.Put(b)
	}
	clear(p.known)
}

// ReadAt implements io.ReaderAt. More than a page is read directly, and what is in pages that cannot be read as a
// whole.
func (p *pages) ReadAt(b []byte, addr int64) (int, error) {
	at := uint64(addr) &^ (pageSize - 1)
	known := p.known[at]
	if known == nil && len(b) < pageSize && len(p.known) < maxPages {
		known = p.read(at)
	}
	if known == nil {
		return p.mem.ReadAt(b, addr)
	}
	n := copy(b, known[uint64(addr)-at:])
	if n == len(b) {
		return n, nil
	}
	more, err := p.ReadAt(b[n:], addr+int64(n))
	return n + more, err
}

// read reads a page, nil if that is not possible.
func (p *pages) read(at uint64) *page {
	b := pagePool.Get().(*page)
	if _, err := p.mem.ReadAt(b[:], int64(at)); err != nil {
		pagePool.Put(b)
		return nil
	}
	p.known[at] = b
	return b
}

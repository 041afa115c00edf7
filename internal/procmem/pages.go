// Package procmem reads the memory of other processes.
package procmem

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
)

// Open opens the memory of the program that a process runs now: reads fail once the process executes another one.
// Offsets in the file are addresses.
func Open(pid int) (*os.File, error) { return os.Open(fmt.Sprintf("/proc/%d/mem", pid)) }

const pageSize = 4096 // a divisor of all page sizes

type page [pageSize]byte

var pagePool = sync.Pool{New: func() any { return new(page) }}

// Pages reads memory in pages, each once: objects that refer to each other are often near each other, and a system
// call for each word takes most of the time. A result is as old as the first read of the page.
type Pages struct {
	mem   io.ReaderAt
	max   int
	known map[uint64]*page // by address
}

// NewPages returns the pages of a process's memory. It keeps at most max of them.
func NewPages(mem io.ReaderAt, max int) *Pages { return &Pages{mem, max, map[uint64]*page{}} }

// Vector is memory of which one system call can read several parts.
type Vector interface {
	// ReadEach reads a part at each address, up to the first one that cannot be read. It returns how many it has read.
	ReadEach(parts [][]byte, addrs []uint64) int
}

// Fetch reads the pages with these addresses in advance, with one system call if the memory is a Vector.
func (p *Pages) Fetch(addrs ...uint64) {
	mem, ok := p.mem.(Vector)
	if !ok {
		return
	}
	var at []uint64
	for _, addr := range addrs {
		addr &^= pageSize - 1
		if p.known[addr] == nil && !slices.Contains(at, addr) && len(p.known)+len(at) < p.max {
			at = append(at, addr)
		}
	}
	if len(at) > 1 {
		p.read(mem, at)
	}
}

// Again reads all pages another time. The memory may have changed.
func (p *Pages) Again() {
	at := slices.Collect(maps.Keys(p.known))
	mem, ok := p.mem.(Vector)
	p.Release()
	if ok && len(at) > 0 {
		p.read(mem, at)
	}
}

// read reads pages that are not known.
func (p *Pages) read(mem Vector, at []uint64) {
	pages, parts := make([]*page, len(at)), make([][]byte, len(at))
	for i := range at {
		pages[i] = pagePool.Get().(*page)
		parts[i] = pages[i][:]
	}
	n := mem.ReadEach(parts, at)
	for i, b := range pages {
		if i < n {
			p.known[at[i]] = b
		} else {
			pagePool.Put(b)
		}
	}
}

// Release frees the pages for the next user. It may be left out.
func (p *Pages) Release() {
	for _, b := range p.known {
		pagePool.Put(b)
	}
	clear(p.known)
}

// ReadAt implements io.ReaderAt. It reads more than a page directly, and also pages that cannot be read completely
// or are too many to keep.
func (p *Pages) ReadAt(b []byte, addr int64) (int, error) {
	if len(b) >= pageSize && p.known[uint64(addr)&^(pageSize-1)] == nil {
		return p.mem.ReadAt(b, addr)
	}
	rest, err := p.rest(uint64(addr))
	if err != nil {
		return p.mem.ReadAt(b, addr)
	}
	n := copy(b, rest)
	if n == len(b) {
		return n, nil
	}
	more, err := p.ReadAt(b[n:], addr+int64(n))
	return n + more, err
}

var errTooMuch = errors.New("too much memory to read")

// rest returns the bytes from an address to the end of the page.
func (p *Pages) rest(addr uint64) ([]byte, error) {
	at := addr &^ (pageSize - 1)
	if b := p.known[at]; b != nil {
		return b[addr-at:], nil
	}
	if len(p.known) >= p.max {
		return nil, errTooMuch
	}
	b := pagePool.Get().(*page)
	if _, err := p.mem.ReadAt(b[:], int64(at)); err != nil {
		pagePool.Put(b)
		return nil, fmt.Errorf("read memory at %#x: %w", at, err)
	}
	p.known[at] = b
	return b[addr-at:], nil
}

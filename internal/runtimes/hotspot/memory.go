package hotspot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	pageSize = 4096
	// maxPages limits what is read of a process; its tables have some hundred pages.
	maxPages = 4096
	// maxName limits the names in tables, in bytes.
	maxName = 128
)

// memory reads the memory of a process and keeps the pages that it has read. After the first error all reads return
// zeros: the caller checks err at the end.
type memory struct {
	from  io.ReaderAt
	pages map[uint64][]byte // by address
	err   error
}

func newMemory(from io.ReaderAt) *memory { return &memory{from: from, pages: map[uint64][]byte{}} }

var errTooMuch = errors.New("too much memory to read")

// page returns the page at an address, nil if it cannot be read.
func (m *memory) page(addr uint64) []byte {
	addr &^= pageSize - 1
	if p, ok := m.pages[addr]; ok || m.err != nil {
		return p
	}
	if len(m.pages) >= maxPages {
		m.err = errTooMuch
		return nil
	}
	p := make([]byte, pageSize)
	if _, err := m.from.ReadAt(p, int64(addr)); err != nil {
		m.err = fmt.Errorf("read memory at %#x: %w", addr, err)
		return nil
	}
	m.pages[addr] = p
	return p
}

// bytes fills b with the memory at addr.
func (m *memory) bytes(b []byte, addr uint64) {
	for len(b) > 0 {
		p := m.page(addr)
		if p == nil {
			return
		}
		n := copy(b, p[addr%pageSize:])
		b, addr = b[n:], addr+uint64(n)
	}
}

func (m *memory) word(addr uint64) uint64 {
	var b [8]byte
	m.bytes(b[:], addr)
	return binary.LittleEndian.Uint64(b[:])
}

func (m *memory) int32(addr uint64) int32 {
	var b [4]byte
	m.bytes(b[:], addr)
	return int32(binary.LittleEndian.Uint32(b[:]))
}

func (m *memory) uint16(addr uint64) uint16 {
	var b [2]byte
	m.bytes(b[:], addr)
	return binary.LittleEndian.Uint16(b[:])
}

// part returns the memory between two addresses, nothing if there is too much of it.
func (m *memory) part(from, to uint64) []byte {
	if from >= to || to-from > maxPart {
		return nil
	}
	b := make([]byte, to-from)
	m.bytes(b, from)
	return b
}

// name returns the string at addr, "" for a null pointer. It truncates long strings.
func (m *memory) name(addr uint64) string {
	if addr == 0 {
		return ""
	}
	var s []byte
	for len(s) < maxName {
		p := m.page(addr)
		if p == nil {
			return ""
		}
		p = p[addr%pageSize:]
		if i := bytes.IndexByte(p, 0); i >= 0 {
			return string(append(s, p[:min(i, maxName)]...))
		}
		s, addr = append(s, p...), addr+uint64(len(p))
	}
	return string(s[:maxName])
}

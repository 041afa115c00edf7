package procmem

import (
	"bytes"
	"encoding/binary"
	"io"
)

// Cursor reads the values of a little-endian process. After the first error all reads return zeros: the caller checks
// Err at the end.
type Cursor struct {
	Err   error
	pages *Pages
}

// NewCursor returns a cursor that reads at most max pages.
func NewCursor(mem io.ReaderAt, max int) *Cursor { return &Cursor{pages: NewPages(mem, max)} }

// Again returns a cursor that reads the memory as it is now.
func (c *Cursor) Again() *Cursor { return NewCursor(c.pages.mem, c.pages.max) }

// rest returns the bytes from an address to the end of the page, nil after an error.
func (c *Cursor) rest(addr uint64) (b []byte) {
	if c.Err == nil {
		b, c.Err = c.pages.rest(addr)
	}
	return b
}

// Bytes fills b with the memory at addr.
func (c *Cursor) Bytes(b []byte, addr uint64) {
	for len(b) > 0 {
		rest := c.rest(addr)
		if rest == nil {
			return
		}
		n := copy(b, rest)
		b, addr = b[n:], addr+uint64(n)
	}
}

// Word returns the 64-bit word at addr.
func (c *Cursor) Word(addr uint64) uint64 {
	var b [8]byte
	c.Bytes(b[:], addr)
	return binary.LittleEndian.Uint64(b[:])
}

// Int32 returns the signed 32-bit number at addr.
func (c *Cursor) Int32(addr uint64) int32 {
	var b [4]byte
	c.Bytes(b[:], addr)
	return int32(binary.LittleEndian.Uint32(b[:]))
}

// Uint16 returns the 16-bit number at addr.
func (c *Cursor) Uint16(addr uint64) uint16 {
	var b [2]byte
	c.Bytes(b[:], addr)
	return binary.LittleEndian.Uint16(b[:])
}

// Part returns the memory between two addresses, nil if it is more than max bytes.
func (c *Cursor) Part(from, to, max uint64) []byte {
	if from >= to || to-from > max {
		return nil
	}
	b := make([]byte, to-from)
	c.Bytes(b, from)
	return b
}

// String returns the string at addr that a zero byte ends, "" for a null pointer. It truncates it to max bytes.
func (c *Cursor) String(addr uint64, max int) string {
	if addr == 0 {
		return ""
	}
	var s []byte
	for len(s) < max {
		rest := c.rest(addr)
		if rest == nil {
			return ""
		}
		if i := bytes.IndexByte(rest, 0); i >= 0 {
			return string(append(s, rest[:min(i, max)]...))
		}
		s, addr = append(s, rest...), addr+uint64(len(rest))
	}
	return string(s[:max])
}

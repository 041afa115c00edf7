// Package dwarf decodes bytes of ELF sections: numbers, with LEB128 (DWARF 5, section 7.6), strings, and lists of
// address ranges and of locations. It names the operations of expressions; callers interpret them.
package dwarf

import (
	"bytes"
	"encoding/binary"
)

// Cursor reads a section from a position on. Positions count from the section's beginning, because encoded pointers
// and references are relative to the position where they are stored. A read past the end returns zero and sets Bad,
// which stays set: a decoder checks it once, after many fields.
type Cursor struct {
	B   []byte // up to the limit of reading
	Pos int    // of the next byte
	Big bool   // numbers are big-endian
	Bad bool
}

// Fail sets Bad and moves the cursor to the end.
func (c *Cursor) Fail() { c.Bad, c.Pos = true, len(c.B) }

// Left returns the number of unread bytes.
func (c *Cursor) Left() int { return len(c.B) - c.Pos }

// Seek moves to an offset, which may come from the file: an offset past the end sets Bad.
func (c *Cursor) Seek(pos uint64) {
	if pos > uint64(len(c.B)) {
		c.Fail()
		return
	}
	c.Pos = int(pos)
}

// Skip skips n bytes.
func (c *Cursor) Skip(n uint64) {
	if n > uint64(c.Left()) {
		c.Fail()
		return
	}
	c.Pos += int(n)
}

// Bytes returns the next n bytes, a slice of B, or nil if fewer are left.
func (c *Cursor) Bytes(n uint64) []byte {
	start := c.Pos
	if c.Skip(n); c.Bad {
		return nil
	}
	return c.B[start:c.Pos]
}

// U8 reads a byte.
func (c *Cursor) U8() uint8 {
	if c.Pos >= len(c.B) {
		c.Fail()
		return 0
	}
	c.Pos++
	return c.B[c.Pos-1]
}

// U16 reads an unsigned number of 2 bytes.
func (c *Cursor) U16() uint16 {
	b := c.Bytes(2)
	switch {
	case b == nil:
		return 0
	case c.Big:
		return binary.BigEndian.Uint16(b)
	}
	return binary.LittleEndian.Uint16(b)
}

// U32 reads an unsigned number of 4 bytes.
func (c *Cursor) U32() uint32 {
	b := c.Bytes(4)
	switch {
	case b == nil:
		return 0
	case c.Big:
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

// U64 reads an unsigned number of 8 bytes.
func (c *Cursor) U64() uint64 {
	b := c.Bytes(8)
	switch {
	case b == nil:
		return 0
	case c.Big:
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

// Uint reads an unsigned number of 1, 2, 3, 4 or 8 bytes; other sizes set Bad.
func (c *Cursor) Uint(size int) uint64 {
	switch size {
	case 1:
		return uint64(c.U8())
	case 2:
		return uint64(c.U16())
	case 3:
		b := c.Bytes(3)
		switch {
		case b == nil:
			return 0
		case c.Big:
			return uint64(b[0])<<16 | uint64(b[1])<<8 | uint64(b[2])
		}
		return uint64(b[2])<<16 | uint64(b[1])<<8 | uint64(b[0])
	case 4:
		return uint64(c.U32())
	case 8:
		return c.U64()
	}
	c.Fail()
	return 0
}

// Int reads a signed number of 1, 2, 4 or 8 bytes.
func (c *Cursor) Int(size int) int64 {
	shift := uint(64 - 8*size)
	return int64(c.Uint(size)<<shift) >> shift
}

// ULEB reads an unsigned LEB128 number; bits past the 64th are dropped.
func (c *Cursor) ULEB() uint64 {
	if c.Pos < len(c.B) && c.B[c.Pos] < 0x80 {
		c.Pos++
		return uint64(c.B[c.Pos-1])
	}
	return c.ulebLong()
}

func (c *Cursor) ulebLong() (v uint64) {
	for shift := uint(0); ; shift += 7 {
		b := c.U8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b < 0x80 || c.Bad {
			return v
		}
	}
}

// SLEB reads a signed LEB128 number; bits past the 64th are dropped.
func (c *Cursor) SLEB() (v int64) {
	for shift := uint(0); ; {
		b := c.U8()
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		shift += 7
		if b < 0x80 || c.Bad {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// CString reads a NUL-terminated string, without the NUL. The result shares the memory of B.
func (c *Cursor) CString() []byte {
	n := bytes.IndexByte(c.B[c.Pos:], 0)
	if n < 0 {
		c.Fail()
		return nil
	}
	s := c.B[c.Pos : c.Pos+n]
	c.Pos += n + 1
	return s
}

// Length reads an initial length (DWARF 5, section 7.4). It returns the number of bytes after
// it, and the size of offsets in them: 4 or 8 bytes.
func (c *Cursor) Length() (n uint64, offset int) {
	n = uint64(c.U32())
	switch {
	case n == 0xffffffff:
		return c.U64(), 8
	case n >= 0xfffffff0:
		c.Fail()
	}
	return n, 4
}

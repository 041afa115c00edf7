package srcline

import (
	"bytes"
	"encoding/binary"
)

// cursor reads a section of DWARF. A read past the end gives zero and sets bad
// for good, so that decoders need no error after every field.
type cursor struct {
	b   []byte
	pos int
	big bool // numbers are big-endian
	bad bool
}

func (c *cursor) fail() { c.bad, c.pos = true, len(c.b) }

func (c *cursor) left() int { return len(c.b) - c.pos }

// seek goes to an offset that the file told.
func (c *cursor) seek(pos uint64) {
	if pos > uint64(len(c.b)) {
		c.fail()
		return
	}
	c.pos = int(pos)
}

// skip passes over n bytes.
func (c *cursor) skip(n uint64) {
	if n > uint64(c.left()) {
		c.fail()
		return
	}
	c.pos += int(n)
}

// bytes returns the next n bytes, none if there are fewer.
func (c *cursor) bytes(n uint64) []byte {
	start := c.pos
	if c.skip(n); c.bad {
		return nil
	}
	return c.b[start:c.pos]
}

func (c *cursor) u8() uint8 {
	if c.pos >= len(c.b) {
		c.fail()
		return 0
	}
	c.pos++
	return c.b[c.pos-1]
}

func (c *cursor) u16() uint16 {
	b := c.bytes(2)
	switch {
	case b == nil:
		return 0
	case c.big:
		return binary.BigEndian.Uint16(b)
	}
	return binary.LittleEndian.Uint16(b)
}

func (c *cursor) u32() uint32 {
	b := c.bytes(4)
	switch {
	case b == nil:
		return 0
	case c.big:
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

func (c *cursor) u64() uint64 {
	b := c.bytes(8)
	switch {
	case b == nil:
		return 0
	case c.big:
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

// uint reads an unsigned number of 1, 2, 3, 4 or 8 bytes.
func (c *cursor) uint(size int) uint64 {
	switch size {
	case 1:
		return uint64(c.u8())
	case 2:
		return uint64(c.u16())
	case 3:
		b := c.bytes(3)
		switch {
		case b == nil:
			return 0
		case c.big:
			return uint64(b[0])<<16 | uint64(b[1])<<8 | uint64(b[2])
		}
		return uint64(b[2])<<16 | uint64(b[1])<<8 | uint64(b[0])
	case 4:
		return uint64(c.u32())
	case 8:
		return c.u64()
	}
	c.fail()
	return 0
}

// uleb reads an unsigned LEB128 number; bits past the 64th are dropped.
func (c *cursor) uleb() uint64 {
	if c.pos < len(c.b) && c.b[c.pos] < 0x80 {
		c.pos++
		return uint64(c.b[c.pos-1])
	}
	return c.ulebLong()
}

func (c *cursor) ulebLong() (v uint64) {
	for shift := uint(0); ; shift += 7 {
		b := c.u8()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b < 0x80 || c.bad {
			return v
		}
	}
}

// sleb reads a signed LEB128 number.
func (c *cursor) sleb() (v int64) {
	for shift := uint(0); ; {
		b := c.u8()
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		shift += 7
		if b < 0x80 || c.bad {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// cstring reads a NUL-terminated string, without its NUL.
func (c *cursor) cstring() []byte {
	n := bytes.IndexByte(c.b[c.pos:], 0)
	if n < 0 {
		c.fail()
		return nil
	}
	s := c.b[c.pos : c.pos+n]
	c.pos += n + 1
	return s
}

// length reads an initial length: of what follows, and the size of offsets in it,
// 4 or 8 bytes.
func (c *cursor) length() (n uint64, offset int) {
	n = uint64(c.u32())
	switch {
	case n == 0xffffffff:
		return c.u64(), 8
	case n >= 0xfffffff0:
		c.fail()
	}
	return n, 4
}

package unwind

import "encoding/binary"

// cursor reads a section. Positions count from the section's beginning, since
// encoded pointers and expressions are relative to their place. A read past the
// end gives zero and sets bad for good, so that decoders need no error after
// every field. Everything is little-endian, as x86-64 and arm64 are.
type cursor struct {
	b   []byte // up to the end of what may be read
	pos int
	bad bool
}

func (c *cursor) fail() { c.bad, c.pos = true, len(c.b) }

func (c *cursor) left() int { return len(c.b) - c.pos }

func (c *cursor) u8() uint8 {
	if c.pos >= len(c.b) {
		c.fail()
		return 0
	}
	v := c.b[c.pos]
	c.pos++
	return v
}

func (c *cursor) u16() uint16 {
	if c.left() < 2 {
		c.fail()
		return 0
	}
	v := binary.LittleEndian.Uint16(c.b[c.pos:])
	c.pos += 2
	return v
}

func (c *cursor) u32() uint32 {
	if c.left() < 4 {
		c.fail()
		return 0
	}
	v := binary.LittleEndian.Uint32(c.b[c.pos:])
	c.pos += 4
	return v
}

func (c *cursor) u64() uint64 {
	if c.left() < 8 {
		c.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(c.b[c.pos:])
	c.pos += 8
	return v
}

// uint reads an unsigned number of 1, 2, 4 or 8 bytes.
func (c *cursor) uint(size int) uint64 {
	switch size {
	case 1:
		return uint64(c.u8())
	case 2:
		return uint64(c.u16())
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

// skip passes over n bytes.
func (c *cursor) skip(n uint64) {
	if n > uint64(c.left()) {
		c.fail()
		return
	}
	c.pos += int(n)
}

// cstring reads a NUL-terminated string.
func (c *cursor) cstring() string {
	start := c.pos
	for c.u8() != 0 {
	}
	if c.bad {
		return ""
	}
	return string(c.b[start : c.pos-1])
}

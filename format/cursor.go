package format

import "encoding/binary"

// cursor reads a record field by field. A read past the end sets short and
// yields zeros from then on, so that decoders need one check, at their end.
type cursor struct {
	b     []byte
	order binary.ByteOrder
	short bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.short, c.b = true, nil
		return nil
	}
	p := c.b[:n:n]
	c.b = c.b[n:]
	return p
}

func (c *cursor) u64() uint64 {
	if p := c.take(8); p != nil {
		return c.order.Uint64(p)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if p := c.take(4); p != nil {
		return c.order.Uint32(p)
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if p := c.take(2); p != nil {
		return c.order.Uint16(p)
	}
	return 0
}

func (c *cursor) u8() uint8 {
	if p := c.take(1); p != nil {
		return p[0]
	}
	return 0
}

// words takes n 64-bit words as bytes. n comes from the file: it is compared
// with what is there before it is multiplied.
func (c *cursor) words(n uint64) []byte {
	if n > uint64(len(c.b))/8 {
		c.short, c.b = true, nil
		return nil
	}
	return c.take(int(n) * 8)
}

// cstring takes the whole rest and returns it up to its first NUL.
func (c *cursor) cstring() string {
	s := cstring(c.b)
	c.b = nil
	return s
}

// str takes a feature section's string: a u32 length, which counts padding,
// and that many bytes, NUL-terminated.
func (c *cursor) str() string {
	return cstring(c.take(int(c.u32())))
}

func cstring(b []byte) string {
	for i, x := range b {
		if x == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

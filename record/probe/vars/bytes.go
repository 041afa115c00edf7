package vars

import "encoding/binary"

// cursor reads numbers of DWARF. Behind the end there are zeros, and bad is set.
type cursor struct {
	b     []byte
	order binary.ByteOrder
	bad   bool
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.bad, c.b = true, nil
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

// uint reads n bytes, 1, 2, 4 or 8.
func (c *cursor) uint(n int) uint64 {
	b := c.bytes(uint64(n))
	switch {
	case b == nil:
		return 0
	case n == 1:
		return uint64(b[0])
	case n == 2:
		return uint64(c.order.Uint16(b))
	case n == 4:
		return uint64(c.order.Uint32(b))
	}
	return c.order.Uint64(b)
}

// int is uint with a sign.
func (c *cursor) int(n int) int64 {
	shift := 64 - 8*n
	return int64(c.uint(n)<<shift) >> shift
}

func (c *cursor) uleb() (v uint64) {
	for shift := 0; ; shift += 7 {
		b := c.uint(1)
		v |= b & 0x7f << shift
		if b < 0x80 {
			return v
		}
	}
}

func (c *cursor) sleb() (v int64) {
	for shift := 0; ; {
		b := c.uint(1)
		v |= int64(b&0x7f) << shift
		shift += 7
		if b < 0x80 {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

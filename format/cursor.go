package format

import (
	"bytes"
	"fmt"
)

// cursor reads a record field by field. A read beyond the end sets short, and it and all further reads return zeros. So
// decoders need only one check, at their end.
type cursor struct {
	b     []byte
	order Order
	short bool
	tail  int    // size of the sample id after b, in bytes
	nr    uint64 // the count that exceeds the record; 0 if a single field does
}

// lacking returns the name of the part at which the bytes end, with its count if that is too large.
func (c *cursor) lacking(part string) string {
	if c.nr == 0 {
		return part
	}
	return fmt.Sprintf("%s (nr %d)", part, c.nr)
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.short, c.b, c.tail = true, nil, 0
		return nil
	}
	p := c.b[:n:n]
	c.b = c.b[n:]
	return p
}

// uint reads a number of 1, 2, 4 or 8 bytes.
func (c *cursor) uint(size int) uint64 {
	switch size {
	case 1:
		return uint64(c.u8())
	case 2:
		return uint64(c.u16())
	case 4:
		return uint64(c.u32())
	}
	return c.u64()
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

// words reads n 64-bit words as bytes. n comes from the file: words compares it with the bytes left before it
// multiplies.
func (c *cursor) words(n uint64) []byte { return c.entries(n, 8).b }

// entries reads n entries of size bytes each. n comes from the file.
func (c *cursor) entries(n uint64, size int) cursor {
	if n > uint64(len(c.b)/size) {
		if !c.short {
			c.nr = n
		}
		c.short, c.b, c.tail = true, nil, 0
		return cursor{order: c.order}
	}
	return cursor{b: c.take(int(n) * size), order: c.order}
}

// maxName is PATH_MAX, in bytes. It limits the names in corrupt files, which may be part of each sample's text.
const maxName = 4096

// name reads the rest, a string with its NUL and padding, and truncates it to maxName. If the NUL is missing, the
// string continues in the sample id, as in perf.
func (c *cursor) name() string {
	n := bytes.IndexByte(c.b[:len(c.b)+c.tail], 0)
	if n < 0 {
		c.take(len(c.b) + 1)
		return ""
	}
	s := string(c.b[:min(n, maxName)])
	c.b = nil
	return s
}

// cstring reads the rest and returns it up to the first NUL, truncated to maxName.
func (c *cursor) cstring() string {
	s := cstring(c.b[:min(len(c.b), maxName)])
	c.b = nil
	return s
}

// str reads a feature section's string: a u32 length, which includes padding, and that number of bytes,
// NUL-terminated.
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

// list reads a u32 number of elements, and these.
func list[T any](c *cursor, read func(*cursor) T) (l []T) {
	for n := c.u32(); n > 0 && !c.short; n-- {
		l = append(l, read(c))
	}
	return l
}

package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// cursor reads a record field by field. A read past the end sets short and
// yields zeros from then on, so that decoders need one check, at their end.
type cursor struct {
	b     []byte
	order binary.ByteOrder
	short bool
	tail  int    // bytes of a sample id after b
	nr    uint64 // the count in the record that asked for more than there was; 0 when it was a field
}

// lacking names the part at which the bytes ended, and its count if the count was
// too large.
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

// words takes n 64-bit words as bytes. n comes from the file, so it is checked
// against the bytes left before it is multiplied.
func (c *cursor) words(n uint64) []byte { return c.entries(n, 8).b }

// entries takes n entries of size bytes each. n comes from the file.
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

// maxName is PATH_MAX, in bytes. A longer name in a record is an attempt to blow up
// the text of each sample.
const maxName = 4096

// name takes the rest, a string with its NUL and padding, and returns it up to
// maxName. Without a NUL it continues in the sample id, as perf reads it.
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

// cstring takes the rest and returns it up to its first NUL, and to maxName.
func (c *cursor) cstring() string {
	s := cstring(c.b[:min(len(c.b), maxName)])
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

package dwarf

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

// Both byte orders; values that do not depend on the order read the same.
func TestNumbers(t *testing.T) {
	b := []byte{0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0}
	for _, c := range []struct {
		size        int
		little, big uint64
	}{
		{1, 0x12, 0x12},
		{2, 0x3412, 0x1234},
		{3, 0x563412, 0x123456},
		{4, 0x78563412, 0x12345678},
		{8, 0xf0debc9a78563412, 0x123456789abcdef0},
	} {
		for big, want := range map[bool]uint64{false: c.little, true: c.big} {
			r := Cursor{B: b, Big: big}
			if got := r.Uint(c.size); got != want || r.Bad || r.Pos != c.size {
				t.Errorf("%d bytes, big %v: %#x up to %d, bad %v; want %#x", c.size, big, got, r.Pos, r.Bad, want)
			}
			r = Cursor{B: b[:c.size-1], Big: big}
			if got := r.Uint(c.size); got != 0 || !r.Bad || r.Left() != 0 {
				t.Errorf("%d of %d bytes, big %v: %#x, bad %v, %d left; want 0, and all is over", c.size-1, c.size, big,
					got, r.Bad, r.Left())
			}
		}
	}
	for _, size := range []int{-1, 0, 5, 9, 16} {
		r := Cursor{B: make([]byte, 32)}
		if u, i := r.Uint(size), r.Int(size); u != 0 || i != 0 || !r.Bad {
			t.Errorf("a number of %d bytes: %d, %d, bad %v; want damage", size, u, i, r.Bad)
		}
	}
}

func TestSigned(t *testing.T) {
	for _, c := range []struct {
		b    []byte
		want int64
	}{
		{[]byte{0x7f}, 127},
		{[]byte{0x80}, -128},
		{[]byte{0xfe, 0xff}, -2},
		{[]byte{0xff, 0xff, 0x7f}, 0x7fffff},
		{[]byte{0, 0, 0, 0x80}, math.MinInt32},
		{[]byte{0, 0, 0, 0, 0, 0, 0, 0x80}, math.MinInt64},
	} {
		r := Cursor{B: c.b}
		if got := r.Int(len(c.b)); got != c.want || r.Bad {
			t.Errorf("% x: %d, bad %v; want %d", c.b, got, r.Bad, c.want)
		}
	}
}

// The examples are from DWARF 5, section 7.6, and from the edges of 64 bits.
func TestLEB(t *testing.T) {
	ff := bytes.Repeat([]byte{0xff}, 20)
	for _, c := range []struct {
		b    []byte
		u    uint64
		s    int64
		n    int // bytes read
		ends bool
	}{
		{[]byte{2}, 2, 2, 1, true},
		{[]byte{0x7f}, 127, -1, 1, true},
		{[]byte{0x80, 1}, 128, 128, 2, true},
		{[]byte{0xb9, 0x64}, 12857, 12857 - 1<<14, 2, true},
		{[]byte{0x80, 0x7f}, 0x3f80, -128, 2, true},
		{[]byte{0x81, 0x80, 0x80, 0, 5}, 1, 1, 4, true}, // padded
		{append(bytes.Clone(ff[:9]), 1), math.MaxUint64, -1, 10, true},
		{append(bytes.Clone(ff[:9]), 0x7f), math.MaxUint64, -1, 10, true},
		{append(bytes.Repeat([]byte{0x80}, 9), 0x7f), 1 << 63, math.MinInt64, 10, true},
		{append(bytes.Clone(ff), 0), math.MaxUint64, -1, 21, true}, // bits that no number contains
		{[]byte{0x82}, 2, 2, 1, false},
		{nil, 0, 0, 0, false},
	} {
		for _, big := range []bool{false, true} {
			r := Cursor{B: c.b, Big: big}
			if got := r.ULEB(); got != c.u || r.Pos != c.n || r.Bad == c.ends {
				t.Errorf("% x, unsigned: %d up to %d, bad %v; want %d up to %d", c.b, got, r.Pos, r.Bad, c.u, c.n)
			}
			r = Cursor{B: c.b, Big: big}
			if got := r.SLEB(); got != c.s || r.Pos != c.n || r.Bad == c.ends {
				t.Errorf("% x, signed: %d up to %d, bad %v; want %d up to %d", c.b, got, r.Pos, r.Bad, c.s, c.n)
			}
		}
	}
}

func TestBytes(t *testing.T) {
	r := Cursor{B: []byte("ab\x00\x00cdef")}
	if s, none, b := r.CString(), r.CString(), r.Bytes(2); string(s) != "ab" || none == nil || len(none) != 0 ||
		string(b) != "cd" || r.Left() != 2 {
		t.Errorf("%q, %q, %q, %d left; want ab, an empty string, cd and 2", s, none, b, r.Left())
	}
	if b := r.Bytes(0); b == nil || r.Bad {
		t.Errorf("no bytes at all: %v, bad %v; want what is empty, not missing", b, r.Bad)
	}
	r.Seek(8)
	if r.Bad || r.Left() != 0 {
		t.Errorf("the end: bad %v, %d left; want a place to be", r.Bad, r.Left())
	}
	for name, read := range map[string]func(*Cursor) []byte{
		"a string without its NUL": func(c *Cursor) []byte { return c.CString() },
		"bytes":                    func(c *Cursor) []byte { return c.Bytes(5) },
		"more than there can be":   func(c *Cursor) []byte { return c.Bytes(math.MaxUint64) },
		"a skip":                   func(c *Cursor) []byte { c.Skip(math.MaxUint64); return c.Bytes(0) },
		"a place":                  func(c *Cursor) []byte { c.Seek(9); return c.Bytes(0) },
	} {
		r := Cursor{B: []byte("ab\x00\x00cdef"), Pos: 4}
		if b := read(&r); b != nil || !r.Bad || r.Left() != 0 {
			t.Errorf("%s past the end: %q, bad %v, %d left; want nothing, and all is over", name, b, r.Bad, r.Left())
		}
	}
}

func TestLength(t *testing.T) {
	for _, c := range []struct {
		b      []byte
		n      uint64
		offset int
		bad    bool
	}{
		{[]byte{0x10, 0, 0, 0}, 0x10, 4, false},
		{[]byte{0xef, 0xff, 0xff, 0xff}, 0xffffffef, 4, false},
		{[]byte{0xff, 0xff, 0xff, 0xff, 0x20, 0, 0, 0, 0, 0, 0, 0}, 0x20, 8, false},
		{[]byte{0xf0, 0xff, 0xff, 0xff}, 0xfffffff0, 4, true}, // reserved
		{[]byte{0xff, 0xff, 0xff, 0xff, 0x20}, 0, 8, true},
		{[]byte{0x10}, 0, 4, true},
	} {
		r := Cursor{B: c.b}
		if n, offset := r.Length(); n != c.n || offset != c.offset || r.Bad != c.bad {
			t.Errorf("% x: %#x, offsets of %d, bad %v; want %#x, %d, %v", c.b, n, offset, r.Bad, c.n, c.offset, c.bad)
		}
	}
}

// FuzzCursor reads bytes as the ops say: the cursor stays inside, damage stays, and
// until then the standard library reads unsigned LEB128 alike as far as it does.
func FuzzCursor(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
		[]byte("\x81\x01\x7f\x34\x12abc\x00\x04\x00\x00\x00more, and a bit of text after it"), false)
	f.Add([]byte{9, 4, 4, 5, 5}, append(bytes.Repeat([]byte{0xff}, 12), 1, 2, 3), true)
	f.Add([]byte{7, 8, 0}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, false)
	f.Add([]byte("0\a\""), []byte("0000000\x890"), true) // goes back after damage
	f.Fuzz(func(t *testing.T, ops, b []byte, big bool) {
		c := Cursor{B: b, Big: big}
		for _, op := range ops {
			before := c
			switch op % 10 {
			case 0:
				c.U8()
			case 1:
				c.Uint(int(op / 10))
			case 2:
				c.Int(int(op / 10))
			case 3:
				c.Skip(c.ULEB())
			case 4:
				want, n := binary.Uvarint(b[c.Pos:])
				if got := c.ULEB(); n > 0 && !before.Bad && (got != want || c.Pos != before.Pos+n) {
					t.Fatalf("% x: %d up to %d, want %d up to %d", b[before.Pos:], got, c.Pos, want, before.Pos+n)
				}
			case 5:
				c.SLEB()
			case 6:
				if s := c.CString(); !c.Bad && len(s) != c.Pos-before.Pos-1 {
					t.Fatalf("a string of %d bytes from %d to %d", len(s), before.Pos, c.Pos)
				}
			case 7:
				c.Seek(uint64(op))
			case 8:
				c.Bytes(uint64(op))
			case 9:
				c.Length()
			}
			if c.Pos < 0 || c.Pos > len(b) || before.Bad && !c.Bad || c.Bad && !before.Bad && c.Pos != len(b) {
				t.Fatalf("op %d led from %d, bad %v, to %d, bad %v, of %d bytes", op, before.Pos, before.Bad, c.Pos,
					c.Bad, len(b))
			}
		}
	})
}

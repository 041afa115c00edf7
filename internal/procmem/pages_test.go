package procmem

import (
	"bytes"
	"testing"

	"gperf/internal/testutil/inputs"
)

// countedMemory counts how often it is read.
type countedMemory struct {
	inputs.Memory
	reads *int
}

func (m countedMemory) ReadAt(b []byte, addr int64) (int, error) {
	*m.reads++
	return m.Memory.ReadAt(b, addr)
}

// TestPages reads words in the same pages, across pages, in a page that is not mapped as a whole, and in none.
func TestPages(t *testing.T) {
	whole := make([]byte, 2*pageSize)
	for i := range whole {
		whole[i] = byte(i % 251)
	}
	reads := 0
	mem := countedMemory{inputs.Memory{0x10000: whole, 0x20000: whole[:100], 0x40000: whole}, &reads}
	p := NewPages(mem, 64)
	for _, c := range []struct {
		name    string
		addr    int64
		n       int
		want    []byte
		reads   int // since the start
		unknown bool
	}{
		{name: "a page", addr: 0x10008, n: 8, want: whole[8:16], reads: 1},
		{name: "again", addr: 0x10010, n: 100, want: whole[16:116], reads: 1},
		{name: "across pages", addr: 0x10ff8, n: 16, want: whole[0xff8:0x1008], reads: 2},
		{name: "the second page", addr: 0x11100, n: 8, want: whole[0x1100:0x1108], reads: 2},
		{name: "both pages", addr: 0x10000, n: 2 * pageSize, want: whole, reads: 2},
		{name: "more than a page", addr: 0x40000, n: 2 * pageSize, want: whole, reads: 3},
		{name: "a part of a page", addr: 0x20008, n: 8, want: whole[8:16], reads: 5},
		{name: "no memory", addr: 0x30000, n: 8, reads: 7, unknown: true},
		{name: "past the end", addr: 0x11ffc, n: 8, reads: 9, unknown: true},
	} {
		b := make([]byte, c.n)
		n, err := p.ReadAt(b, c.addr)
		if c.unknown != (err != nil) || err == nil && (n != c.n || !bytes.Equal(b, c.want)) {
			t.Errorf("%s: %d bytes, %v", c.name, n, err)
		}
		if reads != c.reads {
			t.Errorf("%s: %d reads, want %d", c.name, reads, c.reads)
		}
	}
	whole[8] = 77
	b := make([]byte, 1)
	if p.ReadAt(b, 0x10008); b[0] == 77 {
		t.Error("a page was read again")
	}
	p.Release()
	if p.ReadAt(b, 0x10008); b[0] != 77 {
		t.Error("an old page was used again")
	}
}

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

// vectorMemory counts vectors as reads.
type vectorMemory struct{ countedMemory }

func (m vectorMemory) ReadEach(parts [][]byte, addrs []uint64) int {
	*m.reads++
	for i, b := range parts {
		if n, err := m.Memory.ReadAt(b, int64(addrs[i])); err != nil || n < len(b) {
			return i
		}
	}
	return len(parts)
}

// TestPagesFetched: pages that are read in advance cost one read, and those that cannot be read one more when they are
// needed.
func TestPagesFetched(t *testing.T) {
	whole := bytes.Repeat([]byte{1}, 4*pageSize)
	reads := 0
	p := NewPages(vectorMemory{countedMemory{inputs.Memory{0x10000: whole, 0x20000: whole[:8]}, &reads}}, 3)
	at := func(addr int64, wantReads int, want byte) {
		t.Helper()
		b := make([]byte, 1)
		if _, err := p.ReadAt(b, addr); err != nil || b[0] != want || reads != wantReads {
			t.Errorf("%#x: %d, %v, %d reads; want %d, %d reads", addr, b[0], err, reads, want, wantReads)
		}
	}
	p.Fetch(0x10001, 0x10fff, 0x11000, 0x20000)
	at(0x10002, 1, 1)
	at(0x11ffe, 1, 1)
	at(0x20000, 3, 1) // not as a page, and then alone
	p.Fetch(0x10000)  // known
	p.Fetch(0x13000)  // one page is read when it is needed
	whole[0] = 2
	at(0x10000, 3, 1)
	p.Again()
	at(0x10000, 4, 2)
	at(0x11000, 4, 1)
	p.Fetch(0x12000, 0x13000) // only one more is kept
	at(0x12000, 5, 1)
	at(0x13000, 6, 1)
	p.Release()
	at(0x10000, 7, 2)
}

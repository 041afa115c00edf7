// Package inputs makes inputs for tests: network packets, ELF files with sections that are very large without
// compression, and byte-swapped twins of recordings. AtMost limits the CPU time and memory of reading them.
package inputs

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// SwapBytes returns the big-endian twin of a little-endian perf.data file, of file
// mode version 2 or pipe mode. It refuses a file with any unknown byte, since
// a partly swapped twin tests nothing.
func SwapBytes(b []byte) ([]byte, error) {
	t := &twin{in: b, out: slices.Clone(b), byID: map[uint64]int{}, formats: map[uint16][]field{}}
	p := t.part("file header", 0, len(b))
	if string(p.bytes(8)) != "PERFILE2" {
		return nil, errors.New("swap: not a little-endian perf.data file of version 2")
	}
	slices.Reverse(t.out[:8])
	switch size := p.uint(8); size {
	case 16:
		t.records(p)
	case 104:
		t.file(p)
	default:
		return nil, fmt.Errorf("swap: file header of %d bytes", size)
	}
	if t.err != nil {
		return nil, fmt.Errorf("swap: %w", t.err)
	}
	return t.out, nil
}

// twin is the state of one call of Twin. It reads numbers from in and writes them to
// out: a number that is processed twice is not swapped back.
type twin struct {
	in, out []byte
	err     error // the first one
	attrs   []attr
	byID    map[uint64]int // counter id → index in attrs
	formats map[uint16][]field
	cpus    uint64 // from the NRCPUS section
}

// attr holds the parts of an attr that determine the layout of the attr's records.
type attr struct {
	kind                           uint32
	sampleType, readFormat, flags  uint64
	branchType, regsUser, regsIntr uint64
}

const (
	kindTracepoint  = 2
	flagSampleIDAll = 1 << 18
	branchHWIndex   = 1 << 17
	readGroup       = 1 << 3
)

// file swaps a file in file mode; p is after the header's size.
func (t *twin) file(p *part) {
	attrSize := p.uint(8)
	attrs, data, types := t.section(p, "attrs"), t.section(p, "data"), t.section(p, "event types")
	var features []int
	for i := range 4 {
		for v, bit := p.uint(8), 0; bit < 64; bit++ {
			if v>>bit&1 != 0 {
				features = append(features, i*64+bit)
			}
		}
	}
	if attrSize < 64+16 {
		p.fail("attr entries of %d bytes", attrSize)
	}
	for attrs.more() {
		entry := attrs.part("attr", int(attrSize))
		i := t.attr(entry.part("attr", int(attrSize)-16))
		t.ids(t.section(entry, "ids"), i)
	}
	for types.more() { // struct perf_trace_event_type, in files of perf before 3.10
		types.uint(8)
		types.bytes(64)
	}
	table := t.part("feature table", data.end, len(t.in))
	for _, n := range features {
		t.feature(t.section(table, fmt.Sprintf("feature %d", n)), n)
	}
	t.records(data)
}

// section takes a struct perf_file_section and returns the part of the file
// that it names.
func (t *twin) section(p *part, what string) *part {
	off, size := p.uint(8), p.uint(8)
	if off > uint64(len(t.in)) || size > uint64(len(t.in))-off {
		p.fail("%s: %d bytes at %#x", what, size, off)
		off, size = 0, 0
	}
	return t.part(what, int(off), int(off+size))
}

// attrLayout is struct perf_event_attr with the flags as F. The last two
// numbers of 8 bytes are sig_data and config3.
const attrLayout = "4488" + "88F" + "44" + "8888" + "448" + "422" + "44" + "88" + "*"

// attr swaps the struct perf_event_attr at the start of p and returns the attr's index.
func (t *twin) attr(p *part) int {
	var a attr
	start := p.pos
	at := func(off, size int) uint64 { return t.peek(start+off, size) }
	a.kind = uint32(at(0, 4))
	size := cmp.Or(int(at(4, 4)), 64) // PERF_ATTR_SIZE_VER0, which early files leave out
	a.sampleType, a.readFormat, a.flags = at(24, 8), at(32, 8), at(40, 8)
	if size >= 80 {
		a.branchType = at(72, 8)
	}
	if size >= 96 {
		a.regsUser = at(80, 8)
	}
	if size >= 104 {
		a.regsIntr = at(96, 8)
	}
	p.part("attr", size).fields(attrLayout)
	t.attrs = append(t.attrs, a)
	return len(t.attrs) - 1
}

// ids swaps the counter ids of an attr; p contains nothing else.
func (t *twin) ids(p *part, i int) {
	for p.more() {
		t.byID[p.uint(8)] = i
	}
}

// mirror reverses the order of the bit-fields in a word. A little-endian compiler puts the first one into the
// lowest bits, a big-endian one into the highest. The order of bits within a field stays the same.
func mirror(v uint64, widths []int) (m uint64) {
	pos := 0
	for _, w := range widths {
		f := v >> pos & (1<<w - 1)
		pos += w
		m |= f << (64 - pos)
	}
	return m
}

// attrBits are the widths of the bit-fields of struct perf_event_attr: precise_ip, the 16th, is two bits wide, the
// others one.
var attrBits = slices.Concat(slices.Repeat([]int{1}, 15), []int{2}, slices.Repeat([]int{1}, 47))

// branchBits are the widths of the bit-fields of struct perf_branch_entry: mispred, predicted, in_tx, abort,
// cycles, type, spec, new_type, priv, not_taken, reserved.
var branchBits = []int{1, 1, 1, 1, 16, 4, 2, 4, 3, 1, 30}

// part is a part of the file; the bytes before pos are swapped.
type part struct {
	t        *twin
	what     string
	pos, end int
}

func (t *twin) part(what string, pos, end int) *part { return &part{t, what, pos, end} }

// part returns the next n bytes as a new part.
func (p *part) part(what string, n int) *part {
	start := p.pos
	p.bytes(n)
	return p.t.part(what, start, p.pos)
}

func (p *part) more() bool { return p.t.err == nil && p.pos < p.end }

func (p *part) fail(msg string, args ...any) {
	if p.t.err == nil {
		p.t.err = fmt.Errorf("%s at %#x: %s", p.what, p.pos, fmt.Sprintf(msg, args...))
	}
}

// bytes copies n bytes unchanged.
func (p *part) bytes(n int) []byte {
	if n < 0 || n > p.end-p.pos {
		p.fail("%d bytes wanted of %d", n, p.end-p.pos)
		n = 0
	}
	b := p.t.in[p.pos : p.pos+n]
	p.pos += n
	return b
}

func (t *twin) peek(off, size int) uint64 {
	var b [8]byte
	if off+size > len(t.in) {
		return 0
	}
	copy(b[:], t.in[off:off+size])
	return binary.LittleEndian.Uint64(b[:])
}

// uint swaps a number of size bytes and returns it.
func (p *part) uint(size int) uint64 {
	off := p.pos
	if len(p.bytes(size)) < size {
		return 0
	}
	slices.Reverse(p.t.out[off:p.pos])
	return p.t.peek(off, size)
}

// put swaps 8 bytes after f changes the value.
func (p *part) put(f func(uint64) uint64) {
	off := p.pos
	if v := p.uint(8); p.t.err == nil {
		binary.BigEndian.PutUint64(p.t.out[off:], f(v))
	}
}

// elements swaps the remaining bytes as numbers of size bytes each.
func (p *part) elements(size int) {
	if size == 1 {
		p.bytes(p.end - p.pos)
	}
	for p.more() {
		p.uint(size)
	}
}

// fields swaps the next bytes by a layout:
//
//	1 2 4 8   a number of this size in bytes
//	F         the bit-fields of an attr
//	S         a string of a feature section: the length in bytes, then the bytes
//	*         the rest, numbers of 8 bytes
//	.         the rest, unchanged
//
// If the part ends between two fields, the other fields are absent, as in the attrs
// of older kernels.
func (p *part) fields(layout string) {
	for _, c := range layout {
		if !p.more() {
			return
		}
		switch c {
		case '1', '2', '4', '8':
			p.uint(int(c - '0'))
		case 'F':
			p.put(func(v uint64) uint64 { return mirror(v, attrBits) })
		case 'S':
			p.bytes(int(p.uint(4)))
		case '*':
			p.elements(8)
		case '.':
			p.bytes(p.end - p.pos)
		}
	}
}

// list swaps a count of size bytes and then this number of entries of a layout.
func (p *part) list(size int, layout string) {
	for n := p.uint(size); n > 0 && p.t.err == nil; n-- {
		p.exactly(layout)
	}
}

// exactly swaps all fields of a layout; it fails if one is absent.
func (p *part) exactly(layout string) {
	for _, c := range layout {
		if c != '.' && !p.more() {
			p.fail("it ends before %q of %q", c, layout)
		}
		p.fields(string(c))
	}
}

package unwind

import (
	"math"

	"gperf/internal/dso"
)

// Sizes of a table.
const (
	pageBits = 16
	pageMask = 1<<pageBits - 1

	// maxPages bounds what a damaged file can claim to span: 4 GiB of code,
	// twice what the small code model allows.
	maxPages = 1 << 16

	maxRules = math.MaxUint16 // so that every index fits a Row, and one is left for "unsupported"
)

// Row says that from Off within its page on, a rule is in force.
type Row struct{ Off, Rule uint16 }

// Page is the part of a table's rows that belongs to 64 KiB of code.
type Page struct{ First, N uint32 }

// Table is the unwind table of a DSO: what the kernel needs of its call frame
// information. The package comment describes the layout. It is not changed once
// built, and may be used by several goroutines.
type Table struct {
	BuildID dso.BuildID // zero if the file has none
	Base    uint64      // number of the first page: vaddr >> 16
	Pages   []Page
	Rows    []Row
	Rules   []Rule
	Stats   Stats
}

// Stats counts what went into a table, and what could not.
type Stats struct {
	FDEs        uint32 // that cover code
	Damaged     uint32 // CIEs and FDEs refused, or followed only up to a damaged instruction
	Outside     uint32 // FDEs that cover no executable code of the file, as linkers leave them
	Unsupported uint32 // rows that only full CFI can follow
}

// Lookup returns the rule in force at vaddr, one with CFANone where none is.
func (t *Table) Lookup(vaddr uint64) Rule {
	p := vaddr>>pageBits - t.Base
	if p >= uint64(len(t.Pages)) {
		return Rule{}
	}
	pg := t.Pages[p]
	rows, off := t.Rows[pg.First:pg.First+pg.N], uint16(vaddr&pageMask)
	lo, hi := 0, len(rows) // rows[lo] is at or below off, rows[hi] above
	for hi-lo > 1 {
		if mid := int(uint(lo+hi) / 2); rows[mid].Off <= off {
			lo = mid
		} else {
			hi = mid
		}
	}
	return t.Rules[rows[lo].Rule]
}

// Bytes returns how much memory the table's contents take.
func (t *Table) Bytes() int { return len(t.Pages)*8 + len(t.Rows)*4 + len(t.Rules)*16 }

// builder makes a Table of ranges that come in ascending order.
type builder struct {
	t     *Table
	begun bool
	pos   uint64 // everything below is said
	index map[Rule]uint16
	memo  [1024]struct {
		rule Rule
		n    uint16
		ok   bool
	}
	gap   uint16  // the rule of what no FDE covers: 0, or that of ruleFP
	known []known // exceptions, by address
}

func newBuilder(rows int) *builder {
	return &builder{
		t:     &Table{Rows: make([]Row, 0, rows), Rules: []Rule{{}}},
		index: map[Rule]uint16{{}: 0},
	}
}

// rule returns the index of r.
func (b *builder) rule(r Rule) uint16 {
	h := uint32(r.CFA)<<4 ^ uint32(r.FP)<<2 ^ uint32(r.CFAOff>>3)*5 ^ uint32(r.FPOff)*7 ^ uint32(r.CFAOff2) ^ uint32(r.RAOff)
	m := &b.memo[(h^h>>10)%uint32(len(b.memo))]
	if m.ok && m.rule == r {
		return m.n
	}
	n, ok := b.index[r]
	if !ok {
		if len(b.t.Rules) >= maxRules && r != ruleUnsupported {
			return b.rule(ruleUnsupported)
		}
		n = uint16(len(b.t.Rules))
		b.t.Rules = append(b.t.Rules, r)
		b.index[r] = n
	}
	m.rule, m.n, m.ok = r, n, true
	return n
}

// add says that the rule of index n is in force from start to end. It is false
// where the table would span too many pages.
func (b *builder) add(start, end uint64, n uint16) bool {
	b.addKnown(start)
	return b.put(start, end, n)
}

// addKnown adds what is known of code before an address and yet open.
func (b *builder) addKnown(before uint64) {
	for ; len(b.known) > 0 && b.known[0].start < before; b.known = b.known[1:] {
		k := &b.known[0]
		if start, end := max(k.start, b.pos), min(k.end, before); start < end {
			b.put(start, end, b.rule(k.rule))
		}
		if k.end > before {
			k.start = before
			return
		}
	}
}

func (b *builder) put(start, end uint64, n uint16) bool {
	if !b.begun {
		b.begun, b.t.Base, b.pos = true, start>>pageBits, start&^pageMask
	}
	if (end-1)>>pageBits-b.t.Base >= maxPages {
		return false
	}
	if start > b.pos {
		b.fill(b.pos, start, b.gap)
	}
	b.fill(start, end, n)
	return true
}

// fill writes the rows of [start, end), start being b.pos.
func (b *builder) fill(start, end uint64, n uint16) {
	t := b.t
	if start&pageMask != 0 {
		if t.Rows[len(t.Rows)-1].Rule != n {
			t.Rows = append(t.Rows, Row{uint16(start & pageMask), n})
		}
		start = (start | pageMask) + 1
	}
	for ; start < end; start += 1 << pageBits {
		b.closePage()
		t.Pages = append(t.Pages, Page{First: uint32(len(t.Rows))})
		t.Rows = append(t.Rows, Row{0, n})
	}
	b.pos = end
}

// closePage sets the number of rows of the last page.
func (b *builder) closePage() {
	if n := len(b.t.Pages); n > 0 {
		b.t.Pages[n-1].N = uint32(len(b.t.Rows)) - b.t.Pages[n-1].First
	}
}

// finish returns the table, its slices no larger than they need be.
func (b *builder) finish() *Table {
	t := b.t
	b.addKnown(math.MaxUint64)
	if b.pos&pageMask != 0 {
		b.fill(b.pos, b.pos+1, 0)
	}
	b.closePage()
	if cap(t.Rows)-len(t.Rows) > len(t.Rows)/32 {
		t.Rows = append(make([]Row, 0, len(t.Rows)), t.Rows...)
	}
	t.Rules = append(make([]Rule, 0, len(t.Rules)), t.Rules...)
	return t
}

package unwind

import "math"

// Sizes of a table.
const (
	pageBits = 16
	pageMask = 1<<pageBits - 1

	// maxPages limits the code of a corrupt file: 4 GiB, twice the limit of the small code model.
	maxPages = 1 << 16

	maxRules = math.MaxUint16 // an index must fit a Row, and one is reserved for "unsupported"
)

// Row is the rule of the code from offset Off in a page to the next row.
type Row struct{ Off, Rule uint16 }

// Page is the rows of 64 KiB of code: Rows[First:First+N].
//
//bpf:struct page
type Page struct{ First, N uint32 }

// Table is the unwind table of a DSO: its call frame information in a form that BPF can read. The package comment
// describes the layout. A Table is immutable and may be used from several goroutines.
type Table struct {
	Base  uint64 // number of the first page: vaddr >> 16
	Pages []Page
	Rows  []Row
	Rules []Rule
	Stats Stats
}

// Stats counts the entries of a table, and the unusable ones.
type Stats struct {
	FDEs        uint32 // FDEs that cover code
	Damaged     uint32 // corrupt CIEs and FDEs: skipped, or read up to the corrupt instruction
	Outside     uint32 // FDEs of code that the linker dropped
	Unsupported uint32 // rows that need full CFI
}

// Lookup returns the rule at vaddr. If there is none, its CFA is CFANone.
func (t *Table) Lookup(vaddr uint64) Rule {
	r, _ := t.find(vaddr)
	return r
}

// find returns the rule at vaddr, and whether vaddr is the last byte of its row: where a function ends, a row ends.
func (t *Table) find(vaddr uint64) (r Rule, last bool) {
	p := vaddr>>pageBits - t.Base
	if p >= uint64(len(t.Pages)) {
		return Rule{}, false
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
	next := uint16(0) // of the next page
	if hi < len(rows) {
		next = rows[hi].Off
	}
	return t.Rules[rows[lo].Rule], off+1 == next
}

// Bytes returns the size of the table's contents, in bytes.
func (t *Table) Bytes() int { return len(t.Pages)*8 + len(t.Rows)*4 + len(t.Rules)*16 }

// tableBuilder makes a Table from ranges, which the caller adds by ascending address.
type tableBuilder struct {
	t     *Table
	begun bool
	ended bool   // a function ends at pos: the next row begins there, even if its rule is the same
	pos   uint64 // the end of the added ranges
	index map[Rule]uint16
	memo  [1024]struct {
		rule Rule
		n    uint16
		ok   bool
	}
	gap   uint16  // index of the rule of code without an FDE: 0, or the index of ruleFP
	known []known // exceptions, by address
}

func newTableBuilder(rows int) *tableBuilder {
	return &tableBuilder{
		t:     &Table{Rows: make([]Row, 0, rows), Rules: []Rule{{}}},
		index: map[Rule]uint16{{}: 0},
	}
}

// rule returns the index of r, which it adds if it is new.
func (b *tableBuilder) rule(r Rule) uint16 {
	h := uint32(r.CFA)<<4 ^ uint32(r.FP)<<2 ^ uint32(r.CFAOff>>3)*5 ^ uint32(r.FPOff)*7 ^ uint32(
		r.CFAOff2) ^ uint32(r.RAOff)
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

// add adds the rule with index n for the code from start to end. It returns false if the table would have too many
// pages.
func (b *tableBuilder) add(start, end uint64, n uint16) bool {
	b.addKnown(start)
	return b.put(start, end, n)
}

// addKnown adds the exceptions before an address.
func (b *tableBuilder) addKnown(before uint64) {
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

func (b *tableBuilder) put(start, end uint64, n uint16) bool {
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

// fill writes the rows of [start, end). start is b.pos.
func (b *tableBuilder) fill(start, end uint64, n uint16) {
	t := b.t
	if start&pageMask != 0 {
		if t.Rows[len(t.Rows)-1].Rule != n || b.ended {
			t.Rows = append(t.Rows, Row{uint16(start & pageMask), n})
		}
		start = (start | pageMask) + 1
	}
	for ; start < end; start += 1 << pageBits {
		b.closePage()
		t.Pages = append(t.Pages, Page{First: uint32(len(t.Rows))})
		t.Rows = append(t.Rows, Row{0, n})
	}
	b.pos, b.ended = end, false
}

// closePage sets the number of rows of the last page.
func (b *tableBuilder) closePage() {
	if n := len(b.t.Pages); n > 0 {
		b.t.Pages[n-1].N = uint32(len(b.t.Rows)) - b.t.Pages[n-1].First
	}
}

// finish returns the table. It clips its slices.
func (b *tableBuilder) finish() *Table {
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

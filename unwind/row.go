package unwind

import (
	"bufio"
	"debug/elf"
	"fmt"
	"io"
	"iter"
	"slices"
)

// FullRow is a row with all registers.
type FullRow struct {
	Start, End uint64    // vaddrs; End is exclusive
	CFA        RegRule   // Register or ValExpression; Unspecified if unknown, for example after a corrupt instruction
	Regs       []RegRule // by DWARF number
	RA         int       // number of the return address's column
	Signal     bool      // a signal frame: the caller was interrupted and did not call
	sec        *section
}

// Expr returns the bytes of an expression of the row.
func (r *FullRow) Expr(rule RegRule) []byte { return r.sec.expr(rule) }

// take sets r to the row of m. r.Regs are m's, and valid until m continues.
func (r *FullRow) take(m *machine) {
	*r = FullRow{
		Start: m.start, End: m.end, CFA: m.cfaRule(), Regs: m.regs[:m.f.abi.columns],
		RA: int(m.cie.ra), Signal: m.cie.signal, sec: m.sec,
	}
}

// Rows yields all rows by address. A row is valid until the next one.
func (f *CFI) Rows() iter.Seq[*FullRow] {
	return func(yield func(*FullRow) bool) {
		m := machine{f: f}
		var r FullRow
		for i := range f.fdes {
			for m.beginFDE(&f.fdes[i]); m.next(); {
				if r.take(&m); m.end <= f.fdes[i].start {
					continue // outside the FDE
				}
				r.Start = max(r.Start, f.fdes[i].start)
				if !yield(&r) {
					return
				}
			}
		}
	}
}

// Row returns the row at vaddr.
func (f *CFI) Row(vaddr uint64) (r FullRow, ok bool) {
	e := f.find(vaddr)
	if e == nil {
		return r, false
	}
	m := machine{f: f}
	for m.beginFDE(e); m.next(); {
		if vaddr < m.end {
			r.take(&m)
			r.Regs = slices.Clone(r.Regs)
			return r, true
		}
	}
	return r, false
}

// text returns a rule as readelf -wF prints it.
func (r RegRule) text(name func(int) string) string {
	switch r.Kind {
	case SameValue:
		return "s"
	case Offset:
		return fmt.Sprintf("c%+d", r.Off)
	case ValOffset:
		return fmt.Sprintf("v%+d", r.Off)
	case Register:
		return name(int(r.Reg))
	case Expression:
		return "exp"
	case ValExpression:
		return "vexp"
	case Signed:
		return "signed"
	}
	return "u"
}

// WriteText writes all rows, grouped by FDE, in the format of readelf -wF:
//
//	FDE pc=0000000000026000..0000000000026370
//	0000000000026000 rsp+16 ra=c-8
//	0000000000026006 rsp+24 rbp=c-16 ra=c-8
//
// It omits unspecified registers.
func (f *CFI) WriteText(w io.Writer) error {
	name := x86Name
	if f.Machine == elf.EM_AARCH64 {
		name = arm64Name
	}
	b := bufio.NewWriter(w)
	next := uint64(0)
	for r := range f.Rows() {
		if e := f.find(r.Start); e.start == r.Start || r.Start != next {
			fmt.Fprintf(b, "FDE pc=%016x..%016x", e.start, e.end)
			if r.Signal {
				b.WriteString(" signal frame")
			}
			b.WriteString("\n")
		}
		next = r.End
		fmt.Fprintf(b, "%016x %s", r.Start, r.cfaText(name))
		for i, reg := range r.Regs {
			if reg.Kind == Unspecified {
				continue
			}
			n := name(i)
			if i == r.RA {
				n = "ra"
			}
			fmt.Fprintf(b, " %s=%s", n, reg.text(name))
		}
		b.WriteString("\n")
	}
	return b.Flush()
}

func (r *FullRow) cfaText(name func(int) string) string {
	switch r.CFA.Kind {
	case Register:
		return fmt.Sprintf("%s%+d", name(int(r.CFA.Reg)), r.CFA.Off)
	case ValExpression:
		return "exp"
	}
	return "none"
}

// WriteText writes one line for each row: its first vaddr and its rule.
//
//	0000000000026000 cfa=rsp+16 ra=c-8 fp=s
//
// It omits rows that only begin a page.
func (t *Table) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	last := -1
	for i, p := range t.Pages {
		for _, r := range t.Rows[p.First : p.First+p.N] {
			if int(r.Rule) != last {
				fmt.Fprintf(b, "%016x %v\n", (t.Base+uint64(i))<<pageBits|uint64(r.Off), t.Rules[r.Rule])
			}
			last = int(r.Rule)
		}
	}
	return b.Flush()
}

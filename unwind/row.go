package unwind

import (
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

package unwind

import "gperf/internal/dwarf"

// matchCFA recognizes the expressions for the CFA that a rule can express. It sets only the
// rule's fields of the CFA.
func (a *abi) matchCFA(e []byte) (r Rule, ok bool) {
	c := dwarf.Cursor{B: e}
	reg, off, ok := breg(&c)
	if !ok || off != int64(int32(off)) || reg != a.sp && reg != a.fp {
		return r, false
	}
	r.CFAOff = int32(off)
	if c.Left() == 0 {
		r.CFA = CFARSP
		if reg == a.fp {
			r.CFA = CFARBP
		}
		return r, !c.Bad
	}
	if thr, ok := matchPLT(e[c.Pos:]); ok && a == &x86ABI && reg == x86RSP {
		r.CFA, r.CFAOff2 = CFAPLT, thr
		return r, true
	}
	if c.U8() != dwarf.OpDeref {
		return r, false
	}
	r.CFA = CFADerefRSP
	if reg == a.fp {
		r.CFA = CFADerefRBP
	}
	if c.Left() > 0 {
		if c.U8() != dwarf.OpPlusUconst {
			return r, false
		}
		n := c.ULEB()
		if n > 0x7fff {
			return r, false
		}
		r.CFAOff2 = int16(n)
	}
	return r, !c.Bad && c.Left() == 0
}

// matchPLT recognizes the rest of the linker's expression for its PLT, after breg7: each entry
// has 16 bytes and pushes a word at offset N, "breg16 0; lit15; and; litN; ge; lit3; shl; plus".
func matchPLT(e []byte) (thr int16, ok bool) {
	ok = len(e) == 9 && e[0] == dwarf.OpBreg0+x86RIP && e[1] == 0 && e[2] == dwarf.OpLit0+15 && e[3] == dwarf.OpAnd &&
		e[4] >= dwarf.OpLit0 && e[4] <= dwarf.OpLit31 && e[5] == dwarf.OpGe && e[6] == dwarf.OpLit0+3 &&
		e[7] == dwarf.OpShl && e[8] == dwarf.OpPlus
	if !ok {
		return 0, false
	}
	return int16(e[4] - dwarf.OpLit0), true
}

// matchReg recognizes an expression that is a register plus an offset.
func matchReg(e []byte) (reg int, off int64, ok bool) {
	c := dwarf.Cursor{B: e}
	reg, off, ok = breg(&c)
	return reg, off, ok && !c.Bad && c.Left() == 0
}

// breg reads DW_OP_breg0 to 31.
func breg(c *dwarf.Cursor) (reg int, off int64, ok bool) {
	op := c.U8()
	if op < dwarf.OpBreg0 || op > dwarf.OpBreg31 {
		return 0, 0, false
	}
	return int(op - dwarf.OpBreg0), c.SLEB(), !c.Bad
}

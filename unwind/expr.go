package unwind

import "gperf/internal/dwarf"

// Operations of expressions (DWARF 5, 7.7.1) that rules know.
const (
	opAddr       = 0x03
	opDeref      = 0x06
	opConst1u    = 0x08
	opConst1s    = 0x09
	opConst2u    = 0x0a
	opConst2s    = 0x0b
	opConst4u    = 0x0c
	opConst4s    = 0x0d
	opConst8u    = 0x0e
	opConst8s    = 0x0f
	opConstu     = 0x10
	opConsts     = 0x11
	opDup        = 0x12
	opDrop       = 0x13
	opOver       = 0x14
	opPick       = 0x15
	opSwap       = 0x16
	opRot        = 0x17
	opAbs        = 0x19
	opAnd        = 0x1a
	opDiv        = 0x1b
	opMinus      = 0x1c
	opMod        = 0x1d
	opMul        = 0x1e
	opNeg        = 0x1f
	opNot        = 0x20
	opOr         = 0x21
	opPlus       = 0x22
	opPlusUconst = 0x23
	opShl        = 0x24
	opShr        = 0x25
	opShra       = 0x26
	opXor        = 0x27
	opBra        = 0x28
	opEq         = 0x29
	opGe         = 0x2a
	opGt         = 0x2b
	opLe         = 0x2c
	opLt         = 0x2d
	opNe         = 0x2e
	opSkip       = 0x2f
	opLit0       = 0x30
	opLit31      = 0x4f
	opReg0       = 0x50
	opReg31      = 0x6f
	opBreg0      = 0x70
	opBreg31     = 0x8f
	opRegx       = 0x90
	opBregx      = 0x92
	opDerefSize  = 0x94
	opNop        = 0x96
)

// matchCFA recognizes the expressions for the CFA that a rule can express; of
// the rule, only the CFA's fields are set.
func matchCFA(e []byte) (r Rule, ok bool) {
	c := dwarf.Cursor{B: e}
	reg, off, ok := breg(&c)
	if !ok || off != int64(int32(off)) || reg != x86RSP && reg != x86RBP {
		return r, false
	}
	r.CFAOff = int32(off)
	if c.Left() == 0 {
		r.CFA = CFARSP
		if reg == x86RBP {
			r.CFA = CFARBP
		}
		return r, !c.Bad
	}
	if thr, ok := matchPLT(e[c.Pos:]); ok && reg == x86RSP {
		r.CFA, r.CFAOff2 = CFAPLT, thr
		return r, true
	}
	if c.U8() != opDeref {
		return r, false
	}
	r.CFA = CFADerefRSP
	if reg == x86RBP {
		r.CFA = CFADerefRBP
	}
	if c.Left() > 0 {
		if c.U8() != opPlusUconst {
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

// matchPLT recognizes what the linker writes for its PLT, after a breg7: each
// entry of 16 bytes pushes a word at a certain place, "breg16 0; lit15; and; litN;
// ge; lit3; shl; plus".
func matchPLT(e []byte) (thr int16, ok bool) {
	ok = len(e) == 9 && e[0] == opBreg0+x86RIP && e[1] == 0 && e[2] == opLit0+15 && e[3] == opAnd &&
		e[4] >= opLit0 && e[4] <= opLit31 && e[5] == opGe && e[6] == opLit0+3 && e[7] == opShl && e[8] == opPlus
	if !ok {
		return 0, false
	}
	return int16(e[4] - opLit0), true
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
	if op < opBreg0 || op > opBreg31 {
		return 0, 0, false
	}
	return int(op - opBreg0), c.SLEB(), !c.Bad
}

package unwind

import (
	"debug/elf"

	"gperf/internal/dwarf"
)

// Opcodes of call frame instructions (DW_CFA_*, DWARF 5 section 6.4.2, and
// vendors').
const (
	cfaAdvanceLoc = 0x40 // in the two high bits; the others are the operand
	cfaOffset     = 0x80
	cfaRestore    = 0xc0
	cfaHigh       = 0xc0

	cfaNop              = 0x00
	cfaSetLoc           = 0x01
	cfaAdvanceLoc1      = 0x02
	cfaAdvanceLoc2      = 0x03
	cfaAdvanceLoc4      = 0x04
	cfaOffsetExtended   = 0x05
	cfaRestoreExtended  = 0x06
	cfaUndefined        = 0x07
	cfaSameValue        = 0x08
	cfaRegister         = 0x09
	cfaRememberState    = 0x0a
	cfaRestoreState     = 0x0b
	cfaDefCFA           = 0x0c
	cfaDefCFARegister   = 0x0d
	cfaDefCFAOffset     = 0x0e
	cfaDefCFAExpression = 0x0f
	cfaExpression       = 0x10
	cfaOffsetExtendedSF = 0x11
	cfaDefCFASF         = 0x12
	cfaDefCFAOffsetSF   = 0x13
	cfaValOffset        = 0x14
	cfaValOffsetSF      = 0x15
	cfaValExpression    = 0x16

	cfaMIPSAdvanceLoc8      = 0x1d
	cfaAArch64NegateRAPC    = 0x2c // AARCH64_negate_ra_state_with_pc
	cfaGNUWindowSave        = 0x2d // AARCH64_negate_ra_state on arm64
	cfaGNUArgsSize          = 0x2e
	cfaGNUNegOffsetExtended = 0x2f
)

// RuleKind says how to find a register of the caller (DWARF 5, 6.4.1).
type RuleKind uint8

const (
	Unspecified   RuleKind = iota // the CFI does not mention the register
	Undefined                     // the register cannot be found
	SameValue                     // unchanged
	Offset                        // *(cfa + Off)
	ValOffset                     // cfa + Off
	Register                      // register Reg + Off; Off is 0 except for the CFA
	Expression                    // *(value of an expression)
	ValExpression                 // value of an expression
	Signed                        // for arm64's RA_SIGN_STATE: the return address is signed
)

// RegRule says how to find one register of the caller, or the CFA (Register or ValExpression).
type RegRule struct {
	Kind RuleKind
	Reg  uint16
	len  uint32 // of an expression
	Off  int64  // of an expression: its offset in the section
}

// Number of columns of a row: for x86-64 the general registers, the return address (16) and the vector registers; for
// arm64 x0 to x30, sp, RA_SIGN_STATE (34) and v0 to v31 (from 64).
const (
	maxRegs   = 96
	x86Regs   = 33
	arm64Regs = 96
)

// maxRemembered limits the states that DW_CFA_remember_state saves; compilers rarely nest them.
const maxRemembered = 64

// state is the current row.
type state struct {
	cfa     RegRule // register + offset, kept also while an expression is in force
	cfaExpr RegRule // in force unless its Kind is Unspecified
	regs    [maxRegs]RegRule
}

// cfaRule returns the rule of the CFA that is in force.
func (s *state) cfaRule() RegRule {
	if s.cfaExpr.Kind != Unspecified {
		return s.cfaExpr
	}
	return s.cfa
}

// machine runs the instructions of a CIE or an FDE. Whenever next returns true, the state is the row from start to end.
type machine struct {
	f   *CFI
	sec *section
	cie *cie

	state
	start, end uint64
	bad        bool // the instructions are corrupt: earlier rows are valid, the rest of the range has no rule

	c     dwarf.Cursor
	loc   uint64
	last  uint64 // the end of the range
	saved []state
}

// begin prepares m to run the instructions from pos to end in the section. last is 0 for a CIE.
func (m *machine) begin(end, pos int, loc, last uint64) {
	m.c = dwarf.Cursor{B: m.sec.b[:end], Pos: pos}
	m.loc, m.last, m.bad = loc, last, false
	m.saved = m.saved[:0]
	n := m.f.abi.columns
	if last == 0 {
		m.cfa, m.cfaExpr = RegRule{}, RegRule{}
		clear(m.regs[:n])
		return
	}
	m.cfa, m.cfaExpr = m.cie.cfa, m.cie.cfaExpr
	clear(m.regs[copy(m.regs[:n], m.cie.init):n])
	if m.cie.bad {
		m.damage()
	}
}

// beginFDE prepares m to run the instructions of e.
func (m *machine) beginFDE(e *fde) {
	m.cie = &m.f.cies[e.cie]
	m.sec = &m.f.secs[m.cie.sec]
	m.begin(int(e.pos+e.len), int(e.pos), e.loc, e.end)
}

// damage ends the instructions: the rest of the range has no rule.
func (m *machine) damage() {
	m.bad = true
	m.cfa, m.cfaExpr = RegRule{}, RegRule{}
	clear(m.regs[:m.f.abi.columns])
	m.c.Pos = len(m.c.B)
}

// next runs instructions up to the end of a row. It returns false after the last row.
func (m *machine) next() bool {
	m.start = m.loc
	for m.c.Pos < len(m.c.B) {
		if ok := m.step(); !ok || m.c.Bad {
			m.damage()
			break
		}
		if m.loc == m.start {
			continue
		}
		if m.loc >= m.last {
			break
		}
		m.end = m.loc
		return true
	}
	m.end, m.loc = m.last, m.last
	return m.start < m.last
}

// advance advances the location by n units of code alignment.
func (m *machine) advance(n uint64) bool {
	to := m.loc + n*m.cie.codeAlign
	if to < m.loc || m.last == 0 { // a CIE has no addresses to advance over
		return n == 0
	}
	m.loc = to
	return true
}

// reg returns the rule of a register. For an untracked register, the rule is a dummy.
func (m *machine) reg(n uint64) *RegRule {
	if n < uint64(m.f.abi.columns) {
		return &m.regs[n]
	}
	return new(RegRule)
}

// expr reads an expression as a rule of the given kind.
func (m *machine) expr(kind RuleKind) RegRule {
	n := m.c.ULEB()
	r := RegRule{Kind: kind, len: uint32(n), Off: int64(m.c.Pos)}
	m.c.Skip(n)
	return r
}

// step runs one instruction. It returns false if the instruction is unknown or invalid.
func (m *machine) step() bool {
	c := &m.c
	op := c.U8()
	switch op & cfaHigh {
	case cfaAdvanceLoc:
		return m.advance(uint64(op &^ cfaHigh))
	case cfaOffset:
		m.regs[op&^cfaHigh] = RegRule{Kind: Offset, Off: int64(c.ULEB()) * m.cie.dataAlign}
		return true
	case cfaRestore:
		m.restore(uint64(op &^ cfaHigh))
		return true
	}
	switch op {
	case cfaNop:
	case cfaSetLoc:
		p := pointer{enc: m.cie.enc, size: int(m.cie.addrSize), addr: m.sec.addr, text: m.sec.text}
		c.Skip(uint64(m.cie.segSize))
		to, ok := p.read(c)
		if !ok || to < m.loc {
			return false
		}
		m.loc = to
	case cfaAdvanceLoc1:
		return m.advance(uint64(c.U8()))
	case cfaAdvanceLoc2:
		return m.advance(uint64(c.U16()))
	case cfaAdvanceLoc4:
		return m.advance(uint64(c.U32()))
	case cfaMIPSAdvanceLoc8:
		return m.advance(c.U64())
	case cfaOffsetExtended:
		*m.reg(c.ULEB()) = RegRule{Kind: Offset, Off: int64(c.ULEB()) * m.cie.dataAlign}
	case cfaOffsetExtendedSF:
		*m.reg(c.ULEB()) = RegRule{Kind: Offset, Off: c.SLEB() * m.cie.dataAlign}
	case cfaGNUNegOffsetExtended:
		*m.reg(c.ULEB()) = RegRule{Kind: Offset, Off: -int64(c.ULEB()) * m.cie.dataAlign}
	case cfaValOffset:
		*m.reg(c.ULEB()) = RegRule{Kind: ValOffset, Off: int64(c.ULEB()) * m.cie.dataAlign}
	case cfaValOffsetSF:
		*m.reg(c.ULEB()) = RegRule{Kind: ValOffset, Off: c.SLEB() * m.cie.dataAlign}
	case cfaRestoreExtended:
		m.restore(c.ULEB())
	case cfaUndefined:
		*m.reg(c.ULEB()) = RegRule{Kind: Undefined}
	case cfaSameValue:
		*m.reg(c.ULEB()) = RegRule{Kind: SameValue}
	case cfaRegister:
		r := m.reg(c.ULEB())
		from := c.ULEB()
		*r = RegRule{Kind: Register, Reg: uint16(min(from, maxRegs))}
	case cfaExpression:
		r := m.reg(c.ULEB())
		*r = m.expr(Expression)
	case cfaValExpression:
		r := m.reg(c.ULEB())
		*r = m.expr(ValExpression)
	case cfaRememberState:
		return m.remember()
	case cfaRestoreState:
		return m.restoreState()
	case cfaDefCFA:
		r := c.ULEB()
		m.defCFA(r, int64(c.ULEB()))
	case cfaDefCFASF:
		r := c.ULEB()
		m.defCFA(r, c.SLEB()*m.cie.dataAlign)
	case cfaDefCFARegister:
		m.defCFA(c.ULEB(), m.cfa.Off)
	case cfaDefCFAOffset:
		m.cfa.Off = int64(c.ULEB())
	case cfaDefCFAOffsetSF:
		m.cfa.Off = c.SLEB() * m.cie.dataAlign
	case cfaDefCFAExpression:
		m.cfaExpr = m.expr(ValExpression)
	case cfaGNUArgsSize:
		c.ULEB()
	case cfaGNUWindowSave, cfaAArch64NegateRAPC:
		// SPARC has register windows. On arm64 the same opcode changes whether the return address is signed.
		if m.f.Machine == elf.EM_AARCH64 {
			m.regs[arm64RASign].Kind ^= Signed
		}
	default:
		return false
	}
	return true
}

func (m *machine) defCFA(reg uint64, off int64) {
	m.cfa = RegRule{Kind: Register, Reg: uint16(min(reg, maxRegs)), Off: off}
	m.cfaExpr = RegRule{}
}

// restore sets a register's rule to the CIE's.
func (m *machine) restore(n uint64) {
	r := m.reg(n)
	*r = RegRule{}
	if n < uint64(len(m.cie.init)) {
		*r = m.cie.init[n]
	}
}

func (m *machine) remember() bool {
	if len(m.saved) >= maxRemembered {
		return false
	}
	if len(m.saved) < cap(m.saved) { // reuse the old state's memory
		m.saved = m.saved[:len(m.saved)+1]
	} else {
		m.saved = append(m.saved, state{})
	}
	s, n := &m.saved[len(m.saved)-1], m.f.abi.columns
	s.cfa, s.cfaExpr = m.cfa, m.cfaExpr
	copy(s.regs[:n], m.regs[:n])
	return true
}

func (m *machine) restoreState() bool {
	if len(m.saved) == 0 {
		return false
	}
	s, n := &m.saved[len(m.saved)-1], m.f.abi.columns
	m.saved = m.saved[:len(m.saved)-1]
	m.cfa, m.cfaExpr = s.cfa, s.cfaExpr
	copy(m.regs[:n], s.regs[:n])
	return true
}

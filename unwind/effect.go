package unwind

import (
	"encoding/binary"

	"gperf/internal/x86"
)

// unknownCFA means that the distance from rsp to the CFA is unknown.
const unknownCFA = -1 << 31

// lostFP as the offset of the saved rbp means that the caller's rbp is unknown.
const lostFP = -1

// frameState is the frame at an instruction, as the instructions before it have made it.
type frameState struct {
	cfa   int32 // CFA - rsp, or unknownCFA
	fp    int32 // CFA - rbp if rbp is a frame pointer, else 0
	saved int32 // the caller's rbp is at CFA - saved; 0 if rbp still has it, or lostFP
	end   bool  // the function has no caller
}

// entryState is the frame at a function's first instruction.
var entryState = frameState{cfa: 8}

// rule returns the rule of the state, and CFANone if it cannot be one.
func (s *frameState) rule() Rule {
	if s.end {
		return Rule{CFA: CFARSP, RA: RAUndefined, Flags: FlagInferred}
	}
	r := Rule{RAOff: -8, Flags: FlagInferred}
	switch {
	case s.cfa != unknownCFA:
		r.CFA, r.CFAOff = CFARSP, s.cfa
	case s.fp != 0:
		r.CFA, r.CFAOff = CFARBP, s.fp
	default:
		return Rule{}
	}
	switch {
	case s.saved == lostFP || !fits16(int64(s.saved)):
		r.FP = FPUndefined
	case s.saved != 0:
		r.FP, r.FPOff = FPAtCFA, int16(-s.saved)
	}
	return r
}

// push adds n bytes to the stack, or removes them if n is negative.
func (s *frameState) push(n int32) {
	if s.cfa != unknownCFA {
		s.setCFA(s.cfa + n)
	}
}

const maxFrame = 1 << 24 // larger frames are mistakes

func (s *frameState) setCFA(cfa int32) {
	if s.cfa = cfa; cfa < 0 || cfa > maxFrame {
		s.cfa = unknownCFA
	}
}

// setSP sets rsp to rbp + off.
func (s *frameState) setSP(off int32) {
	s.cfa = unknownCFA
	if s.fp != 0 {
		s.setCFA(s.fp - off)
	}
}

// setFP sets rbp to rsp + off.
func (s *frameState) setFP(off int32) {
	s.loseFP()
	if s.cfa != unknownCFA && s.cfa > off {
		s.fp = s.cfa - off
	}
}

// loseFP is called when rbp gets a value of its own.
func (s *frameState) loseFP() {
	if s.fp = 0; s.saved == 0 {
		s.saved = lostFP
	}
}

// write is called when a register gets an unknown value.
func (s *frameState) write(reg byte) {
	switch reg {
	case regSP:
		s.cfa = unknownCFA
	case regFP:
		s.loseFP()
	}
}

// flow is where execution continues after an instruction.
type flow uint8

const (
	flowNext     flow = iota
	flowCall          // next, and at a function
	flowBranch        // next, or at the target
	flowJump          // at the target
	flowIndirect      // at an unknown place
	flowReturn
	flowEnd // nowhere
)

// Numbers of registers in instructions.
const (
	regSP = 4
	regFP = 5
)

// instruction is a decoded instruction.
type instruction struct {
	len    int
	op     byte // its opcode, without 0F
	two    bool // 0F precedes op
	mod    byte // of the ModRM byte; 3 means that rm is a register
	reg    byte
	rm     byte // number of the register, or the base of an address; noBase if there is none or an index
	disp   int32
	imm    int32  // the last operand, if it is a number of 1 or 4 bytes
	target uint64 // of a relative jump or call
}

const noBase = 0xff

// decodeInstruction decodes the instruction at the start of code, which is at vaddr. ok is false if it is invalid.
func decodeInstruction(code []byte, vaddr uint64) (in instruction, ok bool) {
	e := x86.Decode(code)
	if e.Len == 0 {
		return in, false
	}
	in.len, in.mod = e.Len, noBase
	if e.Vector {
		in.op, in.two = 0, true // changes neither rsp nor rbp
		return in, true
	}
	b, rex, i := code[:e.Len], byte(0), 0
	for isPrefix(b[i]) {
		i++
	}
	if b[i]&0xf0 == 0x40 {
		rex = b[i]
		i++
	}
	if in.op = b[i]; in.op == 0x0f {
		i++
		in.op, in.two = b[i], true
	}
	i++
	if usesModRM(&in) && i < len(b) {
		in.operands(b[i:], rex)
	} else {
		in.reg, in.rm = in.op&7|rex&1<<3, in.op&7|rex&1<<3
	}
	in.immediate(b)
	in.target = vaddr + uint64(e.Len) + uint64(int64(in.imm))
	return in, true
}

func isPrefix(b byte) bool {
	switch b {
	case 0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x3e, 0x26, 0x36, 0x64, 0x65, 0xf0:
		return true
	}
	return false
}

// usesModRM reports whether a ModRM byte follows the opcode, among those that apply looks at.
func usesModRM(in *instruction) bool {
	op := in.op
	if in.two {
		return op >= 0x40 && op < 0x50 || op == 0xaf || op >= 0xb0 && op < 0xc2
	}
	return op < 0x40 && op&7 < 4 || op == 0x63 || op == 0x69 || op == 0x6b || op >= 0x80 && op < 0x90 ||
		op >= 0xc0 && op < 0xc8 && op&6 != 2 || op >= 0xd0 && op < 0xd4 || op >= 0xf6 && op&6 == 6
}

// operands decodes ModRM, SIB and displacement.
func (in *instruction) operands(b []byte, rex byte) {
	in.mod, in.reg, in.rm = b[0]>>6, b[0]>>3&7|rex&4<<1, b[0]&7
	if in.mod == 3 {
		in.rm |= rex & 1 << 3
		return
	}
	i := 1
	switch {
	case in.rm == 4 && len(b) > 1: // SIB
		i = 2
		if in.rm = b[1]&7 | rex&1<<3; b[1]>>3&7 != 4 || rex&2 != 0 || in.rm&7 == 5 && in.mod == 0 {
			in.rm = noBase
		}
	case in.rm == 5 && in.mod == 0: // relative to rip
		in.rm = noBase
		in.disp = le32(b[i:])
	default:
		in.rm |= rex & 1 << 3
	}
	switch in.mod {
	case 1:
		if len(b) > i {
			in.disp = int32(int8(b[i]))
		}
	case 2:
		in.disp = le32(b[i:])
	}
}

// immediate decodes the last operand.
func (in *instruction) immediate(b []byte) {
	n := 0
	switch op := in.op; {
	case in.two && op&0xf0 == 0x80, !in.two && (op == 0xe8 || op == 0xe9 || op == 0x81):
		n = 4
	case !in.two && (op&0xf0 == 0x70 || op == 0xeb || op >= 0xe0 && op < 0xe4 || op == 0x83):
		n = 1
	}
	switch {
	case n == 1:
		in.imm = int32(int8(b[len(b)-1]))
	case n == 4 && len(b) > 4:
		in.imm = le32(b[len(b)-4:])
	}
}

func le32(b []byte) int32 {
	if len(b) < 4 {
		return 0
	}
	return int32(binary.LittleEndian.Uint32(b))
}

// isAddress reports whether the instruction computes an address relative to its own: lea of one.
func (in *instruction) isAddress() bool {
	return in.op == 0x8d && !in.two && in.mod == 0 && in.rm == noBase
}

// apply changes the state as the instruction does, and returns where execution continues.
func (in *instruction) apply(s *frameState) flow {
	if in.two {
		return in.applyTwo(s)
	}
	reg, rm := in.mod == 3 && in.rm == in.reg, in.mod == 3
	switch op := in.op; {
	case op&0xf8 == 0x50:
		s.push(8)
		if in.reg == regFP && s.saved == 0 && s.cfa != unknownCFA {
			s.saved = s.cfa
		}
	case op&0xf8 == 0x58:
		in.pop(s)
	case op == 0x68, op == 0x6a, op == 0x9c:
		s.push(8)
	case op == 0x9d:
		s.push(-8)
	case op == 0xc9: // leave
		s.setSP(0)
		in.reg = regFP
		in.pop(s)
	case op == 0xc2, op == 0xc3:
		return flowReturn
	case op == 0xe8:
		return flowCall
	case op == 0xe9, op == 0xeb:
		return flowJump
	case op&0xf0 == 0x70, op >= 0xe0 && op < 0xe4:
		return flowBranch
	case op == 0xcc, op == 0xf4, op == 0xea, op == 0xcf, op == 0xcb, op == 0xca:
		return flowEnd
	case op == 0xff && in.reg&7 == 6:
		s.push(8)
	case op == 0xff && in.reg&7 >= 4:
		return flowIndirect
	case op == 0xff && in.reg&7 >= 2:
	case op == 0x8f:
		s.push(-8)
	case (op == 0x81 || op == 0x83) && rm && in.rm == regSP && in.reg&7 == 0:
		s.push(-in.imm)
	case (op == 0x81 || op == 0x83) && rm && in.rm == regSP && in.reg&7 == 5:
		s.push(in.imm)
	case op >= 0x38 && op < 0x3e, (op == 0x80 || op == 0x81 || op == 0x83) && in.reg&7 == 7, op == 0x84, op == 0x85:
		// compares
	case (op == 0x31 || op == 0x33) && reg && in.rm == regFP && s.saved == 0 && s.fp == 0:
		s.end = true // the ABI's mark of the outermost frame, unless the function returns: see mayEnd
	case op == 0x8d || op == 0x89 || op == 0x8b:
		in.move(s)
	case in.mod == noBase && (op&0xf8 == 0x90 || op&0xf0 == 0xb0):
		s.write(in.rm)
	case op == 0xc8: // enter
		s.write(regSP)
		s.write(regFP)
	case in.mod != noBase:
		in.writeOperand(s)
	}
	return flowNext
}

// applyTwo applies an instruction after 0F.
func (in *instruction) applyTwo(s *frameState) flow {
	switch op := in.op; {
	case op&0xf0 == 0x80:
		return flowBranch
	case op == 0x0b, op == 0xb9, op == 0xff:
		return flowEnd
	case op >= 0xc8 && op < 0xd0: // bswap
		s.write(in.rm)
	case op&0xf0 == 0x40, op == 0xaf, op >= 0xb6 && op < 0xc0 && op != 0xba && op != 0xbb:
		s.write(in.reg)
	case op == 0xb0, op == 0xb1, op == 0xb3, op == 0xba, op == 0xbb, op == 0xc0, op == 0xc1:
		if in.mod == 3 {
			s.write(in.rm)
		}
	}
	return flowNext
}

func (in *instruction) pop(s *frameState) {
	if in.reg == regFP {
		if s.fp = 0; s.saved != 0 && s.saved == s.cfa {
			s.saved = 0
		} else if s.saved == 0 {
			s.saved = lostFP
		}
	}
	s.push(-8)
	if in.reg == regSP {
		s.write(regSP)
	}
}

// move applies lea and the moves between a register and a register or memory.
func (in *instruction) move(s *frameState) {
	dst, base, off := in.reg, in.rm, in.disp
	memory := in.mod != 3 && in.op != 0x8d
	if in.mod == 3 {
		if off = 0; in.op == 0x89 {
			dst, base = in.rm, in.reg
		}
	}
	slot := s.cfa - off // if base is rsp
	known := base == regSP && s.cfa != unknownCFA
	switch {
	case memory && in.op == 0x89:
		if known && dst == regFP && s.saved == 0 && slot > 0 {
			s.saved = slot
		}
	case memory && dst == regFP && known && slot == s.saved:
		s.saved, s.fp = 0, 0
	case memory:
		s.write(dst)
	case dst == regSP && base == regFP:
		s.setSP(off)
	case dst == regSP && known:
		s.setCFA(slot)
	case dst == regFP && known:
		s.setFP(off)
	default:
		s.write(dst)
	}
}

// writeOperand applies an instruction whose result replaces an operand: rm, or reg for the opcodes with that direction.
func (in *instruction) writeOperand(s *frameState) {
	op := in.op
	if op < 0x40 && op&2 != 0 || op == 0x63 || op == 0x69 || op == 0x6b || op == 0x86 || op == 0x87 || op == 0x8a {
		s.write(in.reg)
	}
	if in.mod == 3 && (op >= 0x40 || op&2 == 0) {
		s.write(in.rm)
	}
}

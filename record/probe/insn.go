package probe

import (
	"debug/elf"
	"encoding/binary"
	"iter"
)

// instructions yields the offset in the file and the bytes of each instruction of a function.
// It stops at an instruction that it cannot decode.
func (f *file) instructions(fn *Function) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		length := map[elf.Machine]func([]byte) int{elf.EM_X86_64: x86Length, elf.EM_AARCH64: arm64Length}[f.Machine]
		code, err := f.Bytes(fn.Off, fn.Size)
		if length == nil || err != nil {
			return
		}
		for at := uint64(0); at < fn.Size; {
			n := length(code[at:])
			if n == 0 || !yield(fn.Off+at, code[at:at+uint64(n)]) {
				return
			}
			at += uint64(n)
		}
	}
}

// returns reports whether an instruction returns from its function.
func (f *file) returns(insn []byte) bool {
	switch f.Machine {
	case elf.EM_X86_64:
		op := insn[0]
		if op == 0xf3 && len(insn) == 2 { // rep ret
			op = insn[1]
		}
		return op == 0xc3 || op == 0xc2
	case elf.EM_AARCH64:
		return binary.LittleEndian.Uint32(insn)&^(31<<5) == 0xd65f0000 // RET Xn
	}
	return false
}

func arm64Length(code []byte) int {
	if len(code) < 4 {
		return 0
	}
	return 4
}

// Operands after an opcode of x86, as bits.
const (
	modRM  = 1 << iota
	imm8   // a byte
	imm16  // 2 bytes
	immZ   // 4 bytes, or 2 with the operand-size prefix
	imm32  // 4 bytes with any prefix
	immV   // immZ, or 8 bytes with REX.W
	moffs  // an address
	group3 // imm8 or immZ if the ModRM's reg is 0 or 1
	none   // invalid opcode
)

// x86Ops holds the operands of one-byte opcodes: Intel's manual, volume 2, table A-2, in
// 64-bit mode.
var x86Ops = func() (t [256]uint16) {
	set := func(v uint16, from, to int) {
		for i := from; i <= to; i++ {
			t[i] = v
		}
	}
	for row := 0; row < 0x40; row += 8 { // add, or, adc, sbb, and, sub, xor, cmp
		set(modRM, row, row+3)
		t[row+4], t[row+5], t[row+6], t[row+7] = imm8, immZ, none, none
	}
	set(none, 0x60, 0x62)
	t[0x63], t[0x68], t[0x69], t[0x6a], t[0x6b] = modRM, immZ, modRM|immZ, imm8, modRM|imm8
	set(imm8, 0x70, 0x7f)
	t[0x80], t[0x81], t[0x82], t[0x83] = modRM|imm8, modRM|immZ, none, modRM|imm8
	set(modRM, 0x84, 0x8f)
	t[0x9a] = none
	set(moffs, 0xa0, 0xa3)
	t[0xa8], t[0xa9] = imm8, immZ
	set(imm8, 0xb0, 0xb7)
	set(immV, 0xb8, 0xbf)
	t[0xc0], t[0xc1], t[0xc2], t[0xc6], t[0xc7] = modRM|imm8, modRM|imm8, imm16, modRM|imm8, modRM|immZ
	t[0xc8], t[0xca], t[0xcd], t[0xce] = imm16|imm8, imm16, imm8, none
	set(modRM, 0xd0, 0xd3)
	set(none, 0xd4, 0xd6)
	set(modRM, 0xd8, 0xdf)
	set(imm8, 0xe0, 0xe7)
	t[0xe8], t[0xe9], t[0xea], t[0xeb] = imm32, imm32, none, imm8
	t[0xf6], t[0xf7], t[0xfe], t[0xff] = modRM|imm8|group3, modRM|immZ|group3, modRM, modRM
	return t
}()

// x86Ops0F holds the operands of two-byte opcodes with 0F: table A-3.
var x86Ops0F = func() (t [256]uint16) {
	for i := range t {
		t[i] = modRM
	}
	for _, r := range [...][2]int{{0x05, 0x09}, {0x0b, 0x0b}, {0x0e, 0x0e}, {0x30, 0x37}, {0x77, 0x77}, {0xa0, 0xa2}, {0xa8, 0xaa}, {0xc8, 0xcf}} {
		for i := r[0]; i <= r[1]; i++ {
			t[i] = 0
		}
	}
	for i := 0x80; i <= 0x8f; i++ {
		t[i] = imm32
	}
	for _, i := range [...]int{0x0f, 0x70, 0x71, 0x72, 0x73, 0xa4, 0xac, 0xba, 0xc2, 0xc4, 0xc5, 0xc6} {
		t[i] = modRM | imm8
	}
	for _, i := range [...]int{0x04, 0x0a, 0x0c} {
		t[i] = none
	}
	return t
}()

// x86Length returns the length of the instruction at the start of code, in 64-bit mode, 0 if
// it is unknown.
func x86Length(code []byte) int {
	i, narrow, addr32, wide := 0, false, false, false
	at := func(i int) byte {
		if i < len(code) {
			return code[i]
		}
		return 0
	}
prefixes:
	for ; i < 14; i++ {
		switch at(i) {
		case 0x66:
			narrow = true
		case 0x67:
			addr32 = true
		case 0xf0, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65:
		default:
			break prefixes
		}
	}
	if at(i)&0xf0 == 0x40 { // REX
		wide = at(i)&8 != 0
		i++
	}
	var what uint16
	switch op := at(i); {
	case op == 0xc5: // VEX
		what, i = x86Vector(1, at(i+2)), i+3
	case op == 0xc4, op == 0x8f && at(i+1)&0x1f >= 8: // VEX, XOP
		what, i = x86Vector(at(i+1)&0x1f, at(i+3)), i+4
	case op == 0x62: // EVEX
		what, i = x86Vector(at(i+1)&7, at(i+4)), i+5
	case op != 0x0f:
		what, i = x86Ops[op], i+1
	case at(i+1) == 0x38:
		what, i = modRM, i+3
	case at(i+1) == 0x3a:
		what, i = modRM|imm8, i+3
	default:
		what, i = x86Ops0F[at(i+1)], i+2
	}
	if what&none != 0 {
		return 0
	}
	if what&modRM != 0 {
		m := at(i)
		i += x86Memory(m, at(i+1))
		if what&group3 != 0 && m>>3&7 > 1 {
			what &^= imm8 | immZ
		}
	}
	i += x86Immediate(what, narrow, addr32, wide)
	if i > len(code) || i > 15 {
		return 0
	}
	return i
}

// x86Vector returns the operands of an opcode after a VEX, EVEX or XOP prefix, which selects
// one of several tables.
func x86Vector(table, op byte) uint16 {
	switch table {
	case 1:
		if op == 0x77 {
			return 0 // vzeroupper
		}
		return x86Ops0F[op]&imm8 | modRM
	case 2, 5, 6, 9:
		return modRM
	case 3, 8:
		return modRM | imm8
	case 10:
		return modRM | imm32
	}
	return none
}

// x86Memory returns the length of a ModRM byte including the SIB byte and the displacement
// after it.
func x86Memory(m, sib byte) int {
	mod, rm, n := m>>6, m&7, 1
	if mod == 3 {
		return n
	}
	if rm == 4 {
		n++
		rm = sib & 7
	} else if mod == 0 && rm == 5 { // relative to the next instruction
		return n + 4
	}
	switch {
	case mod == 1:
		n++
	case mod == 2, mod == 0 && rm == 5: // a SIB without a base
		n += 4
	}
	return n
}

func x86Immediate(what uint16, narrow, addr32, wide bool) (n int) {
	z := 4
	if narrow && !wide {
		z = 2
	}
	for _, x := range [...]struct {
		bit  uint16
		size int
	}{{imm8, 1}, {imm16, 2}, {immZ, z}, {imm32, 4}, {immV, z}, {moffs, 8}} {
		if what&x.bit != 0 {
			n += x.size
		}
	}
	if what&immV != 0 && wide || what&moffs != 0 && addr32 {
		return 12 - n // 8 instead of 4, or vice versa
	}
	return n
}

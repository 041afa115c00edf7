// Package x86 returns the length and the parts of x86-64 instructions. It follows Intel's manual, volume 2, chapter 2
// and appendix A, and knows no mnemonics.
package x86

// Operands after an opcode, as bits.
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

// ops holds the operands of one-byte opcodes: Intel's manual, volume 2, table A-2, in
// 64-bit mode.
var ops = func() (t [256]uint16) {
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
	set(none, 0x64, 0x67) // prefixes
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
	t[0xf0], t[0xf2], t[0xf3] = none, none, none // prefixes
	t[0xf6], t[0xf7], t[0xfe], t[0xff] = modRM|imm8|group3, modRM|immZ|group3, modRM, modRM
	return t
}()

// ops0F holds the operands of two-byte opcodes with 0F: table A-3.
var ops0F = func() (t [256]uint16) {
	for i := range t {
		t[i] = modRM
	}
	for _, r := range [...][2]int{{0x05, 0x09}, {0x0b, 0x0b}, {0x0e, 0x0e}, {0x30, 0x37}, {0x77, 0x77}, {0xa0, 0xa2},
		{0xa8, 0xaa}, {0xc8, 0xcf}} {
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

// Encoding is the encoding of an instruction.
type Encoding struct {
	Len      int  // in bytes; 0 if unknown or truncated
	Escaped  bool // it begins with 0F, VEX or EVEX, after other prefixes
	Vector   bool // it starts with a VEX or EVEX prefix
	Prefixed bool // other prefixes come first
	ModRM    byte // 0 if there is none
}

// Decode returns the encoding of the instruction at the start of code, in 64-bit mode.
func Decode(code []byte) (e Encoding) {
	i, narrow, addr32 := prefixes(code)
	wide := false
	if at(code, i)&0xf0 == 0x40 { // REX
		wide = at(code, i)&8 != 0
		i++
	}
	e.Prefixed = i > 0
	var what uint16
	switch op, next := at(code, i), at(code, i+1); {
	case op == 0xc5: // VEX, short
		e.Vector = true
		what, i = vector(1, at(code, i+2)), i+3
	case op == 0xc4 && next&0x1f < 8: // VEX
		e.Vector = true
		what, i = vector(next&0x1f, at(code, i+3)), i+4
	case op == 0x62: // EVEX
		e.Vector = true
		what, i = vector(next&7, at(code, i+4)), i+5
	case op == 0x8f && next&0x1f >= 8: // XOP
		what, i = vector(next&0x1f, at(code, i+3)), i+4
	case op != 0x0f:
		what, i = ops[op], i+1
	case next == 0x38:
		e.Escaped = true
		what, i = modRM, i+3
	case next == 0x3a:
		e.Escaped = true
		what, i = modRM|imm8, i+3
	default:
		e.Escaped = true
		what, i = ops0F[next], i+2
	}
	e.Escaped = e.Escaped || e.Vector
	if what&none != 0 {
		return e
	}
	if what&modRM != 0 {
		e.ModRM = at(code, i)
		i += memory(e.ModRM, at(code, i+1))
		if what&group3 != 0 && e.ModRM>>3&7 > 1 {
			what &^= imm8 | immZ
		}
	}
	if i += immediate(what, narrow, addr32, wide); i <= len(code) && i <= MaxLen {
		e.Len = i
	}
	return e
}

// MaxLen is the length of the longest instruction, in bytes.
const MaxLen = 15

// at returns a byte of code, 0 after the end.
func at(code []byte, i int) byte {
	if i < len(code) {
		return code[i]
	}
	return 0
}

// prefixes returns the number of prefixes before REX, VEX, EVEX and the opcode, and whether they
// select operands of 16 bits and addresses of 32 bits.
func prefixes(code []byte) (n int, narrow, addr32 bool) {
	for ; n < MaxLen-1; n++ {
		switch at(code, n) {
		case 0x66:
			narrow = true
		case 0x67:
			addr32 = true
		case 0xf0, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65:
		default:
			return n, narrow, addr32
		}
	}
	return n, narrow, addr32
}

// vector returns the operands of an opcode after a VEX, EVEX or XOP prefix, which selects
// one of several tables.
func vector(table, op byte) uint16 {
	switch table {
	case 1:
		if ops0F[op] == 0 {
			return 0 // such as vzeroupper
		}
		return ops0F[op]&imm8 | modRM
	case 2, 5, 6, 9:
		return modRM
	case 3, 8:
		return modRM | imm8
	case 10:
		return modRM | imm32
	}
	return none
}

// memory returns the length of a ModRM byte including the SIB byte and the displacement
// after it.
func memory(m, sib byte) int {
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

// immediate returns the number of bytes of the immediate operands.
func immediate(what uint16, narrow, addr32, wide bool) (n int) {
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

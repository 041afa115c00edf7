package disasm

import "bytes"

// maxX86 is the longest instruction, in bytes.
const maxX86 = 15

var prefixesX86 = []byte{0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65}

// encoding is how an instruction is built.
type encoding struct {
	len      int  // in bytes; 0 if unknown or truncated
	prefixed bool // other prefixes come before 0F, VEX or EVEX
	vex      bool // it has VEX or EVEX
	modRM    byte
}

// encodingX86 returns the encoding of the first instruction of code if it begins
// with 0F, VEX or EVEX. All instructions that x86asm does not know are among these
// (Intel's manual, volume 2, chapter 2 and appendix A), and the length of one is
// needed to decode the next.
func encodingX86(code []byte) (e encoding) {
	i := 0
	for i < len(code) && bytes.IndexByte(prefixesX86, code[i]) >= 0 {
		i++
	}
	if i < len(code) && code[i]&0xf0 == 0x40 { // REX
		i++
	}
	table, n := tableOfX86(code[i:])
	if table == 0 || i+n >= len(code) {
		return e
	}
	e.prefixed, e.vex = i > 0, code[i] != 0x0f
	i += n
	opcode := code[i]
	i++
	if !(table == 1 && bytes.IndexByte(bare0F, opcode) >= 0) {
		n := lengthModRM(code[i:])
		if n == 0 {
			return e
		}
		e.modRM = code[i]
		i += n
	}
	if table == 3 || table == 1 && bytes.IndexByte(immediate0F, opcode) >= 0 {
		i++
	}
	if i <= len(code) {
		e.len = i
	}
	return e
}

// tableOfX86 returns the opcode's table and offset: table 1 has the opcodes after
// 0F, 2 those after 0F 38, 3 those after 0F 3A; 0 is none.
func tableOfX86(code []byte) (table byte, n int) {
	if len(code) < 2 {
		return 0, 0
	}
	switch code[0] {
	case 0xc5: // VEX, short
		return 1, 2
	case 0xc4: // VEX
		return mapX86(code[1] & 0x1f), 3
	case 0x62: // EVEX
		return mapX86(code[1] & 7), 4
	case 0x0f:
		switch code[1] {
		case 0x38:
			return 2, 2
		case 0x3a:
			return 3, 2
		}
		return 1, 1
	}
	return 0, 0
}

// mapX86 is the table that a VEX or EVEX prefix names; the instructions of maps 5
// and 6, for numbers of half size, are built like those of 2.
func mapX86(m byte) byte {
	switch m {
	case 1, 2, 3:
		return m
	case 5, 6:
		return 2
	}
	return 0
}

// Opcodes after 0F without ModRM byte, and those with an immediate byte after it.
var (
	bare0F      = []byte{0x05, 0x06, 0x07, 0x08, 0x09, 0x0b, 0x0e, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x37, 0x77, 0xa0, 0xa1, 0xa2, 0xa8, 0xa9, 0xaa, 0xc8, 0xc9, 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf}
	immediate0F = []byte{0x0f, 0x70, 0x71, 0x72, 0x73, 0xa4, 0xac, 0xba, 0xc2, 0xc4, 0xc5, 0xc6}
)

// lengthModRM returns the bytes of the memory or register operand, 0 if code is too
// short.
func lengthModRM(code []byte) int {
	if len(code) == 0 {
		return 0
	}
	mod, rm := code[0]>>6, code[0]&7
	n := 1
	if mod != 3 && rm == 4 { // SIB
		if len(code) < 2 {
			return 0
		}
		if n = 2; mod == 0 && code[1]&7 == 5 {
			n += 4
		}
	}
	switch {
	case mod == 1:
		n++
	case mod == 2, mod == 0 && rm == 5:
		n += 4
	}
	return n
}

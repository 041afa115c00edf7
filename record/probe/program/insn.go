package program

import (
	"debug/elf"
	"encoding/binary"
	"iter"

	"gperf/internal/x86"
)

// instructions yields the offset in the file and the bytes of each instruction of a function.
// It stops at an instruction that it cannot decode.
func (f *File) instructions(fn *Function) iter.Seq2[uint64, []byte] {
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

// returns reports whether an instruction returns from the function.
func (f *File) returns(insn []byte) bool {
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

func x86Length(code []byte) int { return x86.Decode(code).Len }

func arm64Length(code []byte) int {
	if len(code) < 4 {
		return 0
	}
	return 4
}

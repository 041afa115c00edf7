package names

import (
	"cmp"
	"encoding/binary"
	"iter"
)

// Words of DWARF 4.
const (
	tagCompileUnit = 0x11
	atName         = 0x03
	atStmtList     = 0x10
	atLowPC        = 0x11
	atHighPC       = 0x12
	formAddr       = 0x01
	formData8      = 0x07
	formString     = 0x08
	formSecOffset  = 0x17

	lnsCopy        = 1
	lnsAdvancePC   = 2
	lnsAdvanceLine = 3
	lnsSetFile     = 4
	lneEndSequence = 1
	lneSetAddress  = 2
)

// dwarf returns the debug sections: one unit with the lines of all functions.
func (f *file) dwarf() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		_ = yield(".debug_abbrev", []byte{1, tagCompileUnit, 0, atName, formString, atStmtList, formSecOffset,
			atLowPC, formAddr, atHighPC, formData8, 0, 0, 0}) &&
			yield(".debug_info", f.info()) && yield(".debug_line", f.lines())
	}
}

var le = binary.LittleEndian

// sized prepends the length of a unit.
func sized(b []byte) []byte { return append(le.AppendUint32(nil, uint32(len(b))), b...) }

func (f *file) info() []byte {
	b := []byte{4, 0, 0, 0, 0, 0, 8} // version 4, abbreviations at 0, addresses of 8 bytes
	b = append(b, 1)
	b = append(b, f.name...)
	b = append(b, 0, 0, 0, 0, 0)
	b = le.AppendUint64(b, textOff)
	b = le.AppendUint64(b, f.next-textOff)
	return sized(b)
}

// lines returns the line program: a sequence for each function.
func (f *file) lines() []byte {
	// The sizes of instructions, how special opcodes are encoded, and the operands of the other opcodes.
	h := []byte{1, 1, 1, 0, 1, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1}
	h = append(h, 0) // no directories: names of files are as in the program
	files := map[string]uint64{}
	var program []byte
	for i := range f.list {
		fn := &f.list[i]
		if len(fn.of.Lines) == 0 {
			continue
		}
		number, ok := files[fn.of.File]
		if !ok {
			number = uint64(len(files)) + 1
			files[fn.of.File] = number
			h = append(append(h, cmp.Or(fn.of.File, "?")...), 0, 0, 0, 0)
		}
		program = fn.appendLines(program, number)
	}
	h = append(h, 0)
	b := append([]byte{4, 0}, sized(h)...)
	return sized(append(b, program...))
}

// appendLines appends the function's sequence.
func (f *function) appendLines(b []byte, file uint64) []byte {
	b = append(b, 0, 9, lneSetAddress)
	b = le.AppendUint64(b, f.off)
	b = append(b, lnsSetFile)
	b = binary.AppendUvarint(b, file)
	off, line := uint32(0), int64(1)
	for _, l := range f.of.Lines {
		b = append(b, lnsAdvancePC)
		b = binary.AppendUvarint(b, uint64(l.Off-off))
		b = append(b, lnsAdvanceLine)
		b = appendSigned(b, int64(l.Line)-line)
		b = append(b, lnsCopy)
		off, line = l.Off, int64(l.Line)
	}
	b = append(b, lnsAdvancePC)
	b = binary.AppendUvarint(b, uint64(f.of.Size-off))
	return append(b, 0, 1, lneEndSequence)
}

// appendSigned appends a number as SLEB128.
func appendSigned(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

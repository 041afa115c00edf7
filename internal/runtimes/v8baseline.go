package runtimes

import "encoding/binary"

// v8Prefixes are the bytecodes that widen the operands of the next bytecode: by number, the index of the sizes.
var v8Prefixes = [...]int{1, 2, 1, 2}

// v8Bytecodes are the sizes of bytecodes: three times as many as there are, for operands of 1, 2 and 4 bytes.
type v8Bytecodes []byte

// v8Baseline is code of V8's first compiler (Sparkplug), which makes code for one bytecode after the other.
type v8Baseline struct {
	bytecode []byte
	table    []byte // the sizes of the parts of code
}

// baseline reads the bytecode that code was made from, nil if that is not known.
func (v *v8Process) baseline(h *v8Heap, c *v8Head) *v8Baseline {
	bytecode, err := h.bytecodeOf(c.object)
	if err != nil || bytecode == 0 || len(v.vm.bytecodes) == 0 {
		return nil
	}
	length, err := h.word(bytecode, 8)
	if err != nil || smi(length) <= 0 || smi(length) > maxV8Table {
		return nil
	}
	text, err := readAt(h.mem, bytecode-v8Tag+uint64(v.vm.walk.BytecodeHeader), int(smi(length)))
	if err != nil {
		return nil
	}
	return &v8Baseline{text, h.byteArray(c.table)}
}

// offset returns the offset of the bytecode whose code contains the byte at pc. The first part is the function's entry.
func (s v8Bytecodes) offset(b *v8Baseline, pc uint64) uint32 {
	bytecode, table := b.bytecode, b.table
	end, n := binary.Uvarint(table)
	off, next := 0, 0
	for end <= pc {
		if table = table[max(n, 0):]; n <= 0 || next >= len(bytecode) {
			return 0
		}
		var size uint64
		if size, n = binary.Uvarint(table); n <= 0 {
			return 0
		}
		end += size
		off = next
		next += s.sizeOf(bytecode[next:])
	}
	return uint32(off)
}

// sizeOf returns the size of the first bytecode, including the prefix.
func (s v8Bytecodes) sizeOf(bytecode []byte) int {
	all := len(s) / 3
	op, prefix, wide := int(bytecode[0]), 0, 0
	if op < len(v8Prefixes) && len(bytecode) > 1 {
		op, prefix, wide = int(bytecode[1]), 1, v8Prefixes[op]
	}
	if op >= all {
		return 1
	}
	return prefix + max(1, int(s[wide*all+op]))
}

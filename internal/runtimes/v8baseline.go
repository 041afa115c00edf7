package runtimes

import "encoding/binary"

// v8Baseline is where code of V8's first compiler (Sparkplug) is, and which bytecode each part of it is from: offsets
// in its Code object. The compiler makes code for one bytecode after the other.
type v8Baseline struct {
	start  uint64 // the address of the instructions, or they are here
	inside bool
	size   uint64 // of the instructions, in bytes
	table  uint64 // the sizes of the parts
	// sizes are the sizes of bytecodes: three times as many as there are, for operands of 1, 2 and 4 bytes.
	sizes []byte
}

// v8Prefixes are the bytecodes that say that the next one has wider operands: by number, the index of the sizes.
var v8Prefixes = [...]int{1, 2, 1, 2}

// baselineOff returns the offset of the bytecode that the code of a function at an ip is from: 0 if it is none.
func (v *v8) baselineOff(h *v8Heap, shared, ip uint64) uint32 {
	if len(v.baseline.sizes) == 0 {
		return 0
	}
	code, err := h.word(shared, uint64(v.walk.Data))
	if err != nil || h.is(code, h.codeType) != nil {
		return 0
	}
	b := &v.baseline
	start := code - v8Tag + b.start
	if !b.inside {
		if start, err = h.word(code, b.start); err != nil {
			return 0
		}
	}
	size, err := h.word(code, b.size)
	if err != nil || ip < start || ip-start >= uint64(uint32(size)) {
		return 0
	}
	table, err := h.word(code, b.table)
	if err != nil {
		return 0
	}
	bytecode := h.bytecodeOf(code)
	if bytecode == 0 {
		return 0
	}
	length, err := h.word(bytecode, 8)
	if err != nil || smi(length) <= 0 || smi(length) > maxV8Table {
		return 0
	}
	text, err := readAt(h.mem, bytecode-v8Tag+uint64(v.walk.BytecodeHeader), int(smi(length)))
	if err != nil {
		return 0
	}
	return b.offset(text, h.byteArray(table), ip-start)
}

// offset returns the offset of the bytecode whose code has the byte at pc. The first part is the function's entry.
func (b *v8Baseline) offset(bytecode, table []byte, pc uint64) uint32 {
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
		next += b.sizeOf(bytecode[next:])
	}
	return uint32(off)
}

// sizeOf returns the size of the first bytecode, with its prefix.
func (b *v8Baseline) sizeOf(bytecode []byte) int {
	all := len(b.sizes) / 3
	op, prefix, wide := int(bytecode[0]), 0, 0
	if op < len(v8Prefixes) && len(bytecode) > 1 {
		op, prefix, wide = int(bytecode[1]), 1, v8Prefixes[op]
	}
	if op >= all {
		return 1
	}
	return prefix + max(1, int(b.sizes[wide*all+op]))
}

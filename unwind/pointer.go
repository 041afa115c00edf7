package unwind

import "gperf/internal/dwarf"

// Encodings of pointers in .eh_frame (DW_EH_PE_*, LSB core, "DWARF extensions"):
// the low four bits are the format, the next three the base.
const (
	peAbsptr  = 0x00
	peUleb    = 0x01
	peUdata2  = 0x02
	peUdata4  = 0x03
	peUdata8  = 0x04
	peSigned  = 0x08 // signed, with the size of an address
	peSleb    = 0x09
	peSdata2  = 0x0a
	peSdata4  = 0x0b
	peSdata8  = 0x0c
	peFormat  = 0x0f
	pePcrel   = 0x10
	peTextrel = 0x20
	peDatarel = 0x30
	peAligned = 0x50
	peApply   = 0x70
	peOmit    = 0xff
	// Compilers use DW_EH_PE_indirect (0x80) only for personality routines, which gperf skips. For addresses of code,
	// gperf rejects it, because it requires the process's memory.
	peIndirect = 0x80
)

// pointer reads encoded pointers.
type pointer struct {
	enc  uint8
	size int    // of an address: 4 or 8
	addr uint64 // vaddr of the cursor's position 0
	text uint64 // base of textrel
	data uint64 // base of datarel
}

// read returns the pointer at the cursor. ok is false for encodings that code addresses cannot have.
func (p pointer) read(c *dwarf.Cursor) (v uint64, ok bool) {
	if p.enc&peApply == peAligned {
		for (p.addr+uint64(c.Pos))%uint64(p.size) != 0 && !c.Bad {
			c.U8()
		}
		return c.Uint(p.size), true
	}
	at := p.addr + uint64(c.Pos)
	v, ok = p.format(c)
	switch p.enc & (peApply | peIndirect) {
	case 0:
	case pePcrel:
		v += at
	case peTextrel:
		v += p.text
	case peDatarel:
		v += p.data
	default:
		ok = false
	}
	if p.size == 4 {
		v = uint64(uint32(v))
	}
	return v, ok
}

// format reads a number in the pointer's format without a base, such as the length of an FDE's range.
func (p pointer) format(c *dwarf.Cursor) (v uint64, ok bool) {
	switch p.enc & peFormat {
	case peAbsptr, peSigned:
		return c.Uint(p.size), true
	case peUleb:
		return c.ULEB(), true
	case peUdata2:
		return uint64(c.U16()), true
	case peUdata4:
		return uint64(c.U32()), true
	case peUdata8, peSdata8:
		return c.U64(), true
	case peSleb:
		return uint64(c.SLEB()), true
	case peSdata2:
		return uint64(int16(c.U16())), true
	case peSdata4:
		return uint64(int32(c.U32())), true
	}
	return 0, false
}

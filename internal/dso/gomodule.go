package dso

import (
	"debug/elf"
	"encoding/binary"
	"slices"

	"gperf/internal/dwarf"
)

// module reads runtime.moduledata, whose first word is the vaddr of the table.
type module struct {
	im       *Image
	ptr      int
	relative map[uint64]uint64 // words that the loader relocates, by vaddr, in position-independent programs
	at       uint64            // vaddr of the moduledata; 0: not found
}

func newModule(im *Image, table uint64, ptr int) *module {
	m := &module{im: im, ptr: ptr, relative: make(map[uint64]uint64)}
	m.readRelative()
	for vaddr, v := range m.relative {
		if v == table && m.isModule(vaddr) {
			m.at = vaddr
			return m
		}
	}
	for _, s := range im.Sections {
		if s.Flags&elf.SHF_WRITE == 0 || s.Flags&elf.SHF_ALLOC == 0 || ptr != 4 && ptr != 8 {
			continue
		}
		b, _ := im.Map(s) // an unreadable section does not contain it
		c := dwarf.Cursor{B: b, Big: im.ByteOrder() == binary.BigEndian}
		for c.Left() >= ptr {
			at := s.Addr + uint64(c.Pos)
			if c.Uint(ptr) == table && m.isModule(at) {
				m.at = at
				return m
			}
		}
	}
	return m
}

// isModule reports whether a moduledata is at a vaddr: the text must be code.
func (m *module) isModule(vaddr uint64) bool {
	n := *m
	n.at = vaddr
	text, end := n.word(moduleText), n.word(moduleText+1)
	return text < end && isCode(m.im, text)
}

// relativeTypes are the relocations that add the load address.
var relativeTypes = map[elf.Machine]uint64{elf.EM_X86_64: uint64(elf.R_X86_64_RELATIVE),
	elf.EM_AARCH64: uint64(elf.R_AARCH64_RELATIVE)}

func (m *module) readRelative() {
	typ, ok := relativeTypes[m.im.Machine]
	for _, s := range m.im.Sections {
		if !ok || s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, _ := m.im.Map(s)
		for c := (dwarf.Cursor{B: b, Big: m.im.ByteOrder() == binary.BigEndian}); c.Left() >= 24; {
			if at, info, addend := c.U64(), c.U64(), c.U64(); info == typ {
				m.relative[at] = addend
			}
		}
	}
}

// word returns word i of moduledata, or 0 if it is unknown.
func (m *module) word(i int) uint64 {
	if m.at == 0 {
		return 0
	}
	at := m.at + uint64(i*m.ptr)
	if v, ok := m.relative[at]; ok {
		return v
	}
	c := dwarf.Cursor{B: m.bytes(at), Big: m.im.ByteOrder() == binary.BigEndian}
	return c.Uint(m.ptr)
}

// bytes returns the bytes from a vaddr to the end of the section.
func (m *module) bytes(vaddr uint64) []byte {
	for _, s := range m.im.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS && vaddr >= s.Addr && vaddr-s.Addr < s.Size {
			if b, err := m.im.Map(s); err == nil && vaddr-s.Addr < uint64(len(b)) {
				return b[vaddr-s.Addr:]
			}
		}
	}
	return nil
}

// isCode reports whether a vaddr is in an executable segment.
func isCode(im *Image, vaddr uint64) bool {
	return slices.ContainsFunc(im.Loads, func(l elf.ProgHeader) bool {
		return l.Flags&elf.PF_X != 0 && vaddr >= l.Vaddr && vaddr-l.Vaddr < l.Memsz
	})
}

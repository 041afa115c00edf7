package srcline

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"

	"gperf/internal/dso"
	"gperf/internal/dwarf"
)

// SectionAddrs returns the vaddr of each section, by index. Sections of a relocatable file (a kernel module) have none:
// SectionAddrs assigns consecutive addresses. An Index uses them too, including a cached one of another file with the
// same build ID. Because that file may lack the empty sections, these get no address.
func SectionAddrs(im *dso.Image) []uint64 {
	addrs := make([]uint64, len(im.Sections))
	next := uint64(relocatableBase)
	for i, s := range im.Sections {
		switch {
		case im.Type != elf.ET_REL:
			addrs[i] = s.Addr
		case s.Flags&elf.SHF_ALLOC != 0 && s.Size > 0 && s.Size <= maxSection:
			addrs[i] = next
			next = (next + s.Size + sectionAlign) &^ (sectionAlign - 1)
		}
	}
	return addrs
}

const (
	relocatableBase = 1 << 12
	sectionAlign    = 1 << 12
	maxSection      = 1 << 40
)

// relocations are the types that occur in debug information, and the size in bytes of their operands, by machine (the
// ELF supplements of the processors).
var relocations = map[elf.Machine]map[uint32]int{
	elf.EM_X86_64:  {uint32(elf.R_X86_64_64): 8, uint32(elf.R_X86_64_32): 4, uint32(elf.R_X86_64_32S): 4},
	elf.EM_386:     {uint32(elf.R_386_32): 4},
	elf.EM_AARCH64: {uint32(elf.R_AARCH64_ABS64): 8, uint32(elf.R_AARCH64_ABS32): 4},
	elf.EM_ARM:     {uint32(elf.R_ARM_ABS32): 4},
	elf.EM_PPC:     {uint32(elf.R_PPC_ADDR32): 4},
	elf.EM_PPC64:   {uint32(elf.R_PPC64_ADDR64): 8, uint32(elf.R_PPC64_ADDR32): 4},
	elf.EM_S390:    {uint32(elf.R_390_64): 8, uint32(elf.R_390_32): 4},
}

// relocated applies the relocations of a relocatable file to the contents b of a section. Files of other types may also
// contain relocations; the linker has already applied those.
func relocated(im *dso.Image, target *elf.Section, b []byte) ([]byte, error) {
	if im.Type != elf.ET_REL {
		return b, nil
	}
	for _, s := range im.Sections {
		if s.Type != elf.SHT_RELA && s.Type != elf.SHT_REL || uint64(s.Info) >= uint64(len(im.Sections)) ||
			im.Sections[s.Info] != target {
			continue
		}
		b = bytes.Clone(b)
		if err := relocate(im, s, b); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return b, nil
}

func relocate(im *dso.Image, s *elf.Section, b []byte) error {
	types := relocations[im.Machine]
	if types == nil {
		return fmt.Errorf("unknown relocations of %v", im.Machine)
	}
	list, err := im.Data(s)
	if err != nil {
		return err
	}
	values, err := symbolValues(im, s.Link)
	if err != nil {
		return err
	}
	c := dwarf.Cursor{B: list, Big: im.ByteOrder() == binary.BigEndian}
	word := 4
	if im.Is64 {
		word = 8
	}
	for c.Left() > 0 {
		off, info := c.Uint(word), c.Uint(word)
		sym, typ := info>>32, uint32(info)
		if !im.Is64 {
			sym, typ = info>>8, uint32(info&0xff)
		}
		size, ok := types[typ]
		addend := uint64(0)
		if s.Type == elf.SHT_RELA {
			addend = c.Uint(word)
		}
		if c.Bad || !ok || sym >= uint64(len(values)) || off > uint64(len(b)) || uint64(size) > uint64(len(b))-off {
			continue
		}
		place := b[off:][:size]
		if s.Type == elf.SHT_REL {
			addend = (&dwarf.Cursor{B: place, Big: c.Big}).Uint(size)
		}
		putUint(place, values[sym]+addend, c.Big)
	}
	return nil
}

func putUint(b []byte, v uint64, big bool) {
	for i := range b {
		shift := 8 * i
		if big {
			shift = 8 * (len(b) - 1 - i)
		}
		b[i] = byte(v >> shift)
	}
}

// symbolValues returns the vaddrs of the symbols of a table.
func symbolValues(im *dso.Image, section uint32) ([]uint64, error) {
	if uint64(section) >= uint64(len(im.Sections)) {
		return nil, fmt.Errorf("link to section %d of %d", section, len(im.Sections))
	}
	b, err := im.Data(im.Sections[section])
	if err != nil {
		return nil, err
	}
	addrs := SectionAddrs(im)
	c := dwarf.Cursor{B: b, Big: im.ByteOrder() == binary.BigEndian}
	var values []uint64
	for c.Left() > 0 {
		var value, index uint64
		if im.Is64 {
			c.Skip(6)
			index, value = uint64(c.U16()), c.U64()
			c.Skip(8)
		} else {
			c.Skip(4)
			value = uint64(c.U32())
			c.Skip(6)
			index = uint64(c.U16())
		}
		if index < uint64(len(addrs)) {
			value += addrs[index]
		}
		values = append(values, value)
	}
	return values, nil
}

package symbolize

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"gperf/internal/dso"
)

const pltSuffix = "@plt"

// addPLT adds a symbol for each entry of the procedure linkage table, which symbol
// tables do not name: name@plt, where name is the symbol that the entry's
// relocation refers to (dso__synthesize_plt_symbols in tools/perf/util/symbol-elf.c).
func addPLT(b *tableBuilder, im *dso.Image) {
	plt := im.Section(".plt")
	if plt == nil || plt.Type == elf.SHT_NOBITS {
		return
	}
	// A symbol without a size may have been stretched over the PLT.
	if e := b.find(plt.Offset); e != nil && e.start < plt.Offset {
		e.end = plt.Offset
	}
	header, size := pltSizes(im.Machine, plt)
	if size == 0 {
		return
	}
	relocs, symbols := pltRelocs(im)
	first := pltEntry(plt.Offset, header, ".plt")
	first.plt = false
	at := plt.Offset
	x86 := im.Machine == elf.EM_X86_64 || im.Machine == elf.EM_386
	sec := im.Section(".plt.sec")
	lazy := !x86 || sec == nil
	if !lazy {
		// .plt only pushes indices; calls go to .plt.sec.
		first.end = first.start + plt.Size
		at = sec.Offset
		_, size = pltSizes(im.Machine, sec)
	}
	b.add([]entry{first})
	if x86 {
		b.add(pltGot(im))
		// Linkers write IFUNC relocations last, in any order of their PLT entries.
		slices.SortStableFunc(relocs, func(a, b reloc) int { return cmp.Compare(a.off, b.off) })
	}
	if len(relocs) == 0 || size == 0 {
		return
	}
	if lazy {
		// The relocations fill the section, so it has no header: no symbol is bound lazily.
		if uint64(len(relocs))*size == plt.Size {
			b.remove(first.start, first.name)
		} else {
			at += header
		}
	}
	entries := make([]entry, 0, len(relocs))
	for _, r := range relocs {
		name := symbols.name(r.sym)
		if name == "" {
			name = ifuncName(b, im, r)
		}
		if name == "" {
			name = fmt.Sprintf("offset_%#x", at)
		}
		entries = append(entries, pltEntry(at, size, name))
		at += size
	}
	b.add(entries)
}

func pltEntry(start, size uint64, name string) entry {
	return entry{start: start, end: start + size, name: name, typ: elf.STT_FUNC, bind: elf.STB_GLOBAL, plt: true}
}

// pltSizes returns the size of a PLT's header and of its entries, 0 if unknown.
func pltSizes(machine elf.Machine, plt *elf.Section) (header, size uint64) {
	switch machine {
	case elf.EM_ARM:
		return 20, 12
	case elf.EM_AARCH64, elf.EM_LOONGARCH, elf.EM_RISCV:
		return 32, 16
	case elf.EM_SPARC:
		return 48, 12
	case elf.EM_SPARCV9:
		return 128, 32
	case elf.EM_386, elf.EM_X86_64:
		size = plt.Entsize
		if size != 8 && size != 16 {
			size = 16
			if plt.Addralign == 8 {
				size = 8
			}
		}
		return size, size
	}
	return plt.Entsize, plt.Entsize
}

// reloc is an entry of a relocation section.
type reloc struct {
	off    uint64 // vaddr of the relocated slot of the GOT
	sym    uint32 // index in the symbol table
	typ    uint32
	addend int64 // 0 in a REL section
}

// readRelocs reads a RELA or REL section.
func readRelocs(im *dso.Image, s *elf.Section) []reloc {
	data, err := im.Data(s)
	if err != nil || s.Type != elf.SHT_RELA && s.Type != elf.SHT_REL {
		return nil
	}
	rela := s.Type == elf.SHT_RELA
	word, o := 4, im.ByteOrder()
	if im.Is64 {
		word = 8
	}
	size := 2 * word
	if rela {
		size = 3 * word
	}
	list := make([]reloc, 0, len(data)/size)
	for ; len(data) >= size; data = data[size:] {
		var r reloc
		if im.Is64 {
			info := o.Uint64(data[8:])
			r.off, r.sym, r.typ = o.Uint64(data), elf.R_SYM64(info), elf.R_TYPE64(info)
			if rela {
				r.addend = int64(o.Uint64(data[16:]))
			}
		} else {
			info := o.Uint32(data[4:])
			r.off, r.sym, r.typ = uint64(o.Uint32(data)), elf.R_SYM32(info), elf.R_TYPE32(info)
			if rela {
				r.addend = int64(int32(o.Uint32(data[8:])))
			}
		}
		list = append(list, r)
	}
	return list
}

// symbolNames names the symbols that relocations refer to by index.
type symbolNames []rawSymbol

func (s symbolNames) name(i uint32) string {
	if uint64(i) >= uint64(len(s)) {
		return ""
	}
	return s[i].name
}

// pltRelocs returns the relocations of the PLT's slots and the symbol table that
// they refer to: .dynsym, or .symtab in a static executable, whose PLT is for
// IFUNCs.
func pltRelocs(im *dso.Image) ([]reloc, symbolNames) {
	s := im.Section(".rela.plt")
	if s == nil {
		s = im.Section(".rel.plt")
	}
	if s == nil || s.Link == 0 || uint64(s.Link) >= uint64(len(im.Sections)) {
		return nil, nil
	}
	table := im.Sections[s.Link]
	if table.Type != elf.SHT_DYNSYM && table.Type != elf.SHT_SYMTAB {
		return nil, nil
	}
	symbols, err := readSymbols(im, table)
	if err != nil {
		return nil, nil
	}
	return readRelocs(im, s), symbols
}

// ifuncName returns the name of the IFUNC for a relocation without a symbol. The
// relocation's addend is the address of the IFUNC's resolver. It returns "" if there
// is none.
func ifuncName(b *tableBuilder, im *dso.Image, r reloc) string {
	if im.Machine != elf.EM_X86_64 || elf.R_X86_64(r.typ) != elf.R_X86_64_IRELATIVE {
		return ""
	}
	off, ok := im.OffOfVaddr(uint64(r.addend))
	if !ok {
		return ""
	}
	e := b.find(off)
	if e == nil || e.start != off || e.typ != elf.STT_GNU_IFUNC && !e.ifunc {
		return ""
	}
	return e.name
}

// minPLTEntry is below the size of any jump: a PLT with smaller entries is damaged.
const minPLTEntry = 4

// pltGot returns the entries of .plt.got. They jump through GOT slots, and the
// relocation of a slot in .rela.dyn refers to the symbol.
func pltGot(im *dso.Image) []entry {
	s := im.Section(".plt.got")
	if s == nil || s.Entsize < minPLTEntry {
		return nil
	}
	code, err := im.Data(s)
	if err != nil {
		return nil
	}
	var slots []reloc
	var symbols symbolNames
	if im.Machine == elf.EM_X86_64 {
		slots, symbols = gotSlots(im)
	}
	var list []entry
	for i := uint64(0); i < uint64(len(code)); i += s.Entsize {
		name := ""
		if d := jumpTarget(code[i:]); d != 0 {
			// perf uses the offset in the file as the vaddr: they are equal in files with a
			// .plt.got.
			name = slotName(slots, symbols, s.Offset+i+uint64(d))
		}
		if name == "" {
			name = fmt.Sprintf("offset_%#x", s.Offset+i)
		}
		list = append(list, pltEntry(s.Offset+i, s.Entsize, name))
	}
	return list
}

// gotSlots returns the relocations of .rela.dyn that refer to symbols, by
// address, and those symbols.
func gotSlots(im *dso.Image) ([]reloc, symbolNames) {
	s := im.Section(".rela.dyn")
	if s == nil || s.Link == 0 || uint64(s.Link) >= uint64(len(im.Sections)) {
		return nil, nil
	}
	symbols, err := readSymbols(im, im.Sections[s.Link])
	if err != nil {
		return nil, nil
	}
	slots := slices.DeleteFunc(readRelocs(im, s), func(r reloc) bool { return r.sym == 0 })
	slices.SortStableFunc(slots, func(a, b reloc) int { return cmp.Compare(a.off, b.off) })
	return slots, symbols
}

func slotName(slots []reloc, symbols symbolNames, vaddr uint64) string {
	i := sort.Search(len(slots), func(i int) bool { return slots[i].off >= vaddr })
	if i == len(slots) || slots[i].off != vaddr {
		return ""
	}
	return symbols.name(slots[i].sym)
}

// jumpTarget returns the offset from the start of a PLT entry to the slot through
// which it jumps: [endbr64] [bnd] jmp *disp32(%rip). It returns 0 for other code.
func jumpTarget(code []byte) uint32 {
	insn := bytes.TrimPrefix(code, []byte{0xf3, 0x0f, 0x1e, 0xfa})
	insn = bytes.TrimPrefix(insn, []byte{0xf2})
	if len(insn) < 6 || insn[0] != 0xff || insn[1] != 0x25 {
		return 0
	}
	return uint32(len(code)-len(insn)) + 6 + binary.LittleEndian.Uint32(insn[2:])
}

package symbolize

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"iter"
	"sync"

	"gperf/internal/dso"
)

const pltSuffix = "@plt"

// pltSections are the sections with entries of the procedure linkage table (PLT), in perf's order: .plt.got has the
// entries of functions whose addresses the program also takes, .plt.sec those to which calls go with indirect branch
// tracking, .iplt those of IFUNCs in static programs of lld.
var pltSections = []string{".plt.got", ".plt", ".plt.sec", ".iplt"}

// stub is an entry of the PLT.
type stub struct {
	start, end uint64 // offsets in the file
	slot       uint64 // vaddr of the slot of the GOT through which the entry jumps
}

// addPLT adds a symbol for each entry of the PLT, which most symbol tables do not name: name@plt, where name is the
// symbol that the relocation of the entry's slot refers to. perf expects the layout of GNU ld instead, in which the
// entries have the order of the relocations (dso__synthesize_plt_symbols in tools/perf/util/symbol-elf.c).
func addPLT(b *tableBuilder, im *dso.Image) {
	var stubs [][]stub
	slots := map[uint64]*slot{}
	for _, name := range pltSections {
		list := pltStubs(im, im.Section(name))
		for _, t := range list {
			slots[t.slot] = &slot{}
		}
		stubs = append(stubs, list)
	}
	readSlots(b, im, slots)
	for i, list := range stubs {
		if s := im.Section(pltSections[i]); s != nil && s.Type != elf.SHT_NOBITS && s.Name == ".plt" {
			list = addPLTHeader(b, s, list, slots)
		}
		var entries []entry
		for _, t := range list {
			entries = placeStub(b, entries, pltEntry(t.start, t.end-t.start, slots[t.slot].name))
		}
		b.add(entries)
	}
}

// addPLTHeader adds a symbol for the start of .plt, which finds functions when they are first called. No relocation
// refers to a slot of it. addPLTHeader returns the other entries.
func addPLTHeader(b *tableBuilder, s *elf.Section, stubs []stub, slots map[uint64]*slot) []stub {
	for len(stubs) > 0 && !slots[stubs[0].slot].relocated {
		stubs = stubs[1:]
	}
	size := s.Size
	if len(stubs) > 0 {
		size = stubs[0].start - s.Offset
	}
	if size > 0 {
		header := pltEntry(s.Offset, size, ".plt")
		header.plt = false
		b.add(placeStub(b, nil, header))
	}
	return stubs
}

// placeStub appends an entry of the PLT to list, unless there is a symbol at its address, as mold makes: this one gets
// the name. A symbol before it that was stretched over the PLT, because it has no size, ends at the entry.
func placeStub(b *tableBuilder, list []entry, t entry) []entry {
	e := b.find(t.start)
	if e != nil && e.start == t.start {
		if e.end < t.end { // it may overlap the next one now
			b.apart = 0
		}
		if e.end = t.end; t.name != "" {
			e.name, e.plt = t.name, t.plt
		}
		return list
	}
	if e != nil {
		e.end = t.start
	}
	if t.name == "" {
		t.name = fmt.Sprintf("offset_%#x", t.start)
	}
	return append(list, t)
}

func pltEntry(start, size uint64, name string) entry {
	return entry{start: start, end: start + size, name: name, typ: elf.STT_FUNC, bind: elf.STB_GLOBAL, plt: true}
}

// pltStubs returns the entries of a section of the PLT, by address, none if there is no such section.
func pltStubs(im *dso.Image, s *elf.Section) (list []stub) {
	if s == nil || s.Type == elf.SHT_NOBITS {
		return nil
	}
	code, err := im.Data(s)
	if err != nil {
		return nil
	}
	switch im.Machine {
	case elf.EM_X86_64, elf.EM_386:
		list = x86Stubs(im, s, code)
	case elf.EM_AARCH64:
		list = arm64Stubs(im, s, code)
	default:
		list = countedStubs(im, s)
	}
	for i := range list {
		list[i].start += s.Offset
		if list[i].end = s.Offset + s.Size; i > 0 {
			list[i-1].end = list[i].start
		}
	}
	return list
}

// x86Stubs returns the entries of x86, which are at multiples of their size. A header may take the place of several.
func x86Stubs(im *dso.Image, s *elf.Section, code []byte) (list []stub) {
	size := 16
	if s.Entsize == 8 || s.Entsize != 16 && s.Addralign == 8 {
		size = 8
	}
	for i := 0; i < len(code); i += size {
		if to, ok := x86Slot(im, s, code, i); ok {
			list = append(list, stub{start: uint64(i), slot: to})
		}
	}
	return list
}

// Instructions of x86 before the jump of an entry.
var (
	endbr64 = []byte{0xf3, 0x0f, 0x1e, 0xfa}
	endbr32 = []byte{0xf3, 0x0f, 0x1e, 0xfb}
	bnd     = []byte{0xf2}
	movR11  = []byte{0x41, 0xbb} // and a number of 4 bytes
)

// x86Slot returns the vaddr of the slot through which the entry at code[i:] jumps.
func x86Slot(im *dso.Image, s *elf.Section, code []byte, i int) (vaddr uint64, ok bool) {
	insn := bytes.TrimPrefix(bytes.TrimPrefix(code[i:], endbr64), endbr32)
	if bytes.HasPrefix(insn, movR11) {
		insn = insn[min(len(insn), len(movR11)+4):]
	}
	insn = bytes.TrimPrefix(insn, bnd)
	const length = 6
	if len(insn) < length {
		return 0, false
	}
	disp := binary.LittleEndian.Uint32(insn[2:])
	switch {
	case insn[0] == 0xff && insn[1] == 0x25 && im.Is64: // jmp *disp(%rip)
		next := s.Addr + uint64(len(code)-len(insn)+length)
		return next + uint64(int64(int32(disp))), true
	case insn[0] == 0xff && insn[1] == 0x25: // jmp *disp
		return uint64(disp), true
	case insn[0] == 0xff && insn[1] == 0xa3 && !im.Is64: // jmp *disp(%ebx)
		got := cmp.Or(im.Section(".got.plt"), im.Section(".got"))
		if got != nil {
			return uint64(uint32(got.Addr) + disp), true
		}
	}
	return 0, false
}

// arm64Stubs returns the entries of arm64. Each loads x17 from the slot and ends with a branch and no-operations.
func arm64Stubs(im *dso.Image, s *elf.Section, code []byte) (list []stub) {
	const (
		nop    = 0xd503201f
		branch = 0xd61f0220 // br x17
	)
	var page uint64 // x16
	start := -1     // of the present entry, -1 before it
	var to uint64
	for i := 0; i+4 <= len(code); i += 4 {
		insn := im.ByteOrder().Uint32(code[i:])
		if start < 0 && insn != nop {
			start, to = i, 0
		}
		switch {
		case insn&0x9f00001f == 0x90000010: // adrp x16, page
			n := int64(insn>>5&0x7ffff<<2|insn>>29&3) << 43 >> 31 // 21 bits, of pages
			page = (s.Addr+uint64(i))&^(1<<12-1) + uint64(n)
		case insn&0xffc003ff == 0xf9400211: // ldr x17, [x16, #offset]
			to = page + uint64(insn>>10&0xfff)*8
		case insn == branch:
			list = append(list, stub{start: uint64(start), slot: to})
			start = -1
		}
	}
	return list
}

// countedStubs returns the entries of other machines as perf expects them: in the order of the relocations.
func countedStubs(im *dso.Image, s *elf.Section) (list []stub) {
	header, size := pltSizes(im.Machine, s)
	relocs := cmp.Or(im.Section(".rela.plt"), im.Section(".rel.plt"))
	if s.Name != ".plt" || size < minPLTEntry || relocs == nil {
		return nil
	}
	for r := range eachReloc(im, relocs) {
		list = append(list, stub{start: uint64(len(list)) * size, slot: r.off})
	}
	if uint64(len(list))*size == s.Size { // no header: no symbol is bound lazily
		return list
	}
	for i := range list {
		list[i].start += header
	}
	return list
}

// minPLTEntry is below the size of any jump: a PLT with smaller entries is damaged.
const minPLTEntry = 4

// pltSizes returns the size of a PLT's header and of its entries, 0 if unknown.
func pltSizes(machine elf.Machine, plt *elf.Section) (header, size uint64) {
	switch machine {
	case elf.EM_ARM:
		return 20, 12
	case elf.EM_LOONGARCH, elf.EM_RISCV:
		return 32, 16
	case elf.EM_SPARC:
		return 48, 12
	case elf.EM_SPARCV9:
		return 128, 32
	}
	return plt.Entsize, plt.Entsize
}

// slot is a slot of the GOT.
type slot struct {
	relocated bool
	name      string // of the symbol that the relocation refers to, or ""
}

// readSlots reads the relocations of these slots.
func readSlots(b *tableBuilder, im *dso.Image, slots map[uint64]*slot) {
	if len(slots) == 0 {
		return
	}
	for _, s := range im.Sections {
		if s.Type != elf.SHT_RELA && s.Type != elf.SHT_REL || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		symbols := sync.OnceValue(func() symbolNames { return linkedSymbols(im, s) })
		for r := range eachReloc(im, s) {
			to := slots[r.off]
			if to == nil {
				continue
			}
			to.relocated = true
			if r.sym == 0 {
				to.name = ifuncName(b, im, r)
			} else {
				to.name = symbols().name(r.sym)
			}
		}
	}
}

// symbolNames names the symbols that relocations refer to by index.
type symbolNames []rawSymbol

func (s symbolNames) name(i uint32) string {
	if uint64(i) >= uint64(len(s)) {
		return ""
	}
	return s[i].name
}

// linkedSymbols returns the symbol table that the relocations of a section refer to: .dynsym, or .symtab in a static
// program, whose PLT is for IFUNCs. A damaged table has no names.
func linkedSymbols(im *dso.Image, s *elf.Section) symbolNames {
	if uint64(s.Link) >= uint64(len(im.Sections)) {
		return nil
	}
	table := im.Sections[s.Link]
	if table.Type != elf.SHT_DYNSYM && table.Type != elf.SHT_SYMTAB {
		return nil
	}
	list, _ := readSymbols(im, table)
	return list
}

// reloc is an entry of a relocation section.
type reloc struct {
	off    uint64 // vaddr of the relocated slot of the GOT
	sym    uint32 // index in the symbol table
	typ    uint32
	addend int64 // 0 in a REL section
}

// eachReloc yields the entries of a RELA or REL section.
func eachReloc(im *dso.Image, s *elf.Section) iter.Seq[reloc] {
	return func(yield func(reloc) bool) {
		data, err := im.Data(s)
		if err != nil {
			return
		}
		words, size := 2, 4
		if s.Type == elf.SHT_RELA {
			words = 3
		}
		if im.Is64 {
			size = 8
		}
		for n := words * size; len(data) >= n; data = data[n:] {
			if !yield(decodeReloc(data[:n], im.Is64, im.ByteOrder())) {
				return
			}
		}
	}
}

// decodeReloc decodes an ElfN_Rel or ElfN_Rela.
func decodeReloc(b []byte, is64 bool, o binary.ByteOrder) (r reloc) {
	if is64 {
		info := o.Uint64(b[8:])
		r.off, r.sym, r.typ = o.Uint64(b), elf.R_SYM64(info), elf.R_TYPE64(info)
		if len(b) > 16 {
			r.addend = int64(o.Uint64(b[16:]))
		}
		return r
	}
	info := o.Uint32(b[4:])
	r.off, r.sym, r.typ = uint64(o.Uint32(b)), elf.R_SYM32(info), elf.R_TYPE32(info)
	if len(b) > 8 {
		r.addend = int64(int32(o.Uint32(b[8:])))
	}
	return r
}

// ifuncName returns the name of the IFUNC for a relocation without a symbol. The
// relocation's addend is the address of the IFUNC's resolver. It returns "" if there
// is none.
func ifuncName(b *tableBuilder, im *dso.Image, r reloc) string {
	switch {
	case im.Machine == elf.EM_X86_64 && elf.R_X86_64(r.typ) == elf.R_X86_64_IRELATIVE:
	case im.Machine == elf.EM_AARCH64 && elf.R_AARCH64(r.typ) == elf.R_AARCH64_IRELATIVE:
	default:
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

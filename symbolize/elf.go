package symbolize

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"gperf/internal/dso"
	"gperf/symbolize/srcline"
)

// userTable returns the table of a user DSO as perf makes it (dso__load_sym and
// dso__synthesize_plt_symbols in tools/perf/util/symbol-elf.c): it adds the .symtab and
// then the .dynsym of syms, then names for the PLT of runtime. If syms comes from
// runtime's .gnu_debugdata, which lacks the symbols of .dynsym, the
// .dynsym of runtime is used. Addresses are offsets in runtime's file. A Go program without a
// .symtab has the functions of its own table, which perf does not read. If there are no symbols, the error is
// dso.ErrNoSymbols, and the table contains the PLT alone.
func userTable(syms, runtime *dso.Image, show func(*entry) string) (*Table, error) {
	b := tableBuilder{show: show}
	dynamic := syms
	if syms != runtime && syms.Path == runtime.Path {
		dynamic = runtime
	}
	for _, from := range []struct {
		im      *dso.Image
		section string
	}{{syms, ".symtab"}, {dynamic, ".dynsym"}} {
		s := from.im.Section(from.section)
		if s == nil && from.section == ".symtab" {
			b.add(goFunctions(runtime))
		}
		if s == nil || s.Type != elf.SHT_SYMTAB && s.Type != elf.SHT_DYNSYM {
			continue
		}
		list, err := readSymbols(from.im, s)
		if err != nil {
			return nil, err
		}
		if more := placeSymbols(list, from.im, runtime); len(more) > 0 {
			var sizeless []uint64
			if from.section == ".dynsym" && syms.Section(".symtab") == nil {
				sizeless = sizelessStarts(more)
			}
			b.add(more)
			b.resolve()
			b.limit(sizeless, runtime)
		}
	}
	var err error
	if len(b.entries) == 0 {
		err = fmt.Errorf("%s: %w", syms.Path, dso.ErrNoSymbols)
	}
	addPLT(&b, runtime)
	return b.table(), err
}

// sizelessStarts returns the addresses of the symbols without a size.
func sizelessStarts(list []entry) (starts []uint64) {
	for i := range list {
		if list[i].start == list[i].end {
			starts = append(starts, list[i].start)
		}
	}
	return starts
}

// limit ends the symbols at these addresses, which have no size, at the next function with an FDE. In a file without
// .symtab the functions that follow may have no symbol, and would get the name of this one, as in perf.
func (b *tableBuilder) limit(starts []uint64, im *dso.Image) {
	if len(starts) == 0 {
		return
	}
	functions := functionRanges(im)
	for _, start := range starts {
		i, _ := slices.BinarySearchFunc(functions, start+1, func(r functionRange, off uint64) int {
			return cmp.Compare(r.end, off)
		})
		if e := b.find(start); i < len(functions) && e != nil && e.start == start {
			next := functions[i]
			if next.start <= start {
				e.end = min(e.end, next.end)
			} else {
				e.end = min(e.end, next.start)
			}
		}
	}
}

// goFunctions returns the functions of a Go program's own table: none in other files.
func goFunctions(im *dso.Image) (entries []entry) {
	list, _ := srcline.GoFunctions(im)
	for _, f := range list {
		if start, ok := im.OffOfVaddr(f.Vaddr); ok {
			entries = append(entries, entry{start: start, end: start + f.Size, name: f.Name, typ: elf.STT_FUNC})
		}
	}
	return entries
}

// rawSymbol is an ElfN_Sym with its name.
type rawSymbol struct {
	name        string
	value, size uint64
	shndx       elf.SectionIndex
	typ         elf.SymType
	bind        elf.SymBind
	vis         elf.SymVis
}

// readSymtab reads the symbols of .symtab; the error is dso.ErrNoSymbols if there is none.
func readSymtab(im *dso.Image) ([]rawSymbol, error) {
	section := im.Section(".symtab")
	if section == nil {
		return nil, fmt.Errorf("%s: %w", im.Path, dso.ErrNoSymbols)
	}
	return readSymbols(im, section)
}

// readSymbols reads a symbol table section including the null symbol: relocations
// refer to symbols by index.
func readSymbols(im *dso.Image, s *elf.Section) ([]rawSymbol, error) {
	data, err := im.Data(s)
	if err != nil {
		return nil, err
	}
	names, err := linkedStrings(im, s)
	if err != nil {
		return nil, err
	}
	size := 16
	if im.Is64 {
		size = 24
	}
	order := im.ByteOrder()
	list := make([]rawSymbol, 0, len(data)/size)
	for ; len(data) >= size; data = data[size:] {
		list = append(list, decodeSymbol(data, im.Is64, order, names))
	}
	return list, nil
}

// decodeSymbol decodes an Elf64_Sym or Elf32_Sym, whose fields differ in order.
func decodeSymbol(b []byte, is64 bool, order binary.ByteOrder, names string) rawSymbol {
	var s rawSymbol
	var info, other byte
	if is64 {
		info, other, s.shndx = b[4], b[5], elf.SectionIndex(order.Uint16(b[6:]))
		s.value, s.size = order.Uint64(b[8:]), order.Uint64(b[16:])
	} else {
		s.value, s.size = uint64(order.Uint32(b[4:])), uint64(order.Uint32(b[8:]))
		info, other, s.shndx = b[12], b[13], elf.SectionIndex(order.Uint16(b[14:]))
	}
	s.name = dso.String(names, order.Uint32(b))
	s.typ, s.bind, s.vis = elf.ST_TYPE(info), elf.ST_BIND(info), elf.ST_VISIBILITY(other)
	return s
}

func linkedStrings(im *dso.Image, s *elf.Section) (string, error) {
	if uint64(s.Link) >= uint64(len(im.Sections)) {
		return "", fmt.Errorf("read %s: section %s links to section %d of %d", im.Path, s.Name, s.Link,
			len(im.Sections))
	}
	return im.Text(im.Sections[s.Link])
}

// placeSymbols selects symbols as perf does and converts their addresses to file
// offsets.
func placeSymbols(list []rawSymbol, syms, runtime *dso.Image) []entry {
	entries := make([]entry, 0, len(list))
	for i := range list {
		s := &list[i]
		if !isWanted(s, syms.Machine) || uint64(s.shndx) >= uint64(len(syms.Sections)) {
			continue
		}
		section := syms.Sections[s.shndx]
		if section.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		// A file with only debug information has no contents; its offsets are not those
		// of runtime.
		if section.Type == elf.SHT_NOBITS && int(s.shndx) < len(runtime.Sections) {
			section = runtime.Sections[s.shndx]
		}
		if s.typ == elf.STT_NOTYPE && !hasLabels(section) {
			continue
		}
		vaddr := s.value
		if syms.Machine == elf.EM_ARM && s.typ == elf.STT_FUNC {
			vaddr &^= 1 // bit 0 means Thumb code
		}
		start, ok := runtime.OffOfVaddr(vaddr)
		if !ok {
			start = vaddr - section.Addr + section.Offset
		}
		entries = append(entries, entry{start: start, end: start + s.size, name: s.name, typ: s.typ, bind: s.bind})
	}
	return entries
}

// isWanted reports whether perf uses the symbol: a function, an object or a label
// that the file defines.
func isWanted(s *rawSymbol, machine elf.Machine) bool {
	if s.name == "" || s.shndx == elf.SHN_UNDEF || s.shndx == elf.SHN_ABS {
		return false
	}
	switch s.typ {
	case elf.STT_FUNC, elf.STT_GNU_IFUNC, elf.STT_OBJECT:
	case elf.STT_NOTYPE:
		if s.vis == elf.STV_HIDDEN || s.vis == elf.STV_INTERNAL {
			return false
		}
	default:
		return false
	}
	return !mappingSymbol(s.name, machine)
}

// hasLabels reports whether perf uses the section's symbols without a type.
func hasLabels(s *elf.Section) bool {
	return strings.Contains(s.Name, "text") || strings.Contains(s.Name, "data")
}

// mappingSymbol reports whether a symbol only marks code or data for disassemblers:
// $a, $d, $t, $x of the ARM and RISC-V ELF ABIs.
func mappingSymbol(name string, machine elf.Machine) bool {
	if len(name) < 2 || name[0] != '$' {
		return false
	}
	switch machine {
	case elf.EM_ARM, elf.EM_AARCH64:
		return strings.IndexByte("adtx", name[1]) >= 0 && (len(name) == 2 || name[2] == '.')
	case elf.EM_RISCV:
		return name[1] == 'd' || name[1] == 'x'
	}
	return false
}

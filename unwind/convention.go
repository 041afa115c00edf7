package unwind

import (
	"bytes"
	"debug/elf"

	"gperf/internal/dso"
	"gperf/internal/dwarf"
)

// known is a range of code with frames that follow a convention without CFI.
type known struct {
	start, end uint64
	rule       Rule
	over       bool // replaces FDEs
}

// conventions returns, by address, the rules of code that may have no FDE:
//
//   - The code at the entry point has no caller, and often no FDE. In files that infer cannot read, its size is
//     unknown.
//   - A procedure linkage table pushes at most two words. GNU ld writes an FDE for it on x86-64, LLVM's lld does not.
//   - The code to which arm64's signal handlers return: see arm64Sigreturn.
//
// FDEs of compilers other than Go's take precedence.
func conventions(im *dso.Image) []known {
	const entryMax = 64 // size of ld.so's _start and similar code, in bytes
	var k []known
	inferred := im.Machine == elf.EM_X86_64 && len(im.Sections) > 0 && im.GoTable() == nil
	if e := im.Entry(); e != 0 && !inferred {
		k = append(k, known{e, e + entryMax, ruleEntry, false})
	}
	for _, s := range im.Sections {
		if s.Flags&elf.SHF_EXECINSTR == 0 || s.Size == 0 || s.Size > im.Size || s.Addr+s.Size < s.Addr {
			continue
		}
		if im.Machine == elf.EM_AARCH64 {
			k = append(k, arm64Section(im, s)...)
		} else {
			k = append(k, x86PLT(im, s)...)
		}
	}
	return k
}

// x86PLT returns the rules of a section of x86-64 code if it is a procedure linkage table.
func x86PLT(im *dso.Image, s *elf.Section) []known {
	switch s.Name {
	case ".plt.got", ".plt.sec", ".iplt":
		return []known{{s.Addr, s.Addr + s.Size, sp(8), false}}
	case ".plt":
		return x86LazyPLT(im, s)
	}
	return nil
}

// The beginnings of .plt, whose first entry finds functions when they are first called.
var (
	pltHeader  = []byte{0xff, 0x35}                         // push: an entry has pushed a number
	moldHeader = []byte{0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x53} // endbr64; push %r11: an entry has set r11
)

// x86LazyPLT returns the rules of .plt. Without a first entry, as in static programs, entries only jump.
func x86LazyPLT(im *dso.Image, s *elf.Section) []known {
	at := func(start, end uint64, r Rule) known {
		return known{s.Addr + start, s.Addr + min(end, s.Size), r, false}
	}
	head, _ := im.Bytes(s.Offset, min(s.Size, uint64(len(moldHeader))))
	switch {
	case bytes.HasPrefix(head, moldHeader):
		return []known{at(0, 6, sp(8)), at(6, 12, sp(16)), at(12, 32, sp(24)), at(32, s.Size, sp(8))}
	case bytes.HasPrefix(head, pltHeader):
		return []known{at(0, 6, sp(16)), at(6, 16, sp(24)), at(16, s.Size, pltRule(im, s))}
	}
	return []known{at(0, s.Size, sp(8))}
}

// symbol is a symbol of an ELF file.
type symbol struct {
	name        []byte
	typ         elf.SymType
	value, size uint64
}

// functions passes the symbols of im that may be functions to use: the symbols of .symtab or, without it, of .dynsym. s
// is valid until use returns.
func functions(im *dso.Image, use func(s *symbol)) {
	sec := im.Section(".symtab")
	if sec == nil || sec.Type != elf.SHT_SYMTAB {
		sec = im.Section(".dynsym")
	}
	if sec == nil || uint64(sec.Link) >= uint64(len(im.Sections)) {
		return
	}
	symbols, err1 := sectionBytes(im, sec)
	names, err2 := sectionBytes(im, im.Sections[sec.Link])
	if err1 != nil || err2 != nil {
		return
	}
	const size = 24 // Elf64_Sym
	for c := (dwarf.Cursor{B: symbols}); c.Left() >= size; {
		name := c.U32()
		s := symbol{typ: elf.ST_TYPE(c.U8())}
		c.Skip(1)
		section := elf.SectionIndex(c.U16())
		if s.value, s.size = c.U64(), c.U64(); section == elf.SHN_UNDEF || s.value+s.size < s.value {
			continue
		}
		switch s.typ {
		case elf.STT_FUNC, elf.STT_GNU_IFUNC, elf.STT_NOTYPE:
			if uint64(name) < uint64(len(names)) {
				s.name, _, _ = bytes.Cut(names[name:], []byte{0})
			}
			use(&s)
		}
	}
}

// sectionBytes returns the contents of a section, up to maxSection bytes.
func sectionBytes(im *dso.Image, s *elf.Section) ([]byte, error) {
	if s.Type == elf.SHT_NOBITS || s.FileSize > maxSection {
		return nil, ErrNoCFI
	}
	return im.Bytes(s.Offset, s.FileSize)
}

// sp returns the rule of code with n bytes on the stack, including the return address, that preserves rbp.
func sp(n int32) Rule {
	return Rule{CFA: CFARSP, CFAOff: n, RAOff: -8, Flags: FlagConvention}
}

// pltRule returns the rule of a PLT's entries: "jmp; push; jmp" or, with indirect branch tracking, "endbr64; push;
// jmp". The push ends at byte 11 or 9.
func pltRule(im *dso.Image, s *elf.Section) Rule {
	r := sp(8)
	r.CFA, r.CFAOff2 = CFAPLT, 11
	if b, err := im.Bytes(s.Offset+16, uint64(len(endbr64))); err == nil && bytes.Equal(b, endbr64) {
		r.CFAOff2 = 9
	}
	return r
}

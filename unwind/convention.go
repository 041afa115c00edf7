package unwind

import (
	"bytes"
	"cmp"
	"debug/elf"
	"slices"

	"gperf/internal/dso"
	"gperf/internal/dwarf"
)

// known is a range of code with frames that follow a convention without CFI.
type known struct {
	start, end uint64
	rule       Rule
	over       bool // replaces FDEs
}

var ruleEntry = Rule{CFA: CFARSP, RA: RAUndefined, Flags: FlagConvention}

// conventions returns, by address, the rules of code that may have no FDE:
//
//   - The code at the entry point has no caller, and often no FDE. In files that infer cannot read, its size is
//     unknown.
//   - A procedure linkage table pushes at most two words. GNU ld writes an FDE for it on x86-64, LLVM's lld does not.
//   - Go's crosscall2 and the code to which Go's signal handlers return: see goCode.
//   - The code to which arm64's signal handlers return: see arm64Sigreturn.
//   - Go's outermost functions: see goTopFrames.
//
// FDEs of compilers other than Go's take precedence.
func conventions(im *dso.Image) []known {
	const entryMax = 64 // size of ld.so's _start and similar code, in bytes
	var k []known
	inferred := im.Machine == elf.EM_X86_64 && len(im.Sections()) > 0 && im.GoTable() == nil
	if e := entryPoint(im); e != 0 && !inferred {
		k = append(k, known{e, e + entryMax, ruleEntry, false})
	}
	for _, s := range im.Sections() {
		if s.Flags&elf.SHF_EXECINSTR == 0 || s.Size == 0 || s.Size > im.Size || s.Addr+s.Size < s.Addr {
			continue
		}
		if im.Machine == elf.EM_AARCH64 {
			k = append(k, arm64Section(im, s)...)
		} else {
			k = append(k, x86PLT(im, s)...)
		}
	}
	if s := im.Section(".text"); s != nil && im.GoTable() != nil {
		if im.Machine == elf.EM_X86_64 {
			k = append(k, goCode(im, s)...)
		}
		k = append(k, goTopFrames(im)...)
	}
	slices.SortFunc(k, func(a, b known) int { return cmp.Compare(a.start, b.start) })
	return k
}

// x86PLT returns the rules of a section of x86-64 code if it is a procedure linkage table.
func x86PLT(im *dso.Image, s *elf.Section) (k []known) {
	end := s.Addr + s.Size
	switch s.Name {
	case ".plt.got", ".plt.sec":
		k = append(k, known{s.Addr, end, sp(8), false})
	case ".plt":
		if s.Size >= 16 {
			k = append(k, known{s.Addr, s.Addr + 6, sp(16), false}, known{s.Addr + 6, s.Addr + 16, sp(24), false})
		}
		if s.Size > 16 {
			k = append(k, known{s.Addr + 16, end, pltRule(im, s), false})
		}
	}
	return k
}

// Code of Go for which neither frame pointers nor the CFI are right. goCode finds it by its bytes.
var (
	// crosscall2, which C calls to call Go, has two frame pointers: that of an ordinary frame and, in this frame, that
	// of the registers that it saves for C (the macro PUSH_REGS_HOST_TO_ABI0 of runtime/cgo). The inner one points to
	// the outer one, but no return address follows.
	crosscall2Begin = []byte{
		0x55,             // push %rbp
		0x48, 0x89, 0xe5, // mov %rsp, %rbp
		0x48, 0x83, 0xec, 0x30, // sub $0x30, %rsp
		0x48, 0x89, 0x6c, 0x24, 0x28, // mov %rbp, 0x28(%rsp)
		0x48, 0x8d, 0x6c, 0x24, 0x28, // lea 0x28(%rsp), %rbp
	}
	crosscall2End  = []byte{0x48, 0x8b, 0x6c, 0x24, 0x28} // mov 0x28(%rsp), %rbp
	ruleCrosscall2 = Rule{CFA: CFADerefRBP, CFAOff2: 16, RAOff: -8, FP: FPAtCFA, FPOff: -16, Flags: FlagConvention}

	// sigreturn__sigaction, to which signal handlers return.
	sigreturn = []byte{
		0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, // mov $15, %rax
		0x0f, 0x05, // syscall
		0xcd, 0x03, // int $3
	}
)

// goCode finds this code in a section, which it reads in chunks.
func goCode(im *dso.Image, s *elf.Section) (k []known) {
	const piece, overlap = 4 << 20, 256
	size := min(s.FileSize, maxSection)
	for off := uint64(0); off < size && len(k) < 2; off += piece {
		b, err := im.Bytes(s.Offset+off, min(piece+overlap, size-off))
		if err != nil {
			return k
		}
		at := s.Addr + off
		if i := bytes.Index(b, crosscall2Begin); i >= 0 && i < piece {
			i += len(crosscall2Begin)
			if n := bytes.Index(b[i:min(i+overlap, len(b))], crosscall2End); n >= 0 {
				k = append(k, known{at + uint64(i), at + uint64(i+n), ruleCrosscall2, true})
			}
		}
		if i := bytes.Index(b, sigreturn); i > 0 && i < piece {
			// A return address is looked up one byte before: include that byte, because nothing calls this code.
			k = append(k, known{at + uint64(i) - 1, at + uint64(i+len(sigreturn)), ruleSignal, true})
		}
	}
	return k
}

// startContextCode is the beginning of glibc's __start_context, to which the functions of makecontext return. rbx is
// the sp at which makecontext has stored the next context.
var startContextCode = []byte{
	0x48, 0x89, 0xdc, // mov %rbx, %rsp
	0x48, 0x8b, 0x3c, 0x24, // mov (%rsp), %rdi
	0x48, 0x85, 0xff, // test %rdi, %rdi
}

// startContext finds this function in files that define makecontext. It has no caller. Its CFI does not say so, and
// does not cover the byte before it, at which the return address is looked up.
func (f *CFI) startContext(im *dso.Image) []known {
	defined := false
	functions(im, func(s *symbol) { defined = defined || string(s.name) == "makecontext" })
	s := im.Section(".text")
	if !defined || s == nil {
		return nil
	}
	b, err := sectionBytes(im, s)
	if err != nil {
		return nil
	}
	i := bytes.Index(b, startContextCode)
	if i < 0 {
		return nil
	}
	if e := f.find(s.Addr + uint64(i)); e != nil {
		return []known{{e.start - 1, e.end, ruleEntry, true}}
	}
	return nil
}

// goOutermost are the functions without a caller: those that Go's assembly marks TOPFRAME, except sigtramp, whose
// caller is the interrupted function; and crosscall1 of runtime/cgo, at which Go's part of a thread starts.
var goOutermost = []string{"runtime.goexit", "runtime.mstart", "runtime.rt0_go", "crosscall1"}

// goSwitches is a function that calls on another stack, g0's, while its CFI describes its caller's stack. On g0's stack
// only the frame pointer shows the end of the stack.
const goSwitches = "runtime.morestack"

// goTopFrames finds these functions by their symbols. With their own FDEs, a walk would continue into old stack
// contents above them: goexit is the return address of a goroutine's first function, but no function called it.
func goTopFrames(im *dso.Image) (k []known) {
	functions(im, func(s *symbol) {
		if s.typ != elf.STT_FUNC || s.size == 0 {
			return
		}
		switch name := string(bytes.TrimSuffix(s.name, []byte(".abi0"))); {
		case name == goSwitches:
			k = append(k, known{s.value, s.value + s.size, ruleFP, true})
		case slices.Contains(goOutermost, name):
			k = append(k, known{s.value, s.value + s.size, ruleEntry, true})
		}
	})
	return k
}

// symbol is a symbol of an ELF file.
type symbol struct {
	name        []byte
	typ         elf.SymType
	value, size uint64
}

// functions passes the symbols of im that may be functions to use: those of .symtab or, without it, of .dynsym. s is
// valid until use returns.
func functions(im *dso.Image, use func(s *symbol)) {
	sec := im.Section(".symtab")
	if sec == nil || sec.Type != elf.SHT_SYMTAB {
		sec = im.Section(".dynsym")
	}
	if sec == nil || uint64(sec.Link) >= uint64(len(im.Sections())) {
		return
	}
	symbols, err1 := sectionBytes(im, sec)
	names, err2 := sectionBytes(im, im.Sections()[sec.Link])
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

// entryPoint returns the vaddr of the program's first instruction, or 0 if there is none.
func entryPoint(im *dso.Image) uint64 {
	h, err := im.Bytes(0, 64) // Elf64_Ehdr
	if err != nil {
		return 0
	}
	c := dwarf.Cursor{B: h, Pos: 24}
	return c.U64()
}

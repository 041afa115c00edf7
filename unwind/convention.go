package unwind

import (
	"bytes"
	"cmp"
	"debug/elf"
	"slices"

	"gperf/symbolize/dso"
)

// known is a range of code whose frames are known without CFI.
type known struct {
	start, end uint64
	rule       Rule
}

var (
	endbr64 = []byte{0xf3, 0x0f, 0x1e, 0xfa}

	ruleEntry = Rule{CFA: CFARSP, RA: RAUndefined, Flags: FlagConvention}
)

// conventions returns, by address, what is known of x86-64 code that no FDE need
// cover:
//
//   - what runs from the entry point on has no caller. In glibc's ld.so it has no
//     FDE either, and the process spends its first moments below it.
//   - a procedure linkage table pushes at most two words. GNU ld writes an FDE for
//     it, LLVM's lld does not.
//
// Where an FDE covers them, the FDE decides.
func conventions(im *dso.Image) []known {
	if im.Machine != elf.EM_X86_64 {
		return nil
	}
	const entryMax = 64 // bytes that ld.so's _start and the like have
	var k []known
	if e := entryPoint(im); e != 0 {
		k = append(k, known{e, e + entryMax, ruleEntry})
	}
	for _, s := range im.Sections() {
		if s.Flags&elf.SHF_EXECINSTR == 0 || s.Size == 0 || s.Size > im.Size || s.Addr+s.Size < s.Addr {
			continue
		}
		end := s.Addr + s.Size
		switch s.Name {
		case ".plt.got", ".plt.sec":
			k = append(k, known{s.Addr, end, sp(8)})
		case ".plt":
			if s.Size >= 16 {
				k = append(k, known{s.Addr, s.Addr + 6, sp(16)}, known{s.Addr + 6, s.Addr + 16, sp(24)})
			}
			if s.Size > 16 {
				k = append(k, known{s.Addr + 16, end, pltRule(im, s)})
			}
		}
	}
	slices.SortFunc(k, func(a, b known) int { return cmp.Compare(a.start, b.start) })
	return k
}

// sp is the rule of code that has n bytes on the stack, the return address
// included, and leaves rbp alone.
func sp(n int32) Rule {
	return Rule{CFA: CFARSP, CFAOff: n, RAOff: -8, Flags: FlagConvention}
}

// pltRule is the rule of a PLT's entries: "jmp; push; jmp" or, with indirect
// branch tracking, "endbr64; push; jmp". The push is done from byte 11 or 9 on.
func pltRule(im *dso.Image, s *elf.Section) Rule {
	r := sp(8)
	r.CFA, r.CFAOff2 = CFAPLT, 11
	if b, err := im.Bytes(s.Offset+16, uint64(len(endbr64))); err == nil && bytes.Equal(b, endbr64) {
		r.CFAOff2 = 9
	}
	return r
}

// entryPoint returns the vaddr where the program begins, 0 if there is none.
func entryPoint(im *dso.Image) uint64 {
	h, err := im.Bytes(0, 64) // Elf64_Ehdr
	if err != nil {
		return 0
	}
	c := cursor{b: h, pos: 24}
	return c.u64()
}

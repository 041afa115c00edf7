package runtimes

import (
	"debug/elf"
	"errors"
	"iter"

	"gperf/internal/dso"
)

// definedSymbols returns the symbols of sections, ".dynsym" or ".symtab", that a file defines.
func definedSymbols(im *dso.Image, sections ...string) iter.Seq2[string, elf.Sym64] {
	return func(yield func(string, elf.Sym64) bool) {
		for _, section := range sections {
			symbols, err := im.Symbols(section)
			if err != nil {
				continue
			}
			for name, s := range symbols {
				if s.Shndx != uint16(elf.SHN_UNDEF) && !yield(name, s) {
					return
				}
			}
		}
	}
}

// relocations returns the relocations of the dynamic linker.
func relocations(im *dso.Image) iter.Seq[elf.Rela64] {
	return func(yield func(elf.Rela64) bool) {
		for _, s := range im.Sections {
			if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
				continue
			}
			b, err := im.Data(s)
			for ; err == nil && len(b) >= 24; b = b[24:] {
				if !yield(elf.Rela64{Off: le.Uint64(b), Info: le.Uint64(b[8:]), Addend: int64(le.Uint64(b[16:]))}) {
					return
				}
			}
		}
	}
}

// bytesAt returns the n bytes of a file at a vaddr.
func bytesAt(im *dso.Image, vaddr, n uint64) ([]byte, error) {
	off, ok := im.OffOfVaddr(vaddr)
	if !ok {
		return nil, errors.New("an address is not in the file")
	}
	return im.Bytes(off, n)
}

// readOnly returns the constants of a file, such as texts: nothing if there are none or too many.
func readOnly(im *dso.Image) []byte {
	const limit = 64 << 20
	s := im.Section(".rodata")
	if s == nil || s.Size > limit {
		return nil
	}
	b, err := im.Data(s)
	if err != nil {
		return nil
	}
	return b
}

package runtimes

import (
	"debug/elf"
	"fmt"
	"math"

	"gperf/internal/dso"
)

// threadVariable locates a thread-local variable.
//
//bpf:struct thread_variable
type threadVariable struct {
	Slot   uint64 // address of the dynamic linker's value, a vaddr until it is passed to BPF
	Offset uint64 // in the thread's own data, or in the module's part of it
	Kind   uint32 // threadFixed and so on
	_      uint32
}

// How a thread's address of a variable is found.
//
//bpf:enum thread THREAD_
const (
	threadFixed      = iota + 1 // Offset, from the thread's pointer
	threadOffset                // the slot holds the offset
	threadModule                // the slot holds the number of the module
	threadDescriptor            // the slot holds a function, and the offset or where module number and offset are
)

// at returns the variable of a file that is loaded with a bias.
func (v threadVariable) at(bias uint64) threadVariable {
	if v.Slot != 0 {
		v.Slot += bias
	}
	return v
}

// threadKinds are the relocations by which the dynamic linker stores where a variable is.
var threadKinds = map[elf.Machine]map[uint32]uint32{
	elf.EM_X86_64: {uint32(elf.R_X86_64_TPOFF64): threadOffset, uint32(elf.R_X86_64_DTPMOD64): threadModule,
		uint32(elf.R_X86_64_TLSDESC): threadDescriptor},
	elf.EM_AARCH64: {uint32(elf.R_AARCH64_TLS_TPREL64): threadOffset, uint32(elf.R_AARCH64_TLS_DTPMOD64): threadModule,
		uint32(elf.R_AARCH64_TLSDESC): threadDescriptor},
}

// findThreadVariable locates a thread-local variable of a program or library.
func findThreadVariable(im *dso.Image, name string) (v threadVariable, err error) {
	for _, section := range []string{".dynsym", ".symtab"} {
		symbols, err := im.Symbols(section)
		if err != nil {
			continue
		}
		index := -1
		for n, s := range symbols {
			if index++; n == name && elf.ST_TYPE(s.Info) == elf.STT_TLS && s.Shndx != uint16(elf.SHN_UNDEF) {
				return findSlot(im, s, uint32(index), section == ".dynsym")
			}
		}
	}
	return v, fmt.Errorf("no variable %s", name)
}

// findSlot locates the thread-local variable of a symbol: number index of the dynamic symbols, if dynamic.
// Relocations of other symbols contain the variable's offset as addend.
func findSlot(im *dso.Image, s elf.Sym64, index uint32, dynamic bool) (v threadVariable, err error) {
	for r := range relocations(im) {
		kind, sym := threadKinds[im.Machine][elf.R_TYPE64(r.Info)], elf.R_SYM64(r.Info)
		switch {
		case kind == 0, sym != 0 && (!dynamic || sym != index):
		case kind == threadModule: // the same for all variables of the file
			return threadVariable{Slot: r.Off, Offset: s.Value, Kind: kind}, nil
		case sym != 0 || uint64(r.Addend) == s.Value:
			v = threadVariable{Slot: r.Off, Kind: kind}
		}
	}
	if v.Kind == 0 {
		return fixedVariable(im, s)
	}
	return v, nil
}

// fixedVariable returns a variable of a program, whose place is fixed at link time: the data of programs are next
// to the thread's pointer, before it on x86-64 and 16 bytes after it on arm64.
func fixedVariable(im *dso.Image, s elf.Sym64) (v threadVariable, err error) {
	start, end, align := uint64(math.MaxUint64), uint64(0), uint64(1)
	for _, section := range im.Sections {
		if section.Flags&elf.SHF_TLS != 0 {
			start, end = min(start, section.Addr), max(end, section.Addr+section.Size)
			align = max(align, section.Addralign)
		}
	}
	if im.Section(".interp") == nil && im.Type != elf.ET_EXEC || start > end || align&(align-1) != 0 {
		return v, fmt.Errorf("unknown place of the thread's data")
	}
	up := func(n uint64) uint64 { return (n + align - 1) &^ (align - 1) }
	v.Kind = threadFixed
	switch im.Machine {
	case elf.EM_X86_64:
		v.Offset = s.Value - up(end-start)
	case elf.EM_AARCH64:
		v.Offset = s.Value + up(16)
	default:
		return v, fmt.Errorf("unknown place of the thread's data on %s", im.Machine)
	}
	return v, nil
}

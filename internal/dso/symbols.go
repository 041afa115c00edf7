package dso

import (
	"debug/elf"
	"fmt"
	"iter"
)

// maxSymbols limits the size of a symbol table, and the size of its names, in bytes.
const maxSymbols = 64 << 20

// Symbols returns the symbols of a section, ".dynsym" or ".symtab", by name. The names share memory.
func (im *Image) Symbols(section string) (iter.Seq2[string, elf.Sym64], error) {
	table := im.Section(section)
	if table == nil || int(table.Link) >= len(im.Sections) || table.FileSize > maxSymbols ||
		im.Sections[table.Link].FileSize > maxSymbols || !im.Is64 {
		return nil, fmt.Errorf("%s: no usable %s", im.Path, section)
	}
	b, err := im.Data(table)
	if err != nil {
		return nil, err
	}
	names, err := im.Data(im.Sections[table.Link])
	if err != nil {
		return nil, err
	}
	order, text := im.ByteOrder(), string(names)
	return func(yield func(string, elf.Sym64) bool) {
		for b := b; len(b) >= elf.Sym64Size; b = b[elf.Sym64Size:] {
			s := elf.Sym64{Info: b[4], Other: b[5], Shndx: order.Uint16(b[6:]), Value: order.Uint64(b[8:]),
				Size: order.Uint64(b[16:])}
			if !yield(String(text, order.Uint32(b)), s) {
				return
			}
		}
	}, nil
}

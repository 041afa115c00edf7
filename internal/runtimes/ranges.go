package runtimes

import (
	"debug/elf"
	"slices"
)

// Range is a range of addresses.
type Range struct{ Start, End uint64 }

// Contains reports whether an address is in the range.
func (r Range) Contains(addr uint64) bool { return addr >= r.Start && addr < r.End }

// ranges are ranges of addresses.
type ranges []Range

// add adds the range of a symbol.
func (l *ranges) add(s elf.Sym64) {
	if r := (Range{s.Value, s.Value + s.Size}); !slices.Contains(*l, r) {
		*l = append(*l, r)
	}
}

// contain reports whether an address is in one of the ranges.
func (l ranges) contain(addr uint64) bool {
	return slices.ContainsFunc(l, func(r Range) bool { return r.Contains(addr) })
}

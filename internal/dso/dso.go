// Package dso reads build IDs, finds the ELF files of a recorded DSO, and converts between the three kinds of address
// in a profile. It knows neither samples nor symbols: package symbolize names addresses, package unwind finds
// callers.
//
// gperf uses three words for addresses:
//
//	ip     in the process, as sampled; changes with every start of the program
//	off    in the file: bytes from the start
//	vaddr  in the ELF file, as assigned by the linker; used by symbols and DWARF
//
// A mapping (start, pgoff) converts ip to off; the PT_LOAD segments convert off to vaddr. Sections cannot: they may
// overlap, be stripped, or be NOBITS.
package dso

// OffOfIP returns the file offset of ip in a mapping that begins at ip start with file offset pgoff.
func OffOfIP(ip, start, pgoff uint64) uint64 { return ip - start + pgoff }

// IPOfOff is the inverse of OffOfIP.
func IPOfOff(off, start, pgoff uint64) uint64 { return off - pgoff + start }

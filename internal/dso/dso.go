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

// Bias returns ip - vaddr in an executable mapping of the file from ip start to end (exclusive), with file offset
// pgoff at start. The mapping's first bytes may belong to the previous segment, if the code shares a page with it.
// Linkers such as lld give segments different biases, so Bias uses only executable segments. ok is false if the
// mapping contains no code of the file.
func (im *Image) Bias(start, end, pgoff uint64) (bias uint64, ok bool) {
	for _, l := range im.Loads() {
		off := max(pgoff, l.Off)
		if l.Flags&pfX == 0 || off >= min(pgoff+end-start, l.Off+l.Filesz) {
			continue
		}
		if vaddr, ok := im.VaddrOfOff(off); ok {
			return start + off - pgoff - vaddr, true
		}
	}
	return 0, false
}

// VaddrOfOff returns the vaddr of the byte at file offset off. ok is false if no PT_LOAD segment contains it. If
// several do, VaddrOfOff prefers an executable one.
func (im *Image) VaddrOfOff(off uint64) (vaddr uint64, ok bool) {
	for _, p := range im.loads {
		if off < p.Off || off-p.Off >= p.Filesz {
			continue
		}
		if !ok || p.Flags&pfX != 0 {
			vaddr, ok = off-p.Off+p.Vaddr, true
			if p.Flags&pfX != 0 {
				break
			}
		}
	}
	return vaddr, ok
}

// OffOfVaddr returns the file offset of the byte at vaddr. ok is false if no PT_LOAD segment contains it. The
// zero-filled end of a segment (.bss) takes no bytes in the file: offsets there continue after the segment's last
// offset, as for perf's symbols (elf_read_program_header in tools/perf/util/symbol-elf.c).
func (im *Image) OffOfVaddr(vaddr uint64) (off uint64, ok bool) {
	for _, p := range im.loads {
		if vaddr >= p.Vaddr && vaddr-p.Vaddr < max(p.Memsz, p.Filesz) {
			return vaddr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

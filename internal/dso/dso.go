// Package dso answers "which ELF file is it, and where in it?": it reads build
// IDs, finds the file that a recorded DSO was, and converts between the three
// kinds of address that a profile mixes. It knows neither samples nor symbols:
// package symbolize names addresses, package unwind finds callers.
//
// The three words for an address, here and everywhere:
//
//	ip     in the process, as sampled; moves with every start of the program
//	off    in the file, bytes from its beginning; what a mapping translates ip to
//	vaddr  in the ELF, as the linker laid it out; what symbols and DWARF speak
//
// A mapping (start, pgoff) turns ip into off; the PT_LOAD segments turn off into
// vaddr. Sections never do: they may overlap, be stripped, or be NOBITS.
package dso

// OffOfIP returns the file offset of ip in a mapping that begins at start and
// shows the file from offset pgoff on.
func OffOfIP(ip, start, pgoff uint64) uint64 { return ip - start + pgoff }

// IPOfOff is the inverse of OffOfIP.
func IPOfOff(off, start, pgoff uint64) uint64 { return off - pgoff + start }

// Bias returns ip - vaddr in an executable mapping of the file, of ips from start
// up to end, with offset pgoff at start. The mapping's first bytes may belong to
// the previous segment, if the code shares a page with it. Linkers like lld give
// segments different biases, so only the code's own segment counts. ok is false if
// no code of the file is mapped there.
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

// VaddrOfOff returns the address that the linker gave to the byte at file offset
// off; ok is false where no PT_LOAD segment shows that byte. Should several do,
// an executable one wins, since it is code that is asked for.
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

// OffOfVaddr returns the file offset of the byte at vaddr; ok is false if no
// PT_LOAD segment holds it. The zero-filled tail of a segment (.bss) has no bytes
// in the file: off then continues past the segment's end, as in the addresses that
// perf gives to symbols there (elf_read_program_header in
// tools/perf/util/symbol-elf.c).
func (im *Image) OffOfVaddr(vaddr uint64) (off uint64, ok bool) {
	for _, p := range im.loads {
		if vaddr >= p.Vaddr && vaddr-p.Vaddr < max(p.Memsz, p.Filesz) {
			return vaddr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

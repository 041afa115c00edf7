package dso

import "debug/elf"

// Loads are the PT_LOAD segments of a file, in its order, without those that reach beyond 64 bits. The caller must not
// change them.
type Loads []elf.ProgHeader

// Bias returns ip - vaddr in an executable mapping of the file from ip start to end (exclusive), with file offset
// pgoff at start. The mapping's first bytes may belong to the previous segment, if the code shares a page with it.
// Linkers such as lld give segments different biases, so Bias uses only executable segments. ok is false if the
// mapping contains no code of the file.
func (l Loads) Bias(start, end, pgoff uint64) (bias uint64, ok bool) {
	for _, p := range l {
		off := max(pgoff, p.Off)
		if p.Flags&pfX == 0 || off >= min(pgoff+end-start, p.Off+p.Filesz) {
			continue
		}
		if vaddr, ok := l.VaddrOfOff(off); ok {
			return start + off - pgoff - vaddr, true
		}
	}
	return 0, false
}

// VaddrOfOff returns the vaddr of the byte at file offset off. ok is false if no PT_LOAD segment contains it. If
// several do, VaddrOfOff prefers an executable one.
func (l Loads) VaddrOfOff(off uint64) (vaddr uint64, ok bool) {
	for _, p := range l {
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
func (l Loads) OffOfVaddr(vaddr uint64) (off uint64, ok bool) {
	for _, p := range l {
		if vaddr >= p.Vaddr && vaddr-p.Vaddr < max(p.Memsz, p.Filesz) {
			return vaddr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

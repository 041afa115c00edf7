package unwind

import (
	"bytes"
	"debug/elf"

	"gperf/internal/dso"
)

var (
	// int3 fills the space between functions, up to a multiple of 16 bytes.
	int3 = []byte{0xcc, 0xcc}

	ruleFramed = Rule{Flags: FlagFramed}
)

// framed returns the code without FDE that has a frame pointer, as most of V8's builtins in node: from the
// instructions that make a frame on, up to the next function. It leaves out the short gaps between FDEs, which hold
// padding and short functions.
func (f *CFI) framed(im *dso.Image) (list []known) {
	const minGap, maxGap = 256, 64 << 20
	if f.Machine != elf.EM_X86_64 || f.goFP {
		return nil
	}
	next := f.fdes
	for _, s := range f.code {
		for at := s.start; at < s.end; {
			end := s.end
			if len(next) > 0 && next[0].start < s.end {
				end = next[0].start
			}
			if off, ok := im.OffOfVaddr(at); ok && end-at >= minGap && end-at <= maxGap {
				if b, err := im.Bytes(off, end-at); err == nil {
					list = appendFramed(list, at, b)
				}
			}
			if at = end; end < s.end {
				at, next = next[0].end, next[1:]
			}
		}
	}
	return list
}

// appendFramed appends the ranges of code with a frame. The code begins at vaddr.
func appendFramed(k []known, vaddr uint64, code []byte) []known {
	for at := indexEnter(code, 0); at >= 0; {
		start := at + enterLen
		end := functionEnd(vaddr, code, start)
		k = append(k, known{vaddr + uint64(start), vaddr + uint64(end), ruleFramed, false})
		at = indexEnter(code, end)
	}
	return k
}

// indexEnter returns the offset of the instructions that make a frame, at or after an offset; -1 if there are none.
func indexEnter(code []byte, at int) int {
	for {
		if at = indexFrom(code, pushRBP, at); at < 0 || makesFrame(code[at:]) {
			return at
		}
		at++
	}
}

// functionEnd returns the offset of the first padding between functions after an offset.
func functionEnd(vaddr uint64, code []byte, at int) int {
	const align = 16
	for {
		if at = indexFrom(code, int3, at); at < 0 {
			return len(code)
		}
		end := at
		for end < len(code) && code[end] == int3[0] {
			end++
		}
		if (vaddr+uint64(end))%align == 0 {
			return at
		}
		at = end
	}
}

// indexFrom returns the offset of a sequence at or after an offset, -1 if there is none.
func indexFrom(b, seq []byte, at int) int {
	if i := bytes.Index(b[at:], seq); i >= 0 {
		return at + i
	}
	return -1
}

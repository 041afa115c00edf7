package unwind

import (
	"bytes"
	"slices"

	"gperf/internal/dso"
)

// GHC's code has no CFI. It has its own stack, in rbp, and leaves rsp where StgRun set it (rts/StgCRun.c): below a
// reserve of 16 KiB and the saved registers. So its callers are the callers of StgRun. Where it calls C, it may lower
// rsp by 8 or 16 bytes to align it:
//
//	48 83 ec IMM  sub $IMM, %rsp
//	...
//	48 83 c4 IMM  add $IMM, %rsp
var (
	ruleStgRun = Rule{CFA: CFARSP, CFAOff: 16440, RA: RAAtCFA, RAOff: -8, FP: FPAtCFA, FPOff: -48}

	stgSymbol = []byte("\x00stg_upd_frame_info\x00") // of the runtime system; all libraries of Haskell use it
	// stgRunSP is in the CFI of StgRun: DW_CFA_val_expression (rsp) (DW_OP_breg7 (rsp): 16440).
	stgRunSP = []byte{0x16, 0x07, 0x04, 0x77, 0xb8, 0x80, 0x01}
)

// isHaskell reports whether GHC made the code of im: by the CFI of StgRun, or by its symbols. Programs contain the
// runtime system, but may be stripped; libraries use the runtime system of another file.
func (f *CFI) isHaskell(im *dso.Image) bool {
	for _, name := range [...]string{".dynstr", ".strtab"} {
		s := im.Section(name)
		if s == nil {
			continue
		}
		if b, err := sectionBytes(im, s); err == nil && bytes.Contains(b, stgSymbol) {
			return true
		}
	}
	return slices.ContainsFunc(f.secs, func(s section) bool { return s.eh && bytes.Contains(s.b, stgRunSP) })
}

// haskell returns the rules of all code outside the covered ranges, which are sorted.
func haskell(im *dso.Image, covered []codeSeg) (list []known) {
	const longest = 1 << 30
	eachGap(im, covered, longest, func(start uint64, code []byte) { list = appendHaskell(list, start, code) })
	return list
}

// appendHaskell appends the rules of code that begins at vaddr.
func appendHaskell(k []known, vaddr uint64, code []byte) []known {
	const most = 128 // the bytes of a call
	pos := 0
	add := func(end int, lowered byte) {
		r := ruleStgRun
		r.CFAOff += int32(lowered)
		k = append(k, known{vaddr + uint64(pos), vaddr + uint64(end), r, false})
		pos = end
	}
	for {
		start := indexFrom(code, subRSP, pos)
		if start < 0 || start+4 >= len(code) {
			break
		}
		start += len(subRSP) + 1
		n := code[start-1]
		calls := code[start:min(start+most, len(code))]
		end := bytes.Index(calls, append(slices.Clip(addRSP), n))
		if end < 0 || n%8 != 0 || n > 64 {
			add(start, 0)
			continue
		}
		add(start, 0)
		add(start+end+len(addRSP)+1, n)
	}
	if pos < len(code) {
		add(len(code), 0)
	}
	return k
}

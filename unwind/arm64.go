package unwind

import (
	"debug/elf"
	"encoding/binary"
	"slices"

	"gperf/internal/dso"
)

// ruleLeaf is the rule of arm64 code that has nothing on the stack: the return address is in the link register.
var ruleLeaf = Rule{CFA: CFARSP, RA: RAReg, RAOff: arm64LR, Flags: FlagConvention}

// Instructions of arm64.
const (
	insnPush     = 0xa9bf7bf0 // stp x16, x30, [sp, #-16]!
	insnMovX8    = 0xd2801168 // mov x8, #139, the number of rt_sigreturn
	insnSVC      = 0xd4000001 // svc #0
	insnGoFrame  = 0xd10023fd // sub x29, sp, #8
	insnGoSaved  = 0xa90b7bfd // stp x29, x30, [sp, #176]
	insnGoLoaded = 0xa94b7bfd // ldp x29, x30, [sp, #176]
)

// arm64Section returns the rules of code in a section that has no FDE, or a wrong one of Go's.
//
// The first entry of a procedure linkage table pushes x16 and x30, the others push nothing; linkers write no FDEs for
// it.
func arm64Section(im *dso.Image, s *elf.Section) (k []known) {
	end := s.Addr + s.Size
	switch s.Name {
	case ".plt":
		first := s.Addr + min(32, s.Size)
		pushed := first
		eachInsn(im, s, first-s.Addr, func(vaddr uint64, insn uint32) {
			if insn == insnPush {
				pushed = vaddr + 4
			}
		})
		k = append(k, known{s.Addr, pushed, ruleLeaf, false}, known{pushed, first, arm64SP16, false},
			known{first, end, ruleLeaf, false})
	case ".plt.got", ".iplt":
		k = append(k, known{s.Addr, end, ruleLeaf, false})
	case ".text":
		k = append(k, arm64Sigreturn(im, s)...)
		if im.GoTable() != nil {
			k = append(k, arm64Crosscall2(im, s)...)
		}
	}
	return k
}

// arm64SP16 is the rule of code that has pushed another register and x30.
var arm64SP16 = Rule{CFA: CFARSP, CFAOff: 16, RAOff: -8, Flags: FlagConvention}

// arm64Sigreturn finds the code to which signal handlers return. It is in the vdso, which is small, and has no FDE
// since Linux 5.8.
func arm64Sigreturn(im *dso.Image, s *elf.Section) (k []known) {
	const maxScan = 64 << 10
	if s.Size > maxScan {
		return nil
	}
	var last uint32
	eachInsn(im, s, s.Size, func(vaddr uint64, insn uint32) {
		if insn == insnSVC && last == insnMovX8 {
			// A return address is looked up one byte before: include that byte, because nothing calls this code.
			// During the syscall, ip is after the code.
			k = append(k, known{vaddr - 5, vaddr + 5, ruleSignal, false})
		}
		last = insn
	})
	return k
}

// arm64Crosscall2 finds the part of Go's crosscall2, which C calls to call Go, in which its frame is complete: it saves
// x29 and x30 at the top of 192 bytes, and keeps its caller's x29.
func arm64Crosscall2(im *dso.Image, s *elf.Section) (k []known) {
	const frame, maxLen = 192, 128
	rule := Rule{CFA: CFARSP, CFAOff: frame, RAOff: -8, FP: FPAtCFA, FPOff: -16, Flags: FlagConvention}
	var saved uint64
	eachInsn(im, s, s.Size, func(vaddr uint64, insn uint32) {
		switch {
		case insn == insnGoSaved:
			saved = vaddr
		case insn == insnGoLoaded && saved != 0 && vaddr-saved < maxLen && len(k) == 0:
			k = append(k, known{saved + 4, vaddr + 8, rule, true})
		}
	})
	return k
}

// goFramesOf returns, by address, the ends of the prologues in arm64 code of Go: from there on x29 is sp - 8, where the
// caller's x29 and, above it, the return address are.
func goFramesOf(im *dso.Image) (l []uint64) {
	s := im.Section(".text")
	if s == nil {
		return nil
	}
	eachInsn(im, s, s.Size, func(vaddr uint64, insn uint32) {
		if insn == insnGoFrame {
			l = append(l, vaddr+4)
		}
	})
	return l
}

// eachInsn calls fn for the instructions in the first n bytes of a section.
func eachInsn(im *dso.Image, s *elf.Section, n uint64, fn func(vaddr uint64, insn uint32)) {
	if s.Type == elf.SHT_NOBITS {
		return
	}
	const piece = 1 << 20
	n = min(n, s.FileSize, maxSection)
	for off := uint64(0); off < n; off += piece {
		b, err := im.Bytes(s.Offset+off, min(piece, n-off))
		if err != nil {
			return
		}
		for i := 0; i+4 <= len(b); i += 4 {
			fn(s.Addr+off+uint64(i), binary.LittleEndian.Uint32(b[i:]))
		}
	}
}

// addGoARM64 adds the rows of a function compiled by Go. Its CFI describes the CFA and the return address, at the
// bottom of the frame, but not x29. The prologue lowers sp by the frame's size and saves x30 at sp and x29 below, in
// either order, then sets x29 to sp - 8. From there on only x29 is right in functions that switch stacks (systemstack,
// cgo). The epilogue first restores x29 and pops the frame with its last instruction.
//
// Functions in assembly may have a frame without this prologue, in which the return address can be anywhere: its rows
// have only the link register.
func (b *tableBuilder) addGoARM64(m *machine, frames []uint64) bool {
	var size int32 // of the frame, 0 if there is none
	var made int32 // the size of the frame that the prologue makes
	var last known // the row to add
	flush := func() bool { return last.start >= last.end || b.addRow(last.start, last.end, last.rule) }
	add := func(start, end uint64, r Rule) bool {
		ok := flush()
		last = known{start, end, r, false}
		return ok
	}
	for m.next() {
		r := m.rule()
		switch {
		case r.CFA != CFARSP || r.FP != FPSame || r.RA == RAUndefined || m.bad:
			size = 0
			if !add(m.start, m.end, r) {
				return false
			}
		case r.CFAOff == 0:
			if size > 0 && !b.endGoFrame(&last, size) {
				return false
			}
			size = 0
			if !add(m.start, m.end, ruleLeaf) {
				return false
			}
		case size > 0, r.CFAOff == made: // there is a frame, or there is one again, after a return
			size = made
			if !add(m.start, m.end, goFrame(size)) {
				return false
			}
		default:
			i, _ := slices.BinarySearch(frames, m.start)
			const maxPrologue = 12
			if i == len(frames) || frames[i] >= m.end || frames[i] > m.start+maxPrologue {
				r.RA, r.RAOff, r.Flags = RAReg, arm64LR, FlagConvention
				if !add(m.start, m.end, r) {
					return false
				}
				continue
			}
			size, made = r.CFAOff, r.CFAOff
			saved := r // x29 is saved below sp
			saved.FP, saved.FPOff = FPAtSP, -8
			if !add(m.start, m.start+4, r) || !add(m.start+4, frames[i], saved) ||
				!add(frames[i], m.end, goFrame(size)) {
				return false
			}
		}
	}
	return flush()
}

// goFrame returns the rule of Go's arm64 code with a frame of size bytes.
func goFrame(size int32) Rule {
	r := Rule{CFA: CFARBP, CFAOff: 8 + size, RAOff: int16(-size), FP: FPAtCFA, FPOff: int16(-size - 8),
		Flags: FlagConvention}
	if !fits16(int64(-size - 8)) {
		return ruleFP // the caller's sp is unknown, which Go's code does not need
	}
	return r
}

// endGoFrame changes the rule at the end of the last row of a frame of size bytes: x29 is already restored.
func (b *tableBuilder) endGoFrame(last *known, size int32) bool {
	n := uint64(4)
	if size >= 1<<12 {
		n = 12 // the size is moved to a register first
	}
	if last.rule != goFrame(size) || last.end-last.start <= n || last.rule == ruleFP {
		return true
	}
	if !b.addRow(last.start, last.end-n, last.rule) {
		return false
	}
	last.start = last.end - n
	last.rule = Rule{CFA: CFARSP, CFAOff: size, RAOff: int16(-size), FP: FPAtSP, FPOff: -8}
	return true
}

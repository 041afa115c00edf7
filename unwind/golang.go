package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"

	"gperf/internal/dso"
	"gperf/internal/x86"
)

// maxGoFrames limits the entries that gperf makes of a table of Go's functions, in bytes.
const maxGoFrames = 64 << 20

// maxPopped is how far sp may be above where it is at a function's start, in bytes.
const maxPopped = 63 * 8

// goFrames returns, as a section .debug_frame, how deep the stack is in the functions of a Go program: the content that
// Go's linker writes there unless the program is built without DWARF.
func goFrames(t *dso.GoFunctions, m elf.Machine) section {
	le := binary.LittleEndian
	a, slot := abiOf(m), int64(8) // slot is the return address that a call pushes
	if a.lr >= 0 {
		slot = 0
	}
	entry := func(b []byte, id uint32, body []byte) []byte {
		b = le.AppendUint32(b, uint32(4+len(body)))
		return append(le.AppendUint32(b, id), body...)
	}
	// version, augmentation, code and data alignment, column of the return address, CFA = sp + slot
	cie := []byte{3, 0, byte(t.Quantum()), 0x78, byte(a.ra), cfaDefCFA, byte(a.sp), byte(slot)}
	if a.lr < 0 {
		cie = append(cie, cfaOffset|byte(a.ra), 1)
	}
	b := entry(nil, 0xffffffff, cie)
	var body []byte
	for i := range t.Len() {
		f, ok := t.Func(i)
		if !ok {
			continue
		}
		body = append(body[:0], make([]byte, 16)...) // for the range
		last, end := f.Entry, f.Entry
		for at, depth := range f.Depths() {
			offset := int64(depth) + slot
			if offset < -maxPopped || at[1] > f.End || len(b)+len(body) > maxGoFrames {
				break
			}
			if at[0] > last {
				body = le.AppendUint32(append(body, cfaAdvanceLoc4), uint32((at[0]-last)/t.Quantum()))
			}
			last, end = at[0], at[1]
			if offset < 0 { // it has popped the return address: in units of dataAlign, LEB128
				body = append(body, cfaDefCFAOffsetSF, byte(-offset/8))
			} else {
				body = binary.AppendUvarint(append(body, cfaDefCFAOffset), uint64(offset))
			}
			switch {
			case a.lr >= 0 && depth > 0: // the return address is at the bottom of the frame
				body = binary.AppendUvarint(append(body, cfaOffset|byte(a.lr)), uint64(depth)/8)
			case a.lr >= 0:
				body = append(body, cfaRestore|byte(a.lr))
			}
		}
		if end > f.Entry {
			le.PutUint64(body, f.Entry)
			le.PutUint64(body[8:], end-f.Entry)
			b = entry(b, 0, body)
		}
	}
	return section{b: b}
}

// goCode is the code of Go that needs more than its CFI.
type goCode struct {
	known    []known
	switches []codeSeg // functions that write sp: there, only the frame pointer is right
	injected []codeSeg // functions whose caller has not called them: its ip is not a return address
	any      bool      // there is no table: every function may be one that writes sp
}

// Offsets in Go's structs, in bytes: of stack.lo and m in g, and of its registers in sched, which are the same since
// Go 1.8. sched.bp, and curg in m, moved with Go 1.25.
const (
	goM       = 48
	goSchedSP = 56
	goSchedPC = 64
	goBPOld   = 104
	goCurgOld = 192
	goBP      = 96
	goCurg    = 184
)

// goSwitch is a function that loads sp from another stack.
type goSwitch struct {
	codeSeg
	loads  []uint64 // vaddrs after the instructions that load sp
	code   []byte
	framed bool // it has a frame
}

// findGoCode finds the code of Go's runtime that follows conventions of its own. t is nil if the program has no table
// that gperf can read: then only symbols show it.
func findGoCode(im *dso.Image, t *dso.GoFunctions) (c goCode) {
	if s := im.Section(".text"); s != nil && im.Machine == elf.EM_X86_64 {
		c.known = append(c.known, goBytes(im, s)...)
	}
	c.known = append(c.known, goTopFrames(im, t == nil)...)
	if c.any = t == nil; c.any {
		return c
	}
	switches := map[string]goSwitch{}
	for i := range t.Len() {
		f, ok := t.Func(i)
		if !ok || f.End <= f.Entry {
			continue
		}
		at, name := codeSeg{f.Entry, f.End}, f.Name()
		switch {
		case name == "runtime.asyncPreempt" || name == "runtime.sigpanic":
			c.injected = append(c.injected, at)
		case f.Flags&dso.TopFrame != 0 && name != "runtime.sigtramp", strings.HasPrefix(name, "_rt0_"):
			c.known = append(c.known, known{at.start, at.end, ruleEntry, true})
		case f.Flags&dso.SPWrite != 0:
			c.switches = append(c.switches, at)
			switches[name] = newGoSwitch(im, at, f)
		}
	}
	c.known = append(c.known, goSwitches(im.Machine, switches)...)
	return c
}

// maxGoSwitch limits the code of a function that switches stacks, in bytes.
const maxGoSwitch = 1 << 12

func newGoSwitch(im *dso.Image, at codeSeg, f dso.GoFunc) goSwitch {
	s := goSwitch{codeSeg: at}
	off, ok := im.OffOfVaddr(at.start)
	b, err := im.Bytes(off, min(at.end-at.start, maxGoSwitch))
	if !ok || err != nil {
		return s
	}
	s.code = b
	for _, depth := range f.Depths() {
		s.framed = s.framed || depth > 0
	}
	eachGoInsn(im.Machine, b, func(at int, insn []byte) {
		if loadsSP(im.Machine, insn) {
			s.loads = append(s.loads, s.start+uint64(at+len(insn)))
		}
	})
	return s
}

// eachGoInsn calls fn for the instructions of code, with their offsets.
func eachGoInsn(m elf.Machine, code []byte, fn func(at int, insn []byte)) {
	for at := 0; at < len(code); {
		n := 4
		if m == elf.EM_X86_64 {
			n = x86.Decode(code[at:]).Len
		}
		if n <= 0 || n > len(code)-at {
			return
		}
		fn(at, code[at:at+n])
		at += n
	}
}

// loadsSP reports whether an instruction sets sp to the value of a register or of memory: sp of another stack.
func loadsSP(m elf.Machine, insn []byte) bool {
	if m == elf.EM_AARCH64 {
		return binary.LittleEndian.Uint32(insn)&^(31<<5) == 0x9100001f // mov sp, reg
	}
	if len(insn) < 3 || insn[0]&0xfe != 0x48 {
		return false
	}
	const rsp = 4
	mod, reg, rm := insn[2]>>6, insn[2]>>3&7, insn[2]&7
	return insn[1] == 0x8b && mod != 3 && reg == rsp && rm != rsp || insn[1] == 0x89 && mod == 3 && rm == rsp
}

// storedBP returns the offset at which an instruction stores the frame pointer in g, 0 if it does not: mov %rbp,
// off(%rsi) or off(%rdi), str x29, [x28, #off].
func storedBP(m elf.Machine, insn []byte) int16 {
	switch {
	case m == elf.EM_AARCH64:
		if v := binary.LittleEndian.Uint32(insn); v&^(0xfff<<10) == 0xf900039d {
			return int16(v>>10&0xfff) * 8
		}
	case len(insn) == 4 && insn[0] == 0x48 && insn[1] == 0x89 && insn[2]&0xfe == 0x6e:
		return int16(insn[3])
	}
	return 0
}

// goSwitches returns the rules of code on g0's stack in the functions that change to it, where neither sp nor the frame
// pointer shows the goroutine's stack.
func goSwitches(m elf.Machine, switches map[string]goSwitch) (k []known) {
	after := func(name string, n int, r Rule) {
		s := switches[name]
		if len(s.loads) <= n {
			return
		}
		end := s.end
		if len(s.loads) > n+1 {
			end = s.loads[n+1]
		}
		k = append(k, known{s.loads[n], end, r, true})
	}
	after("runtime.mcall", 0, ruleEntry) // Go's scheduler runs from here on
	after("runtime.clone", 0, ruleEntry) // the new thread, on its own stack
	after("gogo", 0, ruleCut)            // the goroutine goes on at an address that only the next instructions know

	var bp, curg int16
	eachGoInsn(m, switches["runtime.morestack"].code, func(_ int, insn []byte) {
		switch storedBP(m, insn) {
		case goBPOld:
			bp, curg = goBPOld, goCurgOld
		case goBP:
			bp, curg = goBP, goCurg
		}
	})
	if bp == 0 {
		after("runtime.morestack", 0, ruleCut)
		return k
	}
	r := Rule{CFA: CFAGoroutine, CFAOff2: curg, RA: RAGoroutine, FP: FPGoroutine, FPOff: bp, Flags: FlagConvention}
	after("runtime.morestack", 0, r)
	for _, name := range []string{"runtime.systemstack", "runtime.asmcgocall"} {
		if m == elf.EM_X86_64 && !switches[name].framed { // before Go 1.21: the return address is at the goroutine's sp
			r.CFAOff, r.RA, r.RAOff = 8, RAAtCFA, -8
			after(name, 0, r)
		}
	}
	return k
}

// inRanges reports whether an address is in one of the ranges, which are in order.
func inRanges(list []codeSeg, vaddr uint64) bool {
	i, _ := slices.BinarySearchFunc(list, vaddr, func(s codeSeg, v uint64) int {
		if s.end <= v {
			return -1
		}
		return 1
	})
	return i < len(list) && vaddr >= list[i].start
}

// Code of Go for which neither frame pointers nor the CFI are right. goBytes finds it by its bytes.
var (
	// crosscall2, which C calls to call Go, keeps two frame pointers: the pointer of an ordinary frame and, in this
	// frame, the one of the registers that it saves for C (the macro PUSH_REGS_HOST_TO_ABI0 of runtime/cgo). The inner
	// one points to the outer one, but no return address follows.
	crosscall2Begin = []byte{
		0x55,             // push %rbp
		0x48, 0x89, 0xe5, // mov %rsp, %rbp
		0x48, 0x83, 0xec, 0x30, // sub $0x30, %rsp
		0x48, 0x89, 0x6c, 0x24, 0x28, // mov %rbp, 0x28(%rsp)
		0x48, 0x8d, 0x6c, 0x24, 0x28, // lea 0x28(%rsp), %rbp
	}
	crosscall2End  = []byte{0x48, 0x8b, 0x6c, 0x24, 0x28} // mov 0x28(%rsp), %rbp
	ruleCrosscall2 = Rule{CFA: CFADerefRBP, CFAOff2: 16, RAOff: -8, FP: FPAtCFA, FPOff: -16, Flags: FlagConvention}

	// sigreturn__sigaction, to which signal handlers return.
	sigreturn = []byte{
		0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, // mov $15, %rax
		0x0f, 0x05, // syscall
		0xcd, 0x03, // int $3
	}
)

// goBytes finds this code in a section, which it reads in chunks.
func goBytes(im *dso.Image, s *elf.Section) (k []known) {
	const piece, overlap = 4 << 20, 256
	size := min(s.FileSize, maxSection)
	for off := uint64(0); off < size && len(k) < 2; off += piece {
		b, err := im.Bytes(s.Offset+off, min(piece+overlap, size-off))
		if err != nil {
			return k
		}
		at := s.Addr + off
		if i := bytes.Index(b, crosscall2Begin); i >= 0 && i < piece {
			i += len(crosscall2Begin)
			if n := bytes.Index(b[i:min(i+overlap, len(b))], crosscall2End); n >= 0 {
				k = append(k, known{at + uint64(i), at + uint64(i+n), ruleCrosscall2, true})
			}
		}
		if i := bytes.Index(b, sigreturn); i > 0 && i < piece {
			// A return address is looked up one byte before: include that byte, because nothing calls this code.
			k = append(k, known{at + uint64(i) - 1, at + uint64(i+len(sigreturn)), ruleSignal, true})
		}
	}
	return k
}

// goOutermost are the functions without a caller: those that Go's assembly marks TOPFRAME, except sigtramp, whose
// caller is the interrupted function; and crosscall1 of runtime/cgo, at which Go's part of a thread starts.
var goOutermost = []string{"runtime.goexit", "runtime.mstart", "runtime.rt0_go", goEntry}

const goEntry = "crosscall1"

// goGrows is a function that calls on another stack, g0's, while its CFI describes its caller's stack. On g0's stack
// only the frame pointer shows the end of the stack.
const goGrows = "runtime.morestack"

// goTopFrames finds these functions by their symbols: all of them, or only C's, which Go's table does not have. With
// their own FDEs, a walk would continue into old stack contents above them: goexit is the return address of a
// goroutine's first function, but no function called it.
func goTopFrames(im *dso.Image, all bool) (k []known) {
	functions(im, func(s *symbol) {
		if s.typ != elf.STT_FUNC || s.size == 0 {
			return
		}
		switch name := string(bytes.TrimSuffix(s.name, []byte(".abi0"))); {
		case name != goEntry && !all:
		case name == goGrows:
			k = append(k, known{s.value, s.value + s.size, ruleFP, true})
		case slices.Contains(goOutermost, name):
			k = append(k, known{s.value, s.value + s.size, ruleEntry, true})
		}
	})
	return k
}

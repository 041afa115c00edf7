package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"

	"gperf/internal/dso"
)

// EntryPoints are the functions at which complete stacks end, by the stack that begins there: the one list, for which
// docs/unwinding.md has the reasons. Tables mark them, and no other code, with RAUndefined: as their CFI does, or by
// ruleEntry, ruleFiber and frameState.end. A return address of 0 is no mark.
var EntryPoints = map[string][]string{
	"program":      {"_start", "_dl_start_user", "_dlstart", "_rt0_*"}, // at Image.Entry
	"thread":       {"clone", "__clone", "clone3", "__clone3"},
	"Go's runtime": {"runtime.goexit", "runtime.mstart", "runtime.rt0_go", "runtime.mcall", "runtime.clone", goEntry},
	"fiber":        {startContext, makeFcontext, rubyFiber},
}

// The functions that begin fibers: of makecontext in glibc, of Boost and so of PHP, of Ruby.
const (
	startContext = "__start_context"
	makeFcontext = "make_fcontext"
	rubyFiber    = "fiber_entry"
)

var (
	ruleEntry = Rule{CFA: CFARSP, RA: RAUndefined, Flags: FlagConvention}
	ruleFiber = Rule{CFA: CFARSP, RA: RAUndefined, Flags: FlagConvention | FlagFiber}
)

// fiberFinder finds the functions that begin fibers, whose CFI does not say so.
type fiberFinder struct {
	cfi *CFI
	im  *dso.Image
}

// rules returns the rules of the functions that begin fibers. makecontext and make_fcontext store the address of such
// code on the fiber's stack, as if it had called the fiber's function. Return addresses are looked up one byte before.
func (f fiberFinder) rules() (k []known) {
	makesContext, ruby := false, false
	var fiber codeSeg
	functions(f.im, func(s *symbol) {
		switch string(s.name) {
		case "makecontext":
			makesContext = f.cfi.Machine == elf.EM_X86_64
		case "rb_fiber_new":
			ruby = true
		case rubyFiber:
			fiber = codeSeg{s.value, s.value + s.size}
		case makeFcontext:
			k = append(k, afterReturn(f.im, codeSeg{s.value, s.value + s.size})...)
		}
	})
	if makesContext {
		k = append(k, f.startContext()...)
	}
	if ruby && fiber.start == 0 && f.cfi.Machine == elf.EM_X86_64 {
		fiber = f.ruby()
	}
	if ruby && fiber.start < fiber.end {
		k = append(k, known{fiber.start, fiber.end, ruleFiber, true})
	}
	return k
}

// startContextCode is the beginning of glibc's __start_context. rbx is the sp at which makecontext has stored the next
// context.
var startContextCode = []byte{
	0x48, 0x89, 0xdc, // mov %rbx, %rsp
	0x48, 0x8b, 0x3c, 0x24, // mov (%rsp), %rdi
	0x48, 0x85, 0xff, // test %rdi, %rdi
}

// startContext finds __start_context. Its FDE does not cover the byte before it.
func (f fiberFinder) startContext() []known {
	vaddr, code := textCode(f.im)
	i := bytes.Index(code, startContextCode)
	if i < 0 {
		return nil
	}
	if e := f.cfi.find(vaddr + uint64(i)); e != nil {
		return []known{{e.start - 1, e.end, ruleFiber, true}}
	}
	return nil
}

// textCode returns the code of the section .text, and its vaddr.
func textCode(im *dso.Image) (vaddr uint64, code []byte) {
	s := im.Section(".text")
	if s == nil {
		return 0, nil
	}
	code, err := sectionBytes(im, s)
	if err != nil {
		return 0, nil
	}
	return s.Addr, code
}

// afterReturn returns the rule of the code after the return instruction of a function: in make_fcontext, this code
// begins a fiber.
func afterReturn(im *dso.Image, at codeSeg) []known {
	const longest = 1 << 10
	ret := []byte{0xc3}
	if im.Machine == elf.EM_AARCH64 {
		ret = []byte{0xc0, 0x03, 0x5f, 0xd6}
	}
	code, err := vaddrBytes(im, at.start, min(at.end-at.start, longest))
	if err != nil {
		return nil
	}
	i := bytes.Index(code, ret)
	if i < 0 {
		return nil
	}
	return []known{{at.start + uint64(i+len(ret)), at.end, ruleFiber, true}}
}

// rubyPush is the end of an instruction with which Ruby prepares a fiber's stack (coroutine/amd64/Context.h): movq $0,
// -8(reg), a return address of 0 for fiber_entry.
var rubyPush = []byte{0xf8, 0, 0, 0, 0}

// ruby finds fiber_entry in stripped libraries: the only function whose address is computed near an instruction
// that aligns a stack and one that stores a return address of 0 there.
func (f fiberFinder) ruby() (found codeSeg) {
	const near = 64 // bytes before and after
	vaddr, code := textCode(f.im)
	for i := indexFrom(code, rubyPush, 0); i >= 0; i = indexFrom(code, rubyPush, i+1) {
		push := i - 3
		if push < near || push+near > len(code) || !isInstruction(code[push:], 0xc7, 0xf8, 0x40) {
			continue
		}
		start := vaddr + uint64(push-near)
		if seg, ok := f.addressNear(start, code[push-near:push+near]); ok && found.start != 0 && seg != found {
			return codeSeg{}
		} else if ok {
			found = seg
		}
	}
	return found
}

// addressNear returns the function whose address code at vaddr computes, if it aligns a stack, too.
func (f fiberFinder) addressNear(vaddr uint64, code []byte) (seg codeSeg, ok bool) {
	const lea, length = 0x8d, 7
	aligns := false
	for i := 0; i+length <= len(code); i++ {
		if isInstruction(code[i:], 0x83, 0xf8, 0xe0) && code[i+3] == 0xf0 { // and $-16, reg
			aligns = true
		}
		if !isInstruction(code[i:], lea, 0xc7, 0x05) { // lea off(%rip), reg
			continue
		}
		to := vaddr + uint64(i+length) + uint64(int64(int32(binary.LittleEndian.Uint32(code[i+3:]))))
		if e := f.cfi.find(to); e != nil && e.start == to {
			seg = codeSeg{e.start, e.end}
		}
	}
	return seg, aligns && seg.end > 0
}

// isInstruction reports whether code begins with an instruction of 64 bits: this opcode, and a ModRM byte with these
// bits.
func isInstruction(code []byte, opcode, mask, modRM byte) bool {
	return code[0]&0xf8 == 0x48 && code[1] == opcode && code[2]&mask == modRM
}

package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"

	"gperf/internal/x86"
)

// CodeReader is an optional interface of a Space: instructions show more about code without CFI than its frame pointer
// does.
type CodeReader interface {
	// Code fills b, of up to 32 bytes, with the process's code from ip on. It returns false if that is unknown.
	Code(ip uint64, b []byte) bool
}

// code reads the code of a space.
type code struct {
	space Space
	abi   *abi
	bytes [16]byte
}

// at returns n bytes of code from ip on, or nil if they are unknown. They are valid until the next call.
func (c *code) at(ip uint64, n int) []byte {
	if r, ok := c.space.(CodeReader); ok && r.Code(ip, c.bytes[:n]) {
		return c.bytes[:n]
	}
	return nil
}

// before returns the 8 bytes of code before ip, nil if they are unknown.
func (c *code) before(ip uint64) []byte { return c.at(ip-callBytes, callBytes) }

// callBefore returns the target of the call instruction that ends at ip, 0 if the instruction does not contain it. ok
// is false if there is none, or if the code is unknown.
func (c *code) callBefore(ip uint64) (target uint64, ok bool) {
	b := c.before(ip)
	switch {
	case b == nil:
		return 0, false
	case c.abi == &arm64ABI:
		return callARM64(ip, b)
	}
	return callX86(ip, b)
}

// notCalled reports whether the code before ip is known, and does not end with a call.
func (c *code) notCalled(ip uint64) bool {
	_, ok := c.callBefore(ip)
	return !ok && c.before(ip) != nil
}

// framing says whether code without CFI has made its frame.
type framing uint8

const (
	unframed       framing = iota // unknown
	framed                        // its frame pointer is likelier right than words near sp
	framedAnywhere                // and may point to another stack, as where Go switches stacks
)

// framing returns the framing that the rule of code without CFI records.
func (r *Rule) framing() framing {
	if r.Flags&FlagFramed != 0 {
		return framed
	}
	return unframed
}

// guesses is the number of words from sp on in which an innermost function without a frame has its return address.
const guesses = 3

// uncovered steps out of code without CFI: assembly, or code that was made at run time. If its instructions show no
// return address, it has a frame pointer, or it is an innermost function without one. The BPF programs do the same
// (bpf/code.h). why is the reason if there is no caller.
func (w *walk) uncovered(f framing, why Reason) (outcome, Reason) {
	if w.regs.abi == &i386ABI {
		return w.byFramePointer(f, why)
	}
	inFile := w.m.Object != nil
	if (f == unframed || w.allRegs) && w.byCode() || inFile && f == unframed && w.byGuess(1) {
		return switched, 0
	}
	next, end := w.byFramePointer(f, why)
	switch {
	case next != stop:
		return next, 0
	case w.byGuess(guesses):
		return switched, 0
	case inFile && (end != ZeroReturn && end != EndOfStack || w.allRegs):
		return stop, why
	}
	return stop, end
}

// reach steps to a caller if its code is mapped.
func (w *walk) reach(ip, sp uint64, fp framePointer) bool {
	if w.space.Mapping(ip-1) == nil {
		return false
	}
	w.regs.known = 0
	w.regs.setIP(ip)
	w.regs.setSP(sp)
	w.regs.v[w.regs.abi.fp] = fp.at
	if fp.known {
		w.regs.setFP(fp.at)
	}
	return true
}

// framePointer is the value of a frame pointer, 0 if it is unknown.
type framePointer struct {
	at    uint64
	known bool
}

// framePointer returns the frame pointer.
func (r *Regs) framePointer() framePointer {
	at, known := r.Get(r.abi.fp)
	return framePointer{at, known}
}

// byCode steps to the caller if the next instructions show where the return address is: at the end of a function and,
// in the innermost frame, at its beginning, or if it makes no frame. On arm64, it is in the link register there.
func (w *walk) byCode() bool {
	if w.regs.abi == &arm64ABI {
		return w.byLinkRegister()
	}
	next := w.code.at(w.regs.IP(), 16)
	if w.byEpilogue(next) || w.allRegs && w.byPrologue(next) {
		return true
	}
	if !w.allRegs || w.m.Object != nil || w.m.Made {
		return false
	}
	ra, ok := w.code.leafReturn(&w.regs, w.mem)
	return ok && w.reach(ra, w.regs.SP()+8, w.regs.framePointer())
}

// Instructions with rbp and rsp. Each mov between the two has two encodings.
var (
	endbr64  = []byte{0xf3, 0x0f, 0x1e, 0xfa}
	pushRBP  = []byte{0x55}
	setRBP   = [][]byte{{0x48, 0x89, 0xe5}, {0x48, 0x8b, 0xec}} // mov %rsp, %rbp
	resetRSP = [][]byte{{0x48, 0x89, 0xec}, {0x48, 0x8b, 0xe5}} // mov %rbp, %rsp

	subRSP     = []byte{0x48, 0x83, 0xec} // sub $byte, %rsp
	addRSP     = []byte{0x48, 0x83, 0xc4} // add $byte, %rsp
	addRSP32   = []byte{0x48, 0x81, 0xc4}
	leaRSP     = []byte{0x48, 0x8d, 0x65} // lea byte(%rbp), %rsp
	vzeroupper = []byte{0xc5, 0xf8, 0x77}
)

// hasPrefix reports whether code begins with one of the encodings of an instruction.
func hasPrefix(code []byte, encodings [][]byte) bool {
	return bytes.HasPrefix(code, encodings[0]) || bytes.HasPrefix(code, encodings[1])
}

// byEpilogue steps to the caller if code, which is at ip, does nothing but drop the frame and return. It may also call
// a function before, as CPython's trampolines do.
func (w *walk) byEpilogue(code []byte) bool {
	e := epilogue{mem: w.mem, sp: w.regs.SP(), fp: w.regs.framePointer()}
	const instructions = 8
	for range instructions {
		n := e.step(code)
		if n == 0 || n > len(code) {
			break
		}
		code = code[n:]
	}
	if bytes.HasPrefix(code, []byte{0xf2, 0xc3}) || bytes.HasPrefix(code, []byte{0xf3, 0xc3}) { // bnd ret, rep ret
		code = code[1:]
	}
	args := uint64(0) // bytes that the function's return removes
	switch {
	case len(code) >= 1 && code[0] == 0xc3:
	case len(code) >= 3 && code[0] == 0xc2:
		args = uint64(binary.LittleEndian.Uint16(code[1:]))
	default:
		return false
	}
	ra, ok := w.mem.Word(e.sp)
	return ok && e.sp-w.regs.SP() <= near && w.reach(ra, e.sp+8+args, e.fp)
}

// epilogue is the state of following an epilogue.
type epilogue struct {
	mem Memory
	sp  uint64
	fp  framePointer
}

// step follows an instruction of an epilogue or trampoline. It returns its length, 0 if it is not one.
func (e *epilogue) step(code []byte) int {
	const leave, popRSP, popRBP = 0xc9, 0x5c, 0x5d
	if len(code) < 7 {
		code = append(bytes.Clone(code), make([]byte, 7-len(code))...)
	}
	switch c := code[0]; {
	case c == leave:
		e.sp = e.fp.at
		return e.popRBP()
	case c == popRBP:
		return e.popRBP()
	case c&0xf8 == 0x58 && c != popRSP: // pop another register
		e.sp += 8
		return 1
	case c == 0x41 && code[1]&0xf8 == 0x58: // pop r8 … r15
		e.sp += 8
		return 2
	case hasPrefix(code, resetRSP):
		e.sp = e.fp.at
		return 3
	case bytes.HasPrefix(code, endbr64):
		return 4
	case c == 0xff && code[1]&0xf8 == 0xd0: // call *reg
		return 2
	case bytes.HasPrefix(code, subRSP):
		e.sp -= uint64(int8(code[3]))
		return 4
	case bytes.HasPrefix(code, addRSP):
		e.sp += uint64(int8(code[3]))
		return 4
	case bytes.HasPrefix(code, addRSP32):
		e.sp += uint64(int32(binary.LittleEndian.Uint32(code[3:])))
		return 7
	case bytes.HasPrefix(code, leaRSP):
		e.sp = e.fp.at + uint64(int8(code[3]))
		return 4
	case bytes.HasPrefix(code, vzeroupper):
		return 3
	}
	return 0
}

// popRBP follows the pop of rbp, also leave's.
func (e *epilogue) popRBP() int {
	fp, ok := e.mem.Word(e.sp)
	if !ok {
		return 0
	}
	e.fp = framePointer{fp, true}
	e.sp += 8
	return 1
}

// byPrologue steps to the caller if code, which is at ip, begins to make a frame: the return address is at sp, or after
// the rbp that was just pushed.
func (w *walk) byPrologue(code []byte) bool {
	sp := w.regs.SP()
	code = bytes.TrimPrefix(code, endbr64)
	switch {
	case makesFrame(code):
	case hasPrefix(code, setRBP) && bytes.Equal(w.code.at(w.regs.IP()-1, 1), pushRBP):
		sp += 8
	default:
		return false
	}
	ra, ok := w.mem.Word(sp)
	return ok && w.reach(ra, sp+8, w.regs.framePointer())
}

// enterLen is the length of the instructions that make a frame: push %rbp; mov %rsp, %rbp.
const enterLen = 4

// makesFrame reports whether code begins with these instructions.
func makesFrame(code []byte) bool {
	return bytes.HasPrefix(code, pushRBP) && hasPrefix(code[len(pushRBP):], setRBP)
}

// functionSize is the assumed limit of the length of a function, if a call of it is the only evidence.
const functionSize = 1 << 16

// leafReturn returns the return address of an innermost function that makes no frame, in a program whose other
// functions have frame pointers: rbp's frame is the caller's. The word at rsp is then the return address of a call of
// this function, and the one beside rbp is not. In a function with a frame, an old return address may be at rsp, but
// both are of calls of it.
func (c *code) leafReturn(regs *Regs, mem Memory) (ra uint64, ok bool) {
	ip, fp := regs.IP(), regs.framePointer()
	if ra, ok = mem.Word(regs.SP()); !ok {
		return 0, false
	}
	target, _ := c.callBefore(ra)
	if target == 0 || ip-target > functionSize {
		return 0, false
	}
	if beside, ok := mem.Word(fp.at + 8); ok {
		if framed, _ := c.callBefore(beside); framed >= target && framed <= ip {
			return 0, false
		}
	}
	return ra, true
}

// byGuess steps to the caller of an innermost function that has pushed few words or none, such as system call wrappers
// and hand-written code: the return address is one of n words. In code that was made at run time, only a call to this
// function counts, because below its variables may be old return addresses.
func (w *walk) byGuess(n uint64) bool {
	if !w.allRegs {
		return false
	}
	ip, sp := w.regs.IP(), w.regs.SP()
	for i := range n {
		ra, ok := w.mem.Word(sp + 8*i)
		if !ok {
			break
		}
		target, ok := w.code.callBefore(ra)
		if !ok || w.m.Object == nil && ip-target > functionSize {
			continue
		}
		if w.reach(ra, sp+8*i+8, w.regs.framePointer()) {
			return true
		}
	}
	return false
}

// callX86 returns the target of the call with which code before ip ends: e8 with 4 bytes, or ff /2 with up to 6.
func callX86(ip uint64, code []byte) (target uint64, ok bool) {
	if code[3] == 0xe8 {
		return ip + uint64(int32(binary.LittleEndian.Uint32(code[4:]))), true
	}
	for _, i := range [...]int{6, 5, 4, 2, 1} {
		if code[i] == 0xff && code[i+1]&0x38 == 0x10 {
			return 0, true
		}
	}
	return 0, false
}

// callBytes is the size of the code that EndsWithCall reads.
const callBytes = 8

// EndsWithCall reports whether 8 bytes of a machine's code end with a call. Unlike callBefore it knows the
// instruction's length, because no word of a stack confirms that the bytes are a return address.
func EndsWithCall(m elf.Machine, code []byte) bool {
	if m == elf.EM_AARCH64 {
		return isBranchLink(binary.LittleEndian.Uint32(code[4:]))
	}
	for i := range len(code) - 1 {
		if call := code[i] == 0xe8 || code[i] == 0xff && code[i+1]&0x38 == 0x10; call {
			if x86.Decode(code[i:]).Len == len(code)-i {
				return true
			}
		}
	}
	return false
}

package hotspot

import (
	"encoding/binary"
	"io"
)

// Frame is the registers of a frame.
type Frame struct {
	IP, SP, FP uint64
	Returned   bool // IP is a return address
	// RAX, RBX and R13 are valid if All is set: the frame has not called anything.
	RAX, RBX, R13 uint64
	All           bool
}

// Code finds the callers of HotSpot's code, as bpf/hotspot.h does in the kernel: the comments there say why.
type Code struct {
	Heaps []Heap
	Mem   io.ReaderAt // of the process
	// Stack returns the word at an address of the stack.
	Stack func(addr uint64) (uint64, bool)
}

// blob is code that HotSpot has generated.
type blob struct {
	code, size uint64 // ip, and bytes
	words      uint64 // size of its frames; 0 if they have no common size
	complete   int64  // offset in the code from which on the frame is complete; -1: unknown
	frameless  bool   // it has no frame, or a small one
}

const (
	maxFrameWords = 0x10000
	noSize        = 0xffffffff // frame size of a stub that has no frame, or a small one
	maxJumps      = 32         // in the segment map
	pushedWords   = 2
	stubFrame     = 0x4000
	maxLocals     = 0x80010
	codeBefore    = 32 // bytes of code that are read before ip
	codeBytes     = 40
)

// Caller returns the caller of a frame in one of the heaps, and whether it is known.
func (c *Code) Caller(f Frame) (Frame, bool) {
	addr := f.IP
	if f.Returned {
		addr--
	}
	for i := range c.Heaps {
		h := &c.Heaps[i]
		if addr >= h.Low && addr < h.High {
			w := walk{c, h, f}
			ok := w.step(addr)
			return w.Frame, ok
		}
	}
	return f, false
}

// walk is one step.
type walk struct {
	code *Code
	h    *Heap
	Frame
}

func (w *walk) step(addr uint64) bool {
	if addr-w.h.Interp < w.h.InterpSize {
		return w.interpreted()
	}
	b, ok := w.find(addr)
	switch {
	case !ok:
		return false
	case !w.Returned:
		return w.interrupted(&b)
	case b.words > 0:
		return w.full(&b)
	}
	// A stub without a frame may have aligned rsp for its call.
	return b.frameless && (w.frameless(0) || w.frameless(8)) || w.framed(w.FP)
}

func (w *walk) read(b []byte, addr uint64) bool {
	_, err := w.code.Mem.ReadAt(b, int64(addr))
	return err == nil
}

// find returns the blob that contains addr.
func (w *walk) find(addr uint64) (b blob, ok bool) {
	block, ok := w.blockOf(addr)
	if !ok {
		return b, false
	}
	return w.blobAt(block, addr)
}

// blockOf returns the block that contains addr.
func (w *walk) blockOf(addr uint64) (block uint64, ok bool) {
	segment := (addr - w.h.Low) >> w.h.Shift
	var back [1]byte
	for range maxJumps {
		if !w.read(back[:], w.h.Segments+segment) {
			return 0, false
		}
		n := uint64(back[0])
		if n == 0 {
			return w.h.Low + segment<<w.h.Shift, true
		}
		if n == 0xff || n > segment {
			break
		}
		segment -= n
	}
	return 0, false
}

// blobAt reads the blob of a block, which must contain addr in its code.
func (w *walk) blobAt(block, addr uint64) (b blob, ok bool) {
	var head [BlockHead]byte
	h := w.h
	if !w.read(head[:], block) || head[h.Used] == 0 {
		return b, false
	}
	le := binary.LittleEndian
	start := block + uint64(h.Blob)
	switch h.CodeBits {
	case 64:
		b.code = le.Uint64(head[h.Code:])
	case 32:
		b.code = start + uint64(le.Uint32(head[h.Code:]))
	default:
		b.code = start + uint64(le.Uint16(head[h.Code:]))
	}
	b.size = start + uint64(le.Uint32(head[h.End:])) - b.code
	if b.words = uint64(le.Uint32(head[h.Size:])); b.words == noSize {
		b.words, b.frameless = 0, true
	}
	if b.complete = int64(int32(le.Uint32(head[h.Complete:]))); h.CompleteBits == 16 {
		b.complete = int64(int16(b.complete))
	}
	return b, addr-b.code < b.size && b.words <= maxFrameWords
}

// toCaller sets the frame to the caller's.
func (w *walk) toCaller(ip, sp, fp uint64) bool {
	w.Frame = Frame{IP: ip, SP: sp, FP: fp, Returned: true}
	return true
}

func (w *walk) inCache(ip uint64) bool { return ip >= w.h.CacheLow && ip < w.h.CacheHigh }

// isCode reports whether an address can be a return address.
func (w *walk) isCode(ip uint64) bool { return w.inCache(ip) || w.called(ip) }

// called reports whether a call instruction ends at ip: e8 with 4 bytes, or ff /2 with up to 6.
func (w *walk) called(ip uint64) bool {
	var b [8]byte
	if ip < 8 || ip >= maxIP || !w.read(b[:], ip-8) {
		return false
	}
	if b[3] == 0xe8 {
		return true
	}
	for _, i := range [...]int{6, 5, 4, 2, 1} {
		if b[i] == 0xff && b[i+1]&0x38 == 0x10 {
			return true
		}
	}
	return false
}

// frameless goes to the caller of code whose return address is at SP + off, with the caller's frame pointer in FP.
func (w *walk) frameless(off uint64) bool {
	ra, ok := w.code.Stack(w.SP + off)
	return ok && w.isCode(ra) && w.toCaller(ra, w.SP+off+8, w.FP)
}

// framed goes to the caller of code that has saved rbp at addr, below the return address.
func (w *walk) framed(addr uint64) bool {
	if addr < w.SP || addr&7 != 0 {
		return false
	}
	fp, ok1 := w.code.Stack(addr)
	ra, ok2 := w.code.Stack(addr + 8)
	return ok1 && ok2 && w.isCode(ra) && w.toCaller(ra, addr+16, fp)
}

// full goes to the caller of code with a complete frame.
func (w *walk) full(b *blob) bool {
	for i := range uint64(pushedWords + 1) {
		if w.framed(w.SP + 8*(b.words+i) - 16) {
			return true
		}
	}
	return false
}

// interrupted goes to the caller of a blob's instruction that an event interrupted.
func (w *walk) interrupted(b *blob) bool {
	var code [codeBytes]byte
	if !w.read(code[:], w.IP-codeBefore) {
		return false
	}
	size, above := 8*b.words, w.FP-w.SP
	state := atEnd(&code)
	if state == unknown && size > 0 && b.complete >= 0 {
		if state = full; w.IP-b.code < uint64(b.complete) {
			state = inPrologue(&code)
		}
	}
	switch state {
	case none:
		return w.frameless(0)
	case pushed:
		return w.framed(w.SP)
	case byFP:
		return w.framed(w.FP)
	case live:
		return w.frameless(size - 8)
	case full:
		return w.full(b)
	}
	if size > 0 && b.complete < 0 && (above <= size-16 && w.framed(w.FP) || w.framed(w.SP+size-16)) {
		return true
	}
	switch {
	case w.frameless(0):
		return true
	case size > 0:
		return above <= size-16 && w.framed(w.FP)
	case above < stubFrame && w.framed(w.FP):
		return true
	case !w.All || !w.isCode(w.RAX):
		return false
	}
	sp := w.SP
	if w.R13-sp < stubFrame {
		sp = w.R13
	}
	return w.toCaller(w.RAX, sp, w.FP)
}

// entering goes to the caller of an interpreted method that is being entered or left.
func (w *walk) entering() bool {
	if w.R13-w.SP < maxLocals && w.FP-w.SP >= w.R13-w.SP {
		sender, ra := w.R13, w.RAX
		if w.frameless(0) {
			w.SP = sender
			return true
		}
		return w.isCode(ra) && w.toCaller(ra, sender, w.FP)
	}
	var code [12]byte
	const at = 6
	if !w.read(code[:], w.IP-at) {
		return false
	}
	switch ip := code[at:]; {
	case code[at-1] == 0xc9 && (ip[0] == 0x41 && ip[1] == 0x5d || ip[0] == 0x5f): // leave; pop r13 or rdi
		return w.frameless(0)
	case [3]byte(code[at-3:]) == [3]byte{0xc9, 0x41, 0x5d}: // …; mov rsp, rbx
		return w.toCaller(w.R13, w.RBX, w.FP)
	case [3]byte(code[:]) == [3]byte{0xc9, 0x41, 0x5d} && ip[0] == 0x41 && ip[1] == 0xff: // …; jmp r13
		return w.toCaller(w.R13, w.SP, w.FP)
	}
	return false
}

// interpreted goes to the caller of an interpreted method.
func (w *walk) interpreted() bool {
	if w.All && w.entering() {
		return true
	}
	sender, ok := w.code.Stack(w.FP - 8)
	if !ok || !w.framed(w.FP) {
		return false
	}
	if sender-w.SP < maxLocals {
		w.SP = sender
	}
	return true
}

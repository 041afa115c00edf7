package unwind

import (
	"encoding/binary"
	"sync"
)

// Reason says why a walk ended.
type Reason uint8

const (
	EndOfStack Reason = iota // the walk reached an entry point: the stack is complete
	NoMapping                // no mapping contains the ip
	NoTable                  // the code has no CFI and no frame pointer
	NoRule                   // the CFI has no rule for the address, or an invalid one
	Unreadable               // a needed word is outside the stack copy
	Depth                    // the limit of frames
	NoProgress               // the caller's sp would not be above the frame's
	ZeroReturn               // a return address or frame pointer is 0, not at an entry point
	NumReasons
)

var reasons = [NumReasons]string{
	"end of stack", "no mapping", "no table", "no rule", "unreadable memory", "depth", "no progress",
	"return address 0",
}

// String returns the reason in words: "unreadable memory".
func (r Reason) String() string {
	if r < NumReasons {
		return reasons[r]
	}
	return "unknown"
}

// Frame is one frame of a callchain.
type Frame struct {
	IP     uint64
	Return bool // IP is a return address: the call is before it
	Last   bool // the call is the last instruction of its row: IP may be in another function than the call
}

// Memory is the source of the stack's contents.
type Memory interface {
	// Word returns the 8 bytes, of i386 the 4 bytes, at an address of the process. ok is false if they are unknown.
	Word(addr uint64) (uint64, bool)
}

// Stack is a copy of the memory that starts at Addr.
type Stack struct {
	Addr  uint64
	Bytes []byte
	Is32  bool // words have 4 bytes

	missed uint64 // offset of the last word that was not in the copy
}

// maxAbove is how far above a copy its stack may go on, in bytes: the usual limit of a stack's size.
const maxAbove = 8 << 20

// GoesOn reports whether the last word that was not in the copy was above it, on the same stack by its distance.
func (s *Stack) GoesOn() bool { return s.missed+8 > uint64(len(s.Bytes)) && s.missed < maxAbove }

// Word implements Memory.
func (s *Stack) Word(addr uint64) (uint64, bool) {
	off := addr - s.Addr
	if s.Is32 {
		if n := uint64(len(s.Bytes)); n < 4 || off > n-4 {
			s.missed = off
			return 0, false
		}
		return uint64(binary.LittleEndian.Uint32(s.Bytes[off:])), true
	}
	if n := uint64(len(s.Bytes)); n < 8 || off > n-8 {
		s.missed = off
		return 0, false
	}
	return binary.LittleEndian.Uint64(s.Bytes[off:]), true
}

// Mapping is a range of a process's code.
type Mapping struct {
	Start, End uint64 // ips
	Bias       uint64 // ip - vaddr
	Object     *Object
	Made       bool // made at run time, in memory without a file: no stack begins there
	Code       Code // if set, it is used instead of Object
}

// Code finds callers of code that has frames of its own layout, as a virtual machine generates it.
type Code interface {
	// Caller replaces a frame's registers by its caller's, and reports whether it knows these.
	Caller(regs *Regs, mem Memory, returned bool) bool
}

// Space is the mappings of a process.
type Space interface {
	// Mapping returns the mapping that contains ip, or nil.
	Mapping(ip uint64) *Mapping
}

// Object is the unwind information of a DSO, shared by its mappings. It may be used from several goroutines. A nil
// Object has no CFI: walks use frame pointers in it.
type Object struct {
	table *Table
	open  func() (*CFI, error)

	mu     sync.Mutex
	opened bool
	cfi    *CFI
}

// NewObject returns an Object with a table and a function that reads the CFI. A walk calls open when the table has no
// usable row, once until Release. Either may be nil.
func NewObject(t *Table, open func() (*CFI, error)) *Object { return &Object{table: t, open: open} }

// full returns the CFI, or nil if it cannot be read.
func (o *Object) full() *CFI {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.opened && o.open != nil {
		o.cfi, _ = o.open()
	}
	o.opened = true
	return o.cfi
}

// Release frees the CFI, which takes much memory for a large file. A walk that needs it opens it again.
func (o *Object) Release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.opened, o.cfi = false, nil
}

// MaxDepth is the default limit of frames of a walk: the kernel's PERF_MAX_STACK_DEPTH.
const MaxDepth = 127

// Unwinder walks stacks. It caches rows and must not be used from several goroutines.
type Unwinder struct {
	MaxDepth int // 0 means MaxDepth

	w     walk
	steps map[stepKey]*step
	eval  evaluator
}

// Walk appends the frames of a stack, the innermost first, and returns why the walk ended. It keeps the frames before
// an error.
func (u *Unwinder) Walk(frames []Frame, regs *Regs, mem Memory, space Space) ([]Frame, Reason) {
	n := len(frames)
	frames, why, again := u.walk(frames, regs, mem, space, false)
	if again { // the caller's registers are needed: walk again by full CFI, which keeps all registers
		frames, why, _ = u.walk(frames[:n], regs, mem, space, true)
	}
	return frames, why
}

func (u *Unwinder) walk(frames []Frame, regs *Regs, mem Memory, space Space, full bool) ([]Frame, Reason, bool) {
	u.w = walk{u: u, regs: *regs, mem: mem, space: space, code: code{space: space, abi: regs.abi}, allRegs: true,
		full: full}
	frames, why, again := u.w.run(frames)
	u.w.mem, u.w.space, u.w.code.space, u.w.m = nil, nil, nil, nil // release the caller's memory
	u.eval.mem = nil
	return frames, why, again
}

// walk is the state of one walk.
type walk struct {
	u     *Unwinder
	mem   Memory
	space Space
	m     *Mapping // of the previous frame; likely the next one's too

	regs    Regs
	allRegs bool // regs has all registers of the frame, because it has called nothing
	last    Regs // of the latest frame with allRegs
	full    bool // walk by full CFI, which keeps all registers

	code code
}

// run finds the frames. If again is true, a step needs a register that only a walk by full CFI keeps.
func (w *walk) run(frames []Frame) (_ []Frame, why Reason, again bool) {
	depth := w.u.MaxDepth
	if depth <= 0 {
		depth = MaxDepth
	}
	for depth += len(frames); len(frames) < depth; {
		ip, sp := w.regs.IP(), w.regs.SP()
		frames = append(frames, Frame{IP: ip, Return: !w.allRegs})
		at := w.site(ip) // the call may be the last instruction of its mapping
		if w.m == nil || at < w.m.Start || at >= w.m.End {
			if w.m = w.space.Mapping(at); w.m == nil {
				return frames, NoMapping, false
			}
		}
		f := &frames[len(frames)-1]
		f.Last = f.Return && w.isLast(ip)
		next, why := w.step(ip)
		switch {
		case next == stop:
			return frames, why, false
		case next == retry:
			return frames, NoRule, true
		case w.regs.IP() == 0:
			return frames, ZeroReturn, false
		case next == called && (w.regs.SP() < sp || w.regs.SP() == sp && w.regs.IP() == ip):
			return frames, NoProgress, false
		}
		if w.allRegs = next == interrupted; w.allRegs { // the interrupted code has called nothing
			f.Return, f.Last = false, false
		}
	}
	return frames, Depth, false
}

// outcome is the result of a step.
type outcome uint8

const (
	stop        outcome = iota // there is no caller
	called                     // regs are the caller's
	switched                   // regs are the caller's, which may be on another stack
	interrupted                // regs are the registers of code that a signal interrupted
	retry                      // a needed register was not kept
)

// step replaces w.regs by the caller's registers.
func (w *walk) step(ip uint64) (outcome, Reason) {
	if w.allRegs {
		w.last = w.regs
	}
	if w.m.Code != nil {
		if !w.m.Code.Caller(&w.regs, w.mem, !w.allRegs) {
			return stop, NoRule
		}
		return switched, 0
	}
	o := w.m.Object
	if o == nil {
		return w.uncovered(unframed, NoTable)
	}
	vaddr := w.site(ip) - w.m.Bias
	var rule Rule
	switch {
	case o.table != nil:
		rule = o.table.Lookup(vaddr)
	case !w.full:
		return retry, 0
	}
	if w.full && rule.Flags&(FlagConvention|FlagInferred) == 0 && rule.RA != RAUndefined && rule.CFA != CFASignal {
		return w.byRow(o, vaddr, rule.framing())
	}
	return w.byRule(ip, &rule)
}

// site returns the address by which the mapping and the rule of a frame with this ip are found: for a return address,
// an address in the call before it.
func (w *walk) site(ip uint64) uint64 {
	if !w.allRegs {
		ip--
	}
	return ip
}

// isLast reports whether a row of the table ends with the call before a return address. A call that never returns may
// be the last instruction of its function. The BPF programs do the same (bpf/walk.h).
func (w *walk) isLast(ip uint64) bool {
	o := w.m.Object
	if o == nil || o.table == nil {
		return false
	}
	if r, last := o.table.find(w.site(ip) - w.m.Bias); !last || r.CFA == CFASignal || r.Flags&FlagSignal != 0 {
		return false // the code to which a signal's handler returns has called nothing
	}
	_, ok := w.code.callBefore(ip)
	return ok
}

// tracked returns the set of registers that rules cover.
func (a *abi) tracked() uint64 { return 1<<a.ip | 1<<a.sp | 1<<a.fp }

// byRule steps by a rule; see the package comment.
func (w *walk) byRule(ip uint64, r *Rule) (outcome, Reason) {
	switch {
	case r.CFA == CFASignal:
		return w.bySignal(w.regs.SP())
	case r.RA == RAUndefined && r.CFA != CFANone && r.CFA != CFAUnsupported:
		return stop, EndOfStack
	}
	cfa, goroutine, next, why := w.cfa(ip, r)
	switch {
	case next != called:
		return next, why
	case cfa < w.regs.SP() && r.Flags&(FlagConvention|FlagSignal) == 0:
		return stop, NoProgress // not a caller's frame
	}
	fp, fpOK, ok := w.callerFP(r, cfa, goroutine)
	if !ok {
		return retry, 0
	}
	ra, next, why := w.callerIP(r, cfa, goroutine)
	switch {
	case next != called:
		return next, why
	case r.Flags&FlagInferred != 0 && ra != 0 && w.code.notCalled(ra):
		return stop, NoRule
	}
	// Rules do not cover the other registers, but code with conventions preserves them.
	keep := w.regs.abi.tracked()
	if w.full && r.FP == FPSame && r.Flags&FlagInferred == 0 {
		keep |= w.regs.abi.saved
	}
	w.regs.known &= keep
	switch {
	case !fpOK: // the walk can continue while callers do not need rbp
		w.regs.known &^= 1 << w.regs.abi.fp
		w.regs.v[w.regs.abi.fp] = 0
	case r.FP != FPSame:
		w.regs.setFP(fp)
	}
	w.regs.setIP(w.regs.abi.strip(ra))
	w.regs.setSP(cfa)
	if r.RA == RAGoroutine && w.regs.abi.lr >= 0 {
		if lr, ok := w.mem.Word(goroutine + uint64(r.FPOff) - 8); ok && lr != 0 { // mcall and systemstack save 0
			w.regs.Set(w.regs.abi.lr, lr)
		}
	}
	switch {
	case r.Flags&FlagSignal != 0:
		return interrupted, 0
	case r.Flags&FlagConvention != 0:
		return switched, 0
	}
	return called, 0
}

// cfa returns the CFA by a rule, and the address of the goroutine's g if the rule needs it. Unless the outcome is
// called, the step ends with it.
func (w *walk) cfa(ip uint64, r *Rule) (cfa, goroutine uint64, _ outcome, why Reason) {
	sp, fp, ok := w.regs.SP(), w.regs.FP(), true
	switch r.CFA {
	case CFARSP:
		cfa = sp + uint64(r.CFAOff)
	case CFARBP:
		convention := r.Flags&FlagConvention != 0
		if _, ok = w.regs.Get(w.regs.abi.fp); !ok && convention {
			next, why := w.withoutFP(ip)
			return 0, 0, next, why
		}
		if ok && fp == 0 && convention {
			return 0, 0, stop, ZeroReturn
		}
		cfa = fp + uint64(r.CFAOff)
	case CFADerefRSP:
		cfa, ok = w.mem.Word(sp + uint64(r.CFAOff))
		cfa += uint64(r.CFAOff2)
	case CFADerefRBP:
		cfa, ok = w.mem.Word(fp + uint64(r.CFAOff))
		cfa += uint64(r.CFAOff2)
	case CFAPLT:
		cfa = sp + uint64(r.CFAOff)
		if int16(ip&15) >= r.CFAOff2 {
			cfa += 8
		}
	case CFAReg:
		if cfa, ok = w.regs.Get(int(r.CFAOff2)); !ok {
			return 0, 0, retry, 0
		}
		cfa += uint64(r.CFAOff)
	case CFAGoroutine:
		if goroutine, why = w.goroutine(uint64(r.CFAOff2)); goroutine == 0 {
			return 0, 0, stop, why
		}
		cfa, ok = w.mem.Word(goroutine + goSchedSP)
		cfa += uint64(r.CFAOff)
	case CFAUnsupported:
		return 0, 0, retry, 0
	default:
		next, why := w.uncovered(r.framing(), NoRule)
		return 0, 0, next, why
	}
	if !ok {
		return 0, 0, stop, Unreadable
	}
	return cfa, goroutine, called, 0
}

// callerFP returns the caller's frame pointer by a rule, and whether it is known. If ok is false, the rule needs a
// register that was not kept.
func (w *walk) callerFP(r *Rule, cfa, goroutine uint64) (fp uint64, known, ok bool) {
	off := uint64(r.FPOff)
	switch r.FP {
	case FPAtCFA:
		fp, known = w.mem.Word(cfa + off)
	case FPAtFP:
		fp, known = w.mem.Word(w.regs.FP() + off)
	case FPAtSP:
		fp, known = w.mem.Word(w.regs.SP() + off)
	case FPGoroutine:
		fp, known = w.mem.Word(goroutine + off)
	case FPReg:
		fp, known = w.regs.Get(int(r.FPOff))
		return fp, known, known
	case FPSame:
		known = true
	}
	return fp, known, true
}

// callerIP returns the return address by a rule. Unless the outcome is called, the step ends with it.
func (w *walk) callerIP(r *Rule, cfa, goroutine uint64) (ra uint64, _ outcome, why Reason) {
	at := cfa
	switch r.RA {
	case RAReg:
		ra, ok := w.regs.Get(int(r.RAOff))
		switch {
		case ok:
			return ra, called, 0
		case r.Flags&FlagConvention != 0:
			next, why := w.uncovered(framedAnywhere, NoRule)
			return 0, next, why
		}
		return 0, retry, 0
	case RAAtSP:
		at = w.regs.SP()
	case RAAtFP:
		at = w.regs.FP()
	case RAGoroutine:
		at = goroutine + goSchedPC
	}
	if r.RA != RAGoroutine {
		at += uint64(r.RAOff)
	}
	ra, ok := w.mem.Word(at)
	if !ok {
		return 0, stop, Unreadable
	}
	return ra, called, 0
}

// withoutFP steps by full CFI, because the rule needs a frame pointer that is not known: the frame pointer of Go's
// arm64 code lies below sp, where copies of the stack may begin.
func (w *walk) withoutFP(ip uint64) (outcome, Reason) {
	if !w.full {
		return retry, 0
	}
	return w.byRow(w.m.Object, w.site(ip)-w.m.Bias, unframed)
}

// goroutine returns the address of the g of the goroutine that Go's thread runs, or 0 and the reason. A g has the
// address of its thread, m, which begins with the address of its first g, g0.
func (w *walk) goroutine(curg uint64) (g uint64, why Reason) {
	m, ok1 := w.mem.Word(w.last.v[w.regs.abi.g] + goM)
	g0, ok2 := w.mem.Word(m)
	again, ok3 := w.mem.Word(g0 + goM)
	g, ok4 := w.mem.Word(m + curg)
	switch {
	case !ok1 || !ok2 || !ok3 || !ok4:
		return 0, Unreadable
	case m == 0 || again != m:
		return 0, NoRule
	}
	return g, NoRule // if it is 0, the thread runs Go's scheduler
}

// bySignal steps to the code that a signal interrupted. sp is the sp at the call of rt_sigreturn.
func (w *walk) bySignal(sp uint64) (outcome, Reason) {
	at := sp + w.regs.abi.context
	for i, n := range w.regs.abi.contextRegs {
		v, ok := w.mem.Word(at + uint64(i)*8)
		if !ok {
			return stop, Unreadable
		}
		w.regs.Set(n, v)
	}
	w.regs.setIP(w.regs.abi.strip(w.regs.IP()))
	return interrupted, 0
}

// byFramePointer steps by frame pointer: the frame pointer is the address of the caller's, and the return address
// follows. If the frame pointer is invalid, the walk ends with why.
func (w *walk) byFramePointer(f framing, why Reason) (outcome, Reason) {
	fp, ok := w.regs.Get(w.regs.abi.fp)
	far := fp+w.regs.abi.below-w.regs.SP() > near
	switch {
	case !ok || fp&(w.regs.abi.word-1) != 0:
		return stop, why
	case fp == 0 && w.m.Made:
		return stop, why
	case fp == 0 && w.regs.abi.lr >= 0: // arm64's procedure call standard ends the list of frames so
		return stop, EndOfStack
	case fp == 0:
		return stop, ZeroReturn
	case far && f != framedAnywhere && (w.m.Object != nil || w.m.Made): // only programs without CFI switch stacks
		return stop, why
	}
	next, ok1 := w.mem.Word(fp)
	ra, ok2 := w.mem.Word(fp + w.regs.abi.word)
	if !ok1 || !ok2 {
		return stop, Unreadable
	}
	ra = w.regs.abi.strip(ra)
	switch {
	case ra == 0 && !w.m.Made:
		return stop, ZeroReturn
	case ra == 0, far && w.code.notCalled(ra), w.space.Mapping(ra-1) == nil:
		return stop, why
	}
	w.regs.known = 0
	w.regs.setIP(ra)
	w.regs.setSP(fp + 2*w.regs.abi.word)
	w.regs.setFP(next)
	return switched, 0
}

// near is the largest usual distance from sp to the frame pointer, in bytes: the limit of a stack.
const near = 8 << 20

package unwind

import "encoding/binary"

// Instructions of arm64 at the beginning and the end of functions. A pair is x29 and x30, n a number of bytes.
func isRet(i uint32) bool          { return i == 0xd65f03c0 || i&^0x400 == 0xd65f0bff } // ret, retaa, retab
func isSign(i uint32) bool         { return i&^0x40 == 0xd503233f }                     // paciasp, pacibsp
func isAuthenticate(i uint32) bool { return i&^0x40 == 0xd50323bf }                     // autiasp, autibsp
func isBTIC(i uint32) bool         { return i == 0xd503245f }
func isPushPair(i uint32) bool     { return i&0xffc07fff == 0xa9807bfd }                  // stp x29, x30, [sp, -n]!
func isStorePair(i uint32) bool    { return i&0xffc07fff == 0xa9007bfd }                  // stp x29, x30, [sp, n]
func isBranchLink(i uint32) bool   { return i>>26 == 0x25 || i&^0x1000fff == 0xd63f0000 } // bl, blr, blraa, …
func isSubSP(i uint32) bool        { return i&0xffc003ff == 0xd10003ff }                  // sub sp, sp, n
func isAddSP(i uint32) bool        { return i&0xffc003ff == 0x910003ff }                  // add sp, sp, n
func isSetFP(i uint32) bool        { return i&0xffc003ff == 0x910003fd }                  // add x29, sp, n

func pairBytes(i uint32) uint64 { return uint64(-(int32(i<<10) >> 25) * 8) }
func immediate(i uint32) uint64 { return uint64(i >> 10 & 0xfff) }

// callARM64 returns the target of the call with which code before ip ends: the target of bl, 0 for blr.
func callARM64(ip uint64, code []byte) (target uint64, ok bool) {
	i := binary.LittleEndian.Uint32(code[len(code)-4:])
	if ip&3 != 0 || !isBranchLink(i) {
		return 0, false
	}
	if i>>26 == 0x25 {
		target = ip - 4 + uint64(int64(int32(i<<6)>>4))
	}
	return target, true
}

// byLinkRegister steps out of a function without CFI whose return address is in the link register. The BPF program does
// the same (bpf/arm64code.h). In a function that has called others, the link register is the address after its last
// call, in the same function: then code without CFI contains that address too. Where the whole mapping has no CFI, only
// the function's first and last instructions distinguish the two.
func (w *walk) byLinkRegister() bool {
	lr, ok := w.regs.Get(w.regs.abi.lr)
	if lr = w.regs.abi.strip(lr); !ok || !w.allRegs || w.code.notCalled(lr) {
		return false
	}
	pushed, edge := w.code.edge(w.regs.IP())
	at := lr - 1
	if inMapping := at >= w.m.Start && at < w.m.End; !edge && inMapping &&
		(w.m.Object == nil || !w.m.Object.covers(at-w.m.Bias)) {
		return false
	}
	return w.reach(lr, w.regs.SP()+pushed, w.regs.framePointer())
}

// edge reports whether the code at ip is the beginning of a function, before x29 is changed, or its end, after x29 is
// restored. pushed is the number of bytes that the function has on the stack.
func (c *code) edge(ip uint64) (pushed uint64, ok bool) {
	b := c.at(ip-8, 16)
	if b == nil {
		return 0, false
	}
	second, before := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	at, next := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	switch {
	case isSetFP(at) && isPushPair(before):
		return pairBytes(before), true
	case isSetFP(at) && isStorePair(before) && isSubSP(second):
		return immediate(second), true
	case isStorePair(at) && isSubSP(before):
		return immediate(before), true
	case isAddSP(at) && (isRet(next) || isAuthenticate(next)):
		return immediate(at), true
	}
	return 0, isRet(at) || isSign(at) || isAuthenticate(at) || isBTIC(at) || isPushPair(at)
}

// covers reports whether there is CFI for an address.
func (o *Object) covers(vaddr uint64) bool {
	if o.table != nil {
		return o.table.Lookup(vaddr).CFA != CFANone
	}
	f := o.full()
	return f != nil && f.find(vaddr) != nil
}

package unwind

import "encoding/binary"

// Instructions of arm64 at the beginning and the end of functions, with masks for those that have variants.
const (
	insnRet       = 0xd65f03c0
	insnRetSigned = 0xd65f0bff // retaa; retab has insnKeyB2
	insnPACIASP   = 0xd503233f // with insnKeyB: pacibsp
	insnAUTIASP   = 0xd50323bf
	insnBTIC      = 0xd503245f
	insnKeyB      = 0x40
	insnKeyB2     = 0x400

	insnPushPair, maskPushPair = 0xa9807bfd, 0xffc07fff // stp x29, x30, [sp, #-n]!
	insnSetFP, maskSetFP       = 0x910003fd, 0xffc003ff // add x29, sp, #n
)

// byLinkRegister steps out of a function without CFI whose return address is in the link register. The BPF program does
// the same (bpf/arm64code.h). In a function that has called others, the link register is the address after its last
// call, in the same function: then code without CFI contains that address too. Where the whole mapping has no CFI, only
// the function's first and last instructions distinguish the two.
func (w *walk) byLinkRegister() bool {
	lr, ok := w.regs.Get(w.regs.lr)
	if !ok || !w.allRegs {
		return false
	}
	lr = w.regs.strip(lr)
	pushed, edge := w.atEdge()
	if at := lr - 1; edge || at < w.m.Start || at >= w.m.End {
		ok = w.space.Mapping(at) != nil
	} else {
		ok = w.m.Object != nil && w.m.Object.covers(at-w.m.Bias)
	}
	if !ok {
		return false
	}
	w.regs.setIP(lr)
	w.regs.setSP(w.regs.SP() + pushed)
	w.regs.known &= w.regs.tracked()
	return true
}

// atEdge reports whether the code at ip is the beginning of a function, before x29 is changed, or its end. pushed is
// the number of bytes that the function has on the stack.
func (w *walk) atEdge() (pushed uint64, ok bool) {
	b := w.code(w.regs.IP()-4, 8)
	if b == nil {
		return 0, false
	}
	before, at := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	if at&maskSetFP == insnSetFP && before&maskPushPair == insnPushPair {
		return uint64(-(int32(before<<10) >> 25) * 8), true
	}
	switch {
	case at == insnRet, at&^insnKeyB2 == insnRetSigned, at&^insnKeyB == insnPACIASP, at&^insnKeyB == insnAUTIASP,
		at == insnBTIC, at&maskPushPair == insnPushPair:
		return 0, true
	}
	return 0, false
}

// covers reports whether there is CFI for an address.
func (o *Object) covers(vaddr uint64) bool {
	if o.table != nil {
		return o.table.Lookup(vaddr).CFA != CFANone
	}
	f := o.full()
	return f != nil && f.find(vaddr) != nil
}

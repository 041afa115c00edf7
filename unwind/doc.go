// Package unwind answers "how do I find the caller?": it turns the call frame
// information of an ELF file (.eh_frame, .debug_frame) into tables small enough
// for the kernel, and walks stacks in Go over registers and a copy of the stack.
// It reads no perf.data, attaches nothing and names no address: package bpf
// walks with the same tables in the kernel, package symbolize finds the names.
//
// Words, as DWARF 5 section 6.4 and the psABIs have them:
//
//	CIE, FDE   the two kinds of entry; an FDE covers a range of code, a CIE is what several share
//	row        how to find the caller's registers, in force from one address to the next row's
//	CFA        canonical frame address: rsp as it was before the call that made the frame
//	RA, FP     the return address and the frame pointer (rbp)
//	rule       what a row says about CFA, RA and FP, the three things that a walk needs
//
// # Tables
//
// A [Table] holds x86-64 code. Its addresses are vaddr (as the linker laid the
// file out), cut into pages of 64 KiB:
//
//	Base          number of the first page: vaddr >> 16 of the lowest code
//	Pages[i]      {First, N uint32}: rows Rows[First : First+N] belong to page Base+i; N is never 0
//	Rows[j]       {Off, Rule uint16}: from vaddr&0xffff = Off on, Rules[Rule] is in force; sorted by Off
//	Rules[k]      16 bytes, see Rule; Rules[0] is CFANone: no entry covers these addresses
//
// The first row of every page has Off 0, so a lookup never leaves its page: find
// the last row whose Off is not above the address. Neighbouring rows of a page
// differ. In C, all little-endian and without padding but the last two bytes:
//
//	struct row  { __u16 off, rule; };
//	struct page { __u32 first, n; };
//	struct rule { __u8 cfa, ra, fp, flags; __s32 cfa_off; __s16 cfa_off2, ra_off, fp_off; __u16 zero; };
//
// # A step
//
// With ip, sp and fp of a frame and its rule, the caller is found so (DWARF
// numbers: 6 is rbp, 7 is rsp, 16 is rip):
//
//	CFANone          no entry covers ip. It may be assembly, which leaves its caller's rbp alone: if
//	                 rbp is a frame pointer, it leads on; else the walk ends
//	CFAUnsupported   the walk ends: an entry that only full CFI, in Go, can follow
//	CFARSP           cfa = sp + CFAOff
//	CFARBP           cfa = fp + CFAOff
//	CFADerefRSP      cfa = *(sp + CFAOff) + CFAOff2
//	CFADerefRBP      cfa = *(fp + CFAOff) + CFAOff2
//	CFAPLT           cfa = sp + CFAOff + ((ip & 15) >= CFAOff2 ? 8 : 0)
//	CFAReg           cfa = register CFAOff2 + CFAOff, a register other than sp and fp: known only where
//	                 all registers are, in the innermost frame and in the one that a signal interrupted
//	CFASignal        ip, sp, fp are the interrupted ones, at sp+168, sp+160, sp+120 (the ucontext that
//	                 rt_sigreturn reads; all 16 registers and ip: see SignalFrame); RA and FP say nothing
//
//	RAUndefined      the walk has come to the end of the stack: this is the outermost frame. CFA says nothing
//	RAAtCFA          ip = *(cfa + RAOff), nearly always -8
//	RAReg            ip = register RAOff; known as with CFAReg
//
//	FPSame           fp stays
//	FPAtCFA          fp = *(cfa + FPOff)
//	FPAtFP           fp = *(fp + FPOff)
//	FPAtSP           fp = *(sp + FPOff), the callee's sp
//	FPUndefined      fp is lost
//	FPReg            fp = register FPOff; known as with CFAReg
//
//	sp = cfa
//
// A rule with FlagConvention follows from no CFI: with CFARBP and an fp of 0, it
// is the end of the stack, and its CFA may lie on another stack, as where Go
// calls C. Else the CFA is above sp, unless a signal has come in between.
//
// A return address is looked up at ip-1, since the call may be its function's
// last instruction. An ip that was sampled, or that a frame with FlagSignal
// (any CFASignal) gives, is looked up as it is.
package unwind

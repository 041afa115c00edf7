// Package unwind finds callers: it converts the call frame information of an ELF file (.eh_frame, .debug_frame) to
// tables small enough for the kernel, and walks stacks in Go, from registers and a copy of the stack. Package bpf
// walks with the same tables in the kernel; package symbolize names the addresses.
//
// Terms of DWARF 5 section 6.4 and the psABIs:
//
//	CIE, FDE   the two kinds of entry; an FDE covers a range of code, a CIE is the common part of several FDEs
//	row        how to find the caller's registers, in force from one address to the next row's
//	CFA        canonical frame address: sp as it was before the call that made the frame
//	RA, FP     the return address and the frame pointer (rbp, x29)
//	rule       how a row finds CFA, RA and FP, which a walk needs
//
// # Tables
//
// A [Table] describes code of x86-64 or arm64. Its addresses are vaddrs, divided into pages of 64 KiB:
//
//	Base          number of the first page: vaddr >> 16 of the lowest code
//	Pages[i]      {First, N uint32}: rows Rows[First : First+N] belong to page Base+i; N is never 0
//	Rows[j]       {Off, Rule uint16}: from vaddr&0xffff = Off on, Rules[Rule] is in force; sorted by Off
//	Rules[k]      16 bytes, see Rule; Rules[0] is CFANone: no entry covers these addresses
//
// The first row of every page has Off 0, so a lookup never leaves its page: it finds the last row with an Off not above
// the address. Adjacent rows of a page differ, except where an FDE ends: a row begins there. In C, little-endian and
// with no padding except the last two bytes:
//
//	struct row  { __u16 off, rule; };
//	struct page { __u32 first, n; };
//	struct rule { __u8 cfa, ra, fp, flags; __s32 cfa_off; __s16 cfa_off2, ra_off, fp_off; __u16 zero; };
//
// # A step
//
// A step computes the caller's ip, sp and fp from a frame's and its rule. The names of rules are x86-64's: RSP
// is sp, RBP is fp. DWARF numbers: 6 is rbp, 7 is rsp, 16 is rip; 29 is x29, 30 is x30, the link register, 31 is sp.
//
//	CFANone          no entry covers ip: assembly, V8's builtins, and outside of tables code made at run time. If the
//	                 next instructions show the return address (an epilogue, a prologue, CPython's
//	                 trampolines), the walk continues with it; otherwise with fp if that is a frame pointer,
//	                 or else with a return address near sp. Without FlagFramed, the word at sp comes first.
//	                 On arm64, the link register comes first, if it can be the return address.
//	                 These attempts need code at the caller's address; if all fail, the walk ends
//	CFAUnsupported   the walk ends: the entry needs full CFI, in Go
//	CFARSP           cfa = sp + CFAOff
//	CFARBP           cfa = fp + CFAOff
//	CFADerefRSP      cfa = *(sp + CFAOff) + CFAOff2
//	CFADerefRBP      cfa = *(fp + CFAOff) + CFAOff2
//	CFAPLT           cfa = sp + CFAOff + ((ip & 15) >= CFAOff2 ? 8 : 0)
//	CFAReg           cfa = register CFAOff2 + CFAOff, a register other than sp and fp: known if
//	                 all registers are, in the innermost frame and in one that a signal interrupted.
//	                 In their callers, a register that functions need not preserve has the same
//	                 value: such CFI means that the functions called there preserve it
//	CFASignal        ip, sp, fp are the interrupted ones, in the frame that rt_sigreturn reads: x86-64's
//	                 ucontext at sp, with ip at sp+168, or arm64's siginfo at sp and ucontext at sp+128;
//	                 RA and FP are unused
//
//	CFAGoroutine     cfa = sched.sp + CFAOff, of the goroutine of Go's thread: the register of Go's g has a g, its
//	                 g.m the thread, and the word at CFAOff2 of that the goroutine. If there is none, the thread
//	                 runs Go's scheduler, and the walk ends
//
//	RAUndefined      an entry point: this is the outermost frame, and the stack is complete; CFA is unused
//	RAAtCFA          ip = *(cfa + RAOff), nearly always -8
//	RAReg            ip = register RAOff, such as the link register; known as with CFAReg
//	RAAtSP           ip = *(sp + RAOff), the callee's sp
//	RAAtFP           ip = *(fp + RAOff)
//	RAGoroutine      ip = sched.pc of the goroutine; on arm64, its sched.lr is the link register
//
//	FPSame           fp is unchanged
//	FPAtCFA          fp = *(cfa + FPOff)
//	FPAtFP           fp = *(fp + FPOff)
//	FPAtSP           fp = *(sp + FPOff), the callee's sp
//	FPUndefined      fp is lost
//	FPReg            fp = register FPOff; known as with CFAReg
//	FPGoroutine      fp = sched.bp of the goroutine, at FPOff of its g
//
//	sp = cfa
//
// On arm64, ip may be signed: the walk masks the signature off.
//
// A rule with FlagConvention is not from CFI. Its CFA may be on another stack, for example where Go calls C. With RAReg
// and an unknown register, the step is by frame pointer. For other rules the CFA is above sp, except across a signal
// frame.
//
// A return address of 0 ends the walk, and so does a frame pointer of 0 where one is needed: neither is an entry point,
// except a frame pointer of 0 in arm64 code without CFI, as AAPCS64 says.
//
// A rule with FlagInferred is not from CFI either, but from the code's instructions. The walk in the kernel requires
// that a call instruction precedes the return address.
//
// Look a return address up at ip-1: the call may be its function's last instruction. Look a sampled ip, or the ip from
// a frame with FlagSignal (such as any CFASignal), up unchanged.
package unwind

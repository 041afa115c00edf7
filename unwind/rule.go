package unwind

// CFA says how a rule finds the canonical frame address; see the formulas in the package comment.
type CFA uint8

//bpf:enum CFA CFA_
const (
	CFANone        CFA = iota // no entry covers the address
	CFARSP                    // sp + CFAOff
	CFARBP                    // fp + CFAOff
	CFADerefRSP               // *(sp + CFAOff) + CFAOff2
	CFADerefRBP               // *(fp + CFAOff) + CFAOff2
	CFAPLT                    // sp + CFAOff + ((ip & 15) >= CFAOff2 ? 8 : 0)
	CFAReg                    // register CFAOff2 + CFAOff
	CFASignal                 // the frame that rt_sigreturn restores
	CFAUnsupported            // an entry that a rule cannot express
	CFAGoroutine              // sp of the goroutine that Go's thread runs + CFAOff
	numCFA
)

// RA says how a rule finds the return address.
type RA uint8

//bpf:enum RA RA_
const (
	RAAtCFA     RA = iota // *(cfa + RAOff)
	RAUndefined           // nowhere: the end of the stack
	RAReg                 // in register RAOff
	RAAtSP                // *(sp + RAOff), the callee's sp
	RAAtFP                // *(fp + RAOff)
	RAGoroutine           // ip of the goroutine, with CFAGoroutine
	numRA
)

// FP says how a rule finds the caller's rbp.
type FP uint8

//bpf:enum FP FP_
const (
	FPSame      FP = iota // unchanged
	FPAtCFA               // *(cfa + FPOff)
	FPAtFP                // *(fp + FPOff)
	FPAtSP                // *(sp + FPOff), the callee's sp
	FPUndefined           // lost
	FPReg                 // in register FPOff
	FPGoroutine           // frame pointer of the goroutine, with CFAGoroutine
	numFP
)

// Flags of a rule.
type Flags uint8

//bpf:enum Flag FLAG_
const (
	// FlagSignal means that a signal interrupted the caller: its ip is not a return address.
	FlagSignal Flags = 1 << iota
	// FlagConvention means that the rule is not from CFI, but from a convention of the code: Go's frame pointers,
	// procedure linkage tables, the entry point.
	FlagConvention
	// FlagFramed, with CFANone, means that the code has made its frame: its frame pointer is likelier right than words
	// near sp.
	FlagFramed
	// FlagInferred means that the rule is not from CFI, but from the instructions of the code: see infer.
	FlagInferred
	// FlagFiber, with RAUndefined, means that a fiber begins there, on a stack of its own: other code resumed it.
	FlagFiber
)

// Rule says how a row finds CFA, RA and FP.
//
//bpf:struct rule
type Rule struct {
	CFA     CFA
	RA      RA
	FP      FP
	Flags   Flags
	CFAOff  int32
	CFAOff2 int16
	RAOff   int16
	FPOff   int16
	Last    uint16 // 0 in tables; BPF's caches of rules: the address is the last one of the row
}

// Offsets in bytes in the frame that rt_sigreturn restores, from the sp at its call (struct
// ucontext of x86-64: uc_mcontext is at 40).
const (
	SignalRBP = 120
	SignalRSP = 160
	SignalRIP = 168
)

var (
	ruleUnsupported = Rule{CFA: CFAUnsupported}
	// ruleCut ends the walk, as one that is cut: neither a rule nor the CFI shows the caller.
	ruleCut    = Rule{CFA: CFAUnsupported, Flags: FlagConvention}
	ruleSignal = Rule{CFA: CFASignal, Flags: FlagSignal}
	ruleEnd    = Rule{CFA: CFARSP, RA: RAUndefined}
	// ruleFP steps by frame pointer: the return address follows the saved rbp.
	ruleFP = Rule{CFA: CFARBP, CFAOff: 16, RAOff: -8, FP: FPAtCFA, FPOff: -16, Flags: FlagConvention}
)

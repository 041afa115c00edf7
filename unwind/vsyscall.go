package unwind

// Vsyscall32 is the code of the vDSO that 32-bit programs of x86 enter the kernel by, __kernel_vsyscall: it pushes ecx,
// edx and ebp before. Recordings do not contain this vDSO, and the kernel of another machine has another one.
type Vsyscall32 struct{}

// Caller implements Code.
func (Vsyscall32) Caller(regs *Regs, mem Memory, returned bool) bool {
	sp := regs.SP()
	fp, ok1 := mem.Word(sp)
	ra, ok2 := mem.Word(sp + 12)
	if returned || !ok1 || !ok2 || ra == 0 {
		return false
	}
	regs.setIP(ra)
	regs.setSP(sp + 16)
	regs.setFP(fp)
	return true
}

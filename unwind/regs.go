package unwind

import (
	"debug/elf"
)

// DWARF numbers of registers (psABI of x86-64, figure 3.36; of i386, table 2.14; aadwarf64).
const (
	x86RBP = 6
	x86RSP = 7
	x86RIP = 16

	i386ESP = 4
	i386EBP = 5
	i386EIP = 8

	arm64FP     = 29
	arm64LR     = 30
	arm64SP     = 31
	arm64RASign = 34 // RA_SIGN_STATE
)

// abi are the registers of a machine, by DWARF number.
type abi struct {
	columns int // of the rows of CFI
	ra      int // column of the return address
	fp, sp  int
	ip      int    // in a walk; where the machine's ip has no DWARF number, an additional one
	lr      int    // link register: holds a function's return address until the function saves it; -1: none
	g       int    // holds the address of Go's g, in Go's code
	general int    // the general registers and sp are those below this number
	saved   uint64 // bits of the registers that functions preserve
	word    uint64 // bytes of a pointer
	below   uint64 // bytes that a frame uses below sp: Go's arm64 code saves x29 there
	ipMask  uint64 // bits of an ip; the others of a return address may be a signature (pointer authentication)

	context     uint64 // offset of the interrupted code's registers from sp, at the call of rt_sigreturn
	contextRegs []int  // their numbers, in the order of struct sigcontext
}

// On x86-64, struct ucontext is at sp, and in it after 40 bytes struct sigcontext. On arm64,
// struct siginfo of 128 bytes precedes it; the registers x0 to x30, sp and pc follow 184 bytes of it.
// User-space addresses of arm64 with more than 48 bits are rare.
var (
	x86ABI = abi{columns: x86Regs, ra: x86RIP, fp: x86RBP, sp: x86RSP, ip: x86RIP, lr: -1, g: 14, general: x86RIP,
		saved:  1<<3 | 1<<x86RBP | 0xf<<12, // rbx, rbp, r12 to r15
		ipMask: ^uint64(0), word: 8,
		context: 40, contextRegs: []int{8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16}}
	arm64ABI = abi{columns: arm64Regs, ra: arm64LR, fp: arm64FP, sp: arm64SP, ip: arm64PC, lr: arm64LR, g: 28,
		general: arm64PC, saved: 0xfff << 18, // x18 to x29
		below: 16, ipMask: 1<<48 - 1, word: 8,
		context: 128 + 184, contextRegs: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
			20, 21, 22, 23, 24, 25, 26, 27, 28, arm64FP, arm64LR, arm64SP, arm64PC}}
	// There are no tables for i386: walks use the CFI itself, which describes signal frames, too.
	i386ABI = abi{columns: 41, ra: i386EIP, fp: i386EBP, sp: i386ESP, ip: i386EIP, lr: -1, general: i386EIP,
		saved:  1<<3 | 1<<i386EBP | 3<<6, // ebx, ebp, esi, edi
		ipMask: 1<<32 - 1, word: 4}
)

// strip removes the signature from a return address.
func (a *abi) strip(ra uint64) uint64 { return ra & a.ipMask }

// abiOf returns a machine's registers, or nil if the machine is unknown.
func abiOf(m elf.Machine) *abi {
	switch m {
	case elf.EM_X86_64:
		return &x86ABI
	case elf.EM_AARCH64:
		return &arm64ABI
	case elf.EM_386:
		return &i386ABI
	}
	return nil
}

// Registers that a walk keeps: for x86-64 those up to rip, for arm64 x0 to x30, sp and, in an additional column, pc.
const (
	arm64PC  = 32
	walkRegs = 33
)

// Regs are the registers of a frame by DWARF number.
type Regs struct {
	abi   *abi
	known uint64 // bit n: v[n] is known
	v     [walkRegs]uint64
}

// NewRegs returns registers of x86-64 or arm64 with the three that every walk needs. On arm64, fp is x29.
func NewRegs(m elf.Machine, ip, sp, fp uint64) Regs {
	r := Regs{abi: abiOf(m)}
	r.setIP(ip)
	r.setSP(sp)
	r.setFP(fp)
	return r
}

// AllRegs returns the registers of a machine, from 0 to the ip, by their DWARF numbers.
func AllRegs(m elf.Machine, values []uint64) Regs {
	r := Regs{abi: abiOf(m)}
	for n, v := range values {
		r.Set(n, v)
	}
	return r
}

// Set sets a register by its DWARF number. The number of arm64's pc is 32.
func (r *Regs) Set(n int, v uint64) {
	if n >= 0 && n < walkRegs {
		r.v[n] = v
		r.known |= 1 << n
	}
}

// Get returns a register by its DWARF number. ok is false if it is unknown.
func (r *Regs) Get(n int) (v uint64, ok bool) {
	if n < 0 || n >= walkRegs || r.known>>n&1 == 0 {
		return 0, false
	}
	return r.v[n], true
}

// IP, SP and FP return the instruction, stack and frame pointer.
func (r *Regs) IP() uint64 { return r.v[r.abi.ip] }
func (r *Regs) SP() uint64 { return r.v[r.abi.sp] }
func (r *Regs) FP() uint64 { return r.v[r.abi.fp] }

func (r *Regs) setIP(v uint64) { r.Set(r.abi.ip, v) }
func (r *Regs) setSP(v uint64) { r.Set(r.abi.sp, v) }
func (r *Regs) setFP(v uint64) { r.Set(r.abi.fp, v) }

// x86PerfRegs are the DWARF numbers of x86-64 registers in the order of
// arch/x86/include/uapi/asm/perf_regs.h; -1 for flags and segments.
var x86PerfRegs = [...]int8{
	0, 3, 2, 1, 4, 5, 6, 7, 16, -1, -1, -1, -1, -1, -1, -1, 8, 9, 10, 11, 12, 13, 14, 15,
}

// i386PerfRegs are the registers of i386 in the same order.
var i386PerfRegs = [...]int8{0, 3, 1, 2, 6, 7, 5, 4, 8}

// perfRegs are the DWARF numbers of a machine's registers in perf's order; nil: they are the same.
var perfRegs = map[elf.Machine][]int8{elf.EM_X86_64: x86PerfRegs[:], elf.EM_386: i386PerfRegs[:]}

// PerfRegs returns the registers of a sample: values has one for each bit of mask, in the order of the machine's
// asm/perf_regs.h. It returns false if ip, sp or fp is missing, or the machine is not x86-64, i386 or arm64.
func PerfRegs(m elf.Machine, mask uint64, values []uint64) (r Regs, ok bool) {
	if r.abi = abiOf(m); r.abi == nil {
		return r, false
	}
	for bit := 0; mask != 0 && len(values) > 0; bit++ {
		if mask&1 != 0 {
			n := bit // arm64 numbers x0 to x30, sp and pc as Regs does
			if numbers := perfRegs[m]; numbers != nil {
				n = -1
				if bit < len(numbers) {
					n = int(numbers[bit])
				}
			}
			r.Set(n, values[0])
			values = values[1:]
		}
		mask >>= 1
	}
	need := uint64(1)<<r.abi.ip | 1<<r.abi.sp
	return r, r.known&need == need
}

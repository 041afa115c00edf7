package fields

import "strconv"

// Names, indexed by the bit in sample_regs_user and sample_regs_intr
// (arch/*/include/uapi/asm/perf_regs.h).
var (
	registersX86 = []string{"AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS",
		"DS", "ES", "FS", "GS",
		"R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"}
	registersARM = []string{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "fp",
		"ip", "sp", "lr", "pc"}
)

const (
	firstXMM        = 32 // PERF_REG_X86_XMM0; each takes two bits
	unknownRegister = "unknown"
)

// RegisterName returns the name of the register at a bit of the masks. arch is perf's name
// of the architecture: x86, arm64 or arm. The result is "unknown" for other bits.
func RegisterName(arch string, bit int) string {
	switch {
	case arch == "x86" && bit >= firstXMM:
		return "XMM" + strconv.Itoa((bit-firstXMM)/2)
	case arch == "x86" && bit < len(registersX86):
		return registersX86[bit]
	case arch == "arm64":
		return registerARM64(bit)
	case arch == "arm" && bit < len(registersARM):
		return registersARM[bit]
	}
	return unknownRegister
}

func registerARM64(bit int) string {
	switch {
	case bit < 30:
		return "x" + strconv.Itoa(bit)
	case bit == 30:
		return "lr"
	case bit == 31:
		return "sp"
	case bit == 32:
		return "pc"
	case bit == 46:
		return "vg"
	}
	return unknownRegister
}

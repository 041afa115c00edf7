package script

import (
	"math/bits"
	"runtime"
	"strconv"
	"strings"

	"gperf/format"
)

// Register names by their bit in sample_regs_user and sample_regs_intr
// (arch/*/include/uapi/asm/perf_regs.h).
var (
	registersX86 = []string{"AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS", "GS",
		"R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"}
	registersARM = []string{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "fp", "ip", "sp", "lr", "pc"}
)

// registerNames returns the names of registers of the machine that f was recorded
// on, "unknown" for those that have none.
func registerNames(f *format.File) func(int) string {
	switch archOf(f) {
	case "x86":
		return registerX86
	case "arm64":
		return registerARM64
	case "arm":
		return func(bit int) string { return nameOf(registersARM, bit) }
	}
	return func(int) string { return unknownRegister }
}

const unknownRegister = "unknown"

// archOf returns perf's name of the architecture, of this machine where the file
// does not tell.
func archOf(f *format.File) string {
	arch := f.String(format.FeatureArch)
	switch {
	case arch == "":
		return map[string]string{"amd64": "x86", "386": "x86"}[runtime.GOARCH] + map[string]string{"arm64": "arm64", "arm": "arm"}[runtime.GOARCH]
	case arch == "x86_64", len(arch) == 4 && arch[0] == 'i' && arch[2:] == "86":
		return "x86"
	case arch == "aarch64", arch == "arm64":
		return "arm64"
	case strings.HasPrefix(arch, "arm"), strings.HasPrefix(arch, "sa110"):
		return "arm"
	}
	return arch
}

func nameOf(names []string, bit int) string {
	if bit < len(names) {
		return names[bit]
	}
	return unknownRegister
}

// firstXMM is PERF_REG_X86_XMM0; each takes two bits.
const firstXMM = 32

func registerX86(bit int) string {
	if bit >= firstXMM {
		return "XMM" + strconv.Itoa((bit-firstXMM)/2)
	}
	return nameOf(registersX86, bit)
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

// appendRegs appends the registers of mask with their values.
func (p *printer) appendRegs(b []byte, abi, mask uint64, values format.Words) []byte {
	b = append(b, " ABI:"...)
	b = append(strconv.AppendUint(b, abi, 10), ' ')
	for i := 0; mask != 0 && i < values.Len(); i++ {
		name := p.regs(bits.TrailingZeros64(mask))
		b = append(appendBlanks(b, 5-len(name)), name...)
		b = append(b, ":0x"...)
		b = append(strconv.AppendUint(b, values.At(i), 16), ' ')
		mask &= mask - 1
	}
	return b
}

package script

import (
	"math/bits"
	"runtime"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/format/fields"
	"gperf/internal/text"
)

// registerNames returns the names of the registers of the machine that f was recorded on.
func registerNames(f *format.File) func(int) string {
	arch := archOf(f)
	return func(bit int) string { return fields.RegisterName(arch, bit) }
}

// archOf returns perf's name of the file's architecture, or of this machine if
// the file has none.
func archOf(f *format.File) string {
	arch := f.String(format.FeatureArch)
	switch {
	case arch == "":
		return map[string]string{"amd64": "x86", "386": "x86"}[runtime.GOARCH] +
			map[string]string{"arm64": "arm64", "arm": "arm"}[runtime.GOARCH]
	case arch == "x86_64", len(arch) == 4 && arch[0] == 'i' && arch[2:] == "86":
		return "x86"
	case arch == "aarch64", arch == "arm64":
		return "arm64"
	case strings.HasPrefix(arch, "arm"), strings.HasPrefix(arch, "sa110"):
		return "arm"
	}
	return arch
}

// appendRegs appends the registers of mask with their values.
func (p *printer) appendRegs(b []byte, abi, mask uint64, values format.Words) []byte {
	b = append(b, " ABI:"...)
	b = append(strconv.AppendUint(b, abi, 10), ' ')
	for i := 0; mask != 0 && i < values.Len(); i++ {
		name := p.regs(bits.TrailingZeros64(mask))
		b = append(text.AppendBlanks(b, 5-len(name)), name...)
		b = append(b, ":0x"...)
		b = append(strconv.AppendUint(b, values.At(i), 16), ' ')
		mask &= mask - 1
	}
	return b
}

package record

import (
	"fmt"
	"math/bits"
	"runtime"
	"strings"

	"gperf/format"
	"gperf/format/fields"
	"gperf/record/perfevent"
)

// perfArch is perf's name of this machine's architecture.
var perfArch = map[string]string{"amd64": "x86", "386": "x86", "arm64": "arm64", "arm": "arm"}[runtime.GOARCH]

// unwindRegs are the registers without which a stack dump cannot be unwound: the instruction
// pointer and the stack pointer.
var unwindRegs = map[string]uint64{"amd64": 1<<8 | 1<<7, "386": 1<<8 | 1<<7, "arm64": 1<<32 | 1<<31,
	"arm": 1<<15 | 1<<13, "riscv64": 1<<0 | 1<<2, "ppc64le": 1<<32 | 1<<1,
	"loong64": 1<<0 | 1<<3}[runtime.GOARCH]

// vectorRegs are x86's XMM registers (PERF_REG_EXTENDED_MASK), which some PMUs record
// with precise samples.
const vectorRegs = 0xffffffff00000000

// UserRegisters returns the mask of the registers that samples can have of user space.
func UserRegisters() uint64 { return userRegs[runtime.GOARCH] }

// IntrRegisters returns the mask of the registers that samples can have of the interrupted
// code.
func IntrRegisters() uint64 {
	mask := UserRegisters()
	if perfArch != "x86" {
		return mask
	}
	a := format.Attr{Type: format.TypeHardware, Config: format.HWCycles, SamplePeriod: 1,
		SampleType:     format.SampleRegsIntr,
		SampleRegsIntr: vectorRegs, Flags: (format.FlagExcludeKernel).WithPreciseIP(1)}
	if perfevent.Try(a, false) == nil {
		mask |= vectorRegs
	}
	return mask
}

// RegistersError lists the available registers: after a wrong name, or on request with Wrong
// empty.
type RegistersError struct {
	Wrong     string
	Available []string
}

func (e *RegistersError) Error() string {
	list := "available registers: " + strings.Join(e.Available, " ")
	if e.Wrong == "" {
		return list
	}
	return fmt.Sprintf("unknown register %q; %s", e.Wrong, list)
}

// ParseRegisters parses a comma-separated list of registers, such as "ax,sp". "?" returns the
// available registers as a *RegistersError.
func ParseRegisters(list string, available uint64) (mask uint64, err error) {
	bit := map[string]uint64{}
	var names []string
	for rest := available; rest != 0; rest &= rest - 1 {
		name := fields.RegisterName(perfArch, bits.TrailingZeros64(rest))
		if bit[strings.ToLower(name)] == 0 {
			names = append(names, name)
		}
		bit[strings.ToLower(name)] |= rest & -rest
	}
	if list == "?" {
		return 0, &RegistersError{Available: names}
	}
	for name := range strings.SplitSeq(list, ",") {
		b := bit[strings.ToLower(name)]
		if b == 0 {
			return 0, &RegistersError{name, names}
		}
		mask |= b
	}
	return mask, nil
}

// machineState requests registers and branches for samples.
func (o *plan) machineState(a *format.Attr) {
	if o.Samples.IntrRegs != 0 {
		a.SampleType |= format.SampleRegsIntr
		a.SampleRegsIntr = o.Samples.IntrRegs
	}
	if o.Samples.UserRegs != 0 {
		a.SampleType |= format.SampleRegsUser
		a.SampleRegsUser = o.Samples.UserRegs
		if a.SampleType&format.SampleStackUser != 0 {
			a.SampleRegsUser |= unwindRegs
		}
	}
	if o.Samples.Branches != 0 {
		a.SampleType |= format.SampleBranchStack
		a.BranchSampleType = uint64(o.Samples.Branches)
	}
}

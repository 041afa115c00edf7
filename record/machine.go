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

// Registers and taken branches of the machine, for samples.

// perfArch is perf's name of this machine's architecture.
var perfArch = map[string]string{"amd64": "x86", "arm64": "arm64"}[runtime.GOARCH]

// unwindRegs are the registers without which a stack dump cannot be unwound: the instruction
// pointer and the stack pointer.
var unwindRegs = map[string]uint64{"amd64": 1<<8 | 1<<7, "arm64": 1<<32 | 1<<31}[runtime.GOARCH]

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

// Branches selects the taken branches in samples: attr.branch_sample_type (enum
// perf_branch_sample_type).
type Branches uint64

// branchFilters are the names of -j, in the order of their bits.
var branchFilters = []string{"u", "k", "hv", "any", "any_call", "any_ret", "ind_call", "abort_tx",
	"in_tx", "no_tx", "cond",
	"stack", "ind_jmp", "call", "no_flags", "no_cycles", "save_type", "hw_index", "priv", "counter"}

const (
	branchLevels Branches = 1<<3 - 1 // u, k, hv
	AnyBranch    Branches = 1 << 3
	// CallStacks makes the PMU's branch records hold the callers of the sampled code in
	// user space (perf's --call-graph lbr).
	CallStacks Branches = 1<<0 | 1<<11 | 1<<14 | 1<<15 | 1<<17
)

// ParseBranches parses the comma-separated filters of -j. Privilege levels alone select any
// branch at the event's own levels, as in perf.
func ParseBranches(list string) (Branches, error) {
	var b Branches
	for name := range strings.SplitSeq(list, ",") {
		i := branchFilter(name)
		if i < 0 {
			return 0, fmt.Errorf("unknown branch filter %q: there are %s", name, strings.Join(branchFilters, ", "))
		}
		b |= 1 << i
	}
	if b&^branchLevels == 0 {
		return AnyBranch, nil
	}
	return b, nil
}

func branchFilter(name string) int {
	for i, f := range branchFilters {
		if f == strings.ToLower(name) {
			return i
		}
	}
	return -1
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

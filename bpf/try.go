package bpf

import (
	"runtime"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
)

// Try loads the smallest program for a perf event. It returns ErrNoPrograms, ErrNotSupported if the kernel
// does not support these, and EPERM if this user may not load them.
func Try() error {
	if !compiled {
		return ErrNoPrograms
	}
	return features.HaveProgramType(ebpf.PerfEvent)
}

// TryKprobeMulti attaches a program to many functions at once; it returns the same errors.
func TryKprobeMulti() error {
	if !compiled {
		return ErrNoPrograms
	}
	return features.HaveBPFLinkKprobeMulti()
}

// ErrNotSupported means that the kernel does not support a feature.
var ErrNotSupported = ebpf.ErrNotSupported

// compiled is whether the programs were compiled for this architecture, as gen.go says.
const compiled = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64"

// ErrNoPrograms means that gperf has no BPF programs for this architecture.
var ErrNoPrograms error = noPrograms{}

type noPrograms struct{}

func (noPrograms) Error() string { return "gperf has no BPF programs for " + runtime.GOARCH }

// Hint says where there are programs.
func (noPrograms) Hint() string { return "It has them for amd64 and arm64.\n" }

// haveTailCalls reports whether programs with functions may make tail calls: on x86-64 from Linux 5.10 on, on arm64
// from 6.0 on, if the JIT compiles programs.
var haveTailCalls = sync.OnceValue(func() bool {
	to, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return false
	}
	defer to.Close()
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.Call.Label("function"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, to.FD()),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("function"),
		asm.Return(),
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL", Instructions: ins})
	if err != nil {
		return false
	}
	p.Close()
	return true
})

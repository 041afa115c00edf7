package bpf

import (
	"runtime"

	"github.com/cilium/ebpf"
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

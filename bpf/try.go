package bpf

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
)

// Try loads the smallest program that a perf event takes. The error is ErrNotSupported
// where the kernel has none, and EPERM where this user may not.
func Try() error { return features.HaveProgramType(ebpf.PerfEvent) }

// TryKprobeMulti attaches a program to many functions at once, likewise.
func TryKprobeMulti() error { return features.HaveBPFLinkKprobeMulti() }

// ErrNotSupported: the kernel does not have it.
var ErrNotSupported = ebpf.ErrNotSupported

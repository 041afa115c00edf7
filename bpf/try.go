package bpf

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
)

// Try loads the smallest program for a perf event. It returns ErrNotSupported if the kernel
// does not support these, and EPERM if this user may not load them.
func Try() error { return features.HaveProgramType(ebpf.PerfEvent) }

// TryKprobeMulti attaches a program to many functions at once; it returns the same errors.
func TryKprobeMulti() error { return features.HaveBPFLinkKprobeMulti() }

// ErrNotSupported means that the kernel does not support a feature.
var ErrNotSupported = ebpf.ErrNotSupported

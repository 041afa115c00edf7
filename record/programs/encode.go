// This file encodes samples whose values come from BPF maps.

package programs

import (
	"encoding/binary"

	"gperf/bpf"
	"gperf/format"
)

// SampleType is the sample type of these samples, which may also include SampleCallchain and SampleRaw.
const SampleType = format.SampleIdentifier | format.SampleIP | format.SampleTID | format.SampleTime |
	format.SampleCPU | format.SamplePeriod

// LimitAttr removes the settings from an attr that these samples do not support, and adds the settings that all
// these samples need. optional are the sample types that remain if they are set.
func LimitAttr(a *format.Attr, optional format.SampleType) {
	a.SampleType = SampleType | a.SampleType&optional
	a.SampleRegsUser, a.SampleStackUser, a.SampleRegsIntr, a.BranchSampleType = 0, 0, 0, 0
}

// sampleOf returns a sample of an event with the kernel's part of its callchain. The ip is the innermost frame of
// the kernel, or the innermost frame of user space if kernel code is excluded or unknown.
func sampleOf(a *format.Attr, s *bpf.Stack) format.Sample {
	kernel := s.Kernel
	if a.Flags&format.FlagExcludeKernel != 0 {
		kernel = nil
	}
	one := format.Sample{Misc: format.MiscKernel, ID: a.IDs[0]}
	switch {
	case len(kernel) > 0:
		one.IP = binary.LittleEndian.Uint64(kernel)
	case len(s.User) > 0:
		one.Misc, one.IP = format.MiscUser, binary.LittleEndian.Uint64(s.User)
	}
	if a.Flags&format.FlagExcludeCallchainKernel != 0 {
		kernel = nil
	}
	if n := 8 * int(a.SampleMaxStack); n > 0 && len(kernel) > n {
		kernel = kernel[:n]
	}
	one.Callchain = kernelChain(kernel)
	return one
}

// kernelChain returns a callchain of kernel frames, 8 bytes each. The user frames may follow.
func kernelChain(frames []byte) (chain format.Words) {
	if len(frames) == 0 {
		return chain
	}
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(frames)), format.ContextKernel)
	return format.NewWords(append(b, frames...), format.LittleEndian)
}

// This file encodes samples whose values come from BPF maps.

package programs

import (
	"encoding/binary"

	"gperf/format"
)

// SampleType is the sample type of these samples, which may also have SampleCallchain and SampleRaw.
const SampleType = format.SampleIdentifier | format.SampleIP | format.SampleTID | format.SampleTime |
	format.SampleCPU | format.SamplePeriod

// LimitAttr removes the settings from an attr that these samples do not have, and adds those that they
// all have. optional are the sample types that remain if they are set.
func LimitAttr(a *format.Attr, optional format.SampleType) {
	a.SampleType = SampleType | a.SampleType&optional
	a.SampleRegsUser, a.SampleStackUser, a.SampleRegsIntr, a.BranchSampleType = 0, 0, 0, 0
}

// kernelChain returns a callchain of kernel frames, 8 bytes each. The user frames may follow.
func kernelChain(frames []byte) (chain format.Words) {
	if len(frames) == 0 {
		return chain
	}
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(frames)), format.ContextKernel)
	return format.NewWords(append(b, frames...), format.LittleEndian)
}

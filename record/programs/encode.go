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

// Sample is the values of a sample.
type Sample struct {
	Mode     format.Misc // CPU mode
	ID, IP   uint64
	PID, TID uint32
	Time     uint64
	CPU      uint32
	Period   uint64
	Kernel   []byte // frames of the callchain, 8 bytes each
	Raw      []byte
}

// Encode returns the record of a sample with this sample type. The callchain has no user frames yet.
func (s *Sample) Encode(t format.SampleType) []byte {
	le := binary.LittleEndian
	b := le.AppendUint64(nil, uint64(format.TypeSample)|uint64(s.Mode)<<32)
	b = le.AppendUint64(b, s.ID)
	b = le.AppendUint64(b, s.IP)
	b = le.AppendUint32(le.AppendUint32(b, s.PID), s.TID)
	b = le.AppendUint64(b, s.Time)
	b = le.AppendUint64(b, uint64(s.CPU))
	b = le.AppendUint64(b, s.Period)
	if t&format.SampleCallchain != 0 {
		b = appendChain(b, s.Kernel)
	}
	if t&format.SampleRaw != 0 { // its size, the data, and padding to 8 bytes
		size := (4+len(s.Raw)+7)&^7 - 4
		b = append(le.AppendUint32(b, uint32(size)), s.Raw...)
		b = append(b, make([]byte, size-len(s.Raw))...)
	}
	le.PutUint16(b[6:], uint16(len(b)))
	return b
}

// appendChain appends a callchain of kernel frames.
func appendChain(b, kernel []byte) []byte {
	le := binary.LittleEndian
	if len(kernel) == 0 {
		return le.AppendUint64(b, 0)
	}
	b = le.AppendUint64(b, 1+uint64(len(kernel)/8))
	b = le.AppendUint64(b, format.ContextKernel)
	return append(b, kernel...)
}

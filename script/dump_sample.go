package script

import (
	"fmt"
	"math/bits"

	"gperf/format"
)

// appendSample appends a sample and all that its event's sample_type holds.
func (d *dumper) appendSample(b []byte, raw format.Raw) []byte {
	s := &d.sample
	if err := d.file.Sample(raw, s); err != nil {
		return d.appendError(b, raw, err)
	}
	a := &d.file.Attrs[s.Event]
	st := a.SampleType
	if st&format.SampleCPU != 0 {
		b = fmt.Appendf(b, "%d ", int32(s.CPU))
	}
	if st&format.SampleTime != 0 {
		b = fmt.Appendf(b, "%d ", s.Time)
	}
	b = fmt.Appendf(b, "PERF_RECORD_SAMPLE(IP, %#x): %d/%d: %#x period: %d addr: %#x\n", uint16(raw.Misc), s.PID, s.TID, s.IP, s.Period, s.Addr)
	b = fmt.Appendf(b, "... event: %s", d.file.EventName(s.Event))
	if st&(format.SampleID|format.SampleIdentifier) != 0 {
		b = fmt.Appendf(b, "  id: %d", s.ID)
	}
	if st&format.SampleStreamID != 0 {
		b = fmt.Appendf(b, "  stream id: %d", s.StreamID)
	}
	b = append(b, '\n')
	if st&format.SampleRead != 0 {
		b = appendCounters(append(b, "... sample_read:\n"...), format.ParseCounters(s.Read, a.ReadFormat))
	}
	if st&format.SampleCallchain != 0 {
		b = appendDumpedChain(append(b, "... FP chain:"...), s.Callchain)
	}
	if st&format.SampleBranchStack != 0 {
		b = appendDumpedBranches(b, s.Branch(a))
	}
	b = appendRegs(b, "user", st&format.SampleRegsUser != 0, s.UserRegsABI, a.SampleRegsUser, s.UserRegs)
	if st&format.SampleStackUser != 0 {
		b = fmt.Appendf(b, "... ustack: size %d\n", len(s.UserStack))
	}
	b = appendRegs(b, "intr", st&format.SampleRegsIntr != 0, s.IntrRegsABI, a.SampleRegsIntr, s.IntrRegs)
	if st&format.SampleRaw != 0 {
		b = fmt.Appendf(b, "... raw: size %d\n", len(s.Raw))
	}
	return appendScalars(b, st, s)
}

// appendScalars appends the fields of one word each.
func appendScalars(b []byte, st format.SampleType, s *format.Sample) []byte {
	for _, f := range [...]struct {
		bit   format.SampleType
		text  string
		value uint64
	}{
		{format.SampleWeight | format.SampleWeightStruct, "... weight: %#x\n", s.Weight},
		{format.SampleDataSrc, " . data_src: %#x\n", s.DataSrc},
		{format.SampleTransaction, "... transaction: %x\n", s.Transaction},
		{format.SamplePhysAddr, " .. phys_addr: %#x\n", s.PhysAddr},
		{format.SampleCgroup, " .. cgroup: %d\n", s.Cgroup},
		{format.SampleDataPageSize, " .. data page size: %d\n", s.DataPageSize},
		{format.SampleCodePageSize, " .. code page size: %d\n", s.CodePageSize},
	} {
		if st&f.bit != 0 {
			b = fmt.Appendf(b, f.text, f.value)
		}
	}
	return b
}

// contexts name the marks within a callchain.
var contexts = map[uint64]string{
	format.ContextHV: " (PERF_CONTEXT_HV)", format.ContextKernel: " (PERF_CONTEXT_KERNEL)", format.ContextUser: " (PERF_CONTEXT_USER)",
	format.ContextGuest: " (PERF_CONTEXT_GUEST)", format.ContextGuestKernel: " (PERF_CONTEXT_GUEST_KERNEL)",
	format.ContextGuestUser: " (PERF_CONTEXT_GUEST_USER)", format.ContextUserDeferred: " (PERF_CONTEXT_USER_DEFERRED)",
}

// appendDumpedChain appends a callchain, an address a line.
func appendDumpedChain(b []byte, w format.Words) []byte {
	b = fmt.Appendf(b, " nr:%d\n", w.Len())
	for i := range w.Len() {
		b = fmt.Appendf(b, "..... %2d: %016x%s\n", i, w.At(i), contexts[w.At(i)])
	}
	return b
}

// appendDumpedBranches appends the branches, newest first.
func appendDumpedBranches(b []byte, branches format.Branches) []byte {
	b = fmt.Appendf(b, "... branch stack: nr:%d\n", branches.Len())
	if i, ok := branches.HWIndex(); ok {
		b = fmt.Appendf(b, "..... hw_idx: %d\n", i)
	}
	for i := range branches.Len() {
		b = fmt.Appendf(b, "..... %2d: %016x -> %016x flags %#x\n", i, branches.From(i), branches.To(i), branches.Flags(i))
	}
	return b
}

// appendRegs appends registers by their number in the mask.
func appendRegs(b []byte, kind string, have bool, abi, mask uint64, w format.Words) []byte {
	if !have {
		return b
	}
	b = fmt.Appendf(b, "... %s regs: mask %#x ABI %d\n", kind, mask, abi)
	for i := 0; i < w.Len() && mask != 0; i++ {
		b = fmt.Appendf(b, ".... r%-2d %#018x\n", bits.TrailingZeros64(mask), w.At(i))
		mask &= mask - 1
	}
	return b
}

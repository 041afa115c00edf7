package script

import (
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"gperf/format"
	"gperf/format/fields"
	"gperf/internal/session"
)

// appendSample appends a sample and all that its event's sample_type holds.
func (d *dumper) appendSample(b []byte, raw format.Raw) []byte {
	s := &d.sample
	if err := d.file.Sample(raw, s); err != nil {
		return d.appendError(b, raw, err)
	}
	a := &d.file.Attrs[s.Event]
	st := a.SampleType
	cpu := s.CPU
	if st&format.SampleCPU == 0 {
		cpu = math.MaxUint32
	}
	b = d.appendWhen(b, cpu, s.Time)
	b = d.appendType(b, raw)
	b = fmt.Appendf(b, "(IP, %#x): %d/%d: %s period: %d addr: %s\n", uint16(raw.Misc), s.PID, s.TID, alternate(s.IP),
		s.Period, alternate(s.Addr))
	branches := s.Branch(a)
	callstack := st&format.SampleBranchStack != 0 && a.BranchSampleType&session.BranchCallStack != 0
	if st&format.SampleCallchain != 0 {
		if callstack && branches.Len() > 0 {
			b = appendLBRChain(b, s.Callchain, branches)
		}
		b = appendDumpedChain(append(b, "... FP chain:"...), s.Callchain)
	}
	switch {
	case callstack:
		b = fmt.Appendf(b, "... branch callstack: nr:%d\n", branches.Len()+1)
		b = appendCallers(b, 0, branches)
	case st&format.SampleBranchStack != 0:
		b = appendDumpedBranches(b, branches)
	}
	b = d.appendRegs(b, "user", s.UserRegsABI, a.SampleRegsUser, s.UserRegs)
	b = d.appendRegs(b, "intr", s.IntrRegsABI, a.SampleRegsIntr, s.IntrRegs)
	if st&format.SampleStackUser != 0 {
		b = fmt.Appendf(b, "... ustack: size %d, offset %#x\n", len(s.UserStack), stackOff(raw, s))
	}
	b = appendMemory(b, a, s)
	if st&format.SampleRead != 0 {
		b = appendCounters(append(b, "... sample_read:\n"...), format.ParseCounters(s.Read, a.ReadFormat))
	}
	return d.appendPlace(b, s)
}

// stackOff returns the offset in the record's body of the stack copy, a slice of which is in s.
func stackOff(raw format.Raw, s *format.Sample) uintptr {
	if s.UserStack == nil {
		return 0
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(raw.Data)))
	return uintptr(unsafe.Pointer(unsafe.SliceData(s.UserStack))) - start
}

// appendPlace appends the thread and DSO of the sample.
func (d *dumper) appendPlace(b []byte, s *format.Sample) []byte {
	th, m := d.session.Locate(s)
	dso := "<not found>"
	if m != nil {
		dso = m.DSO.Name
	}
	return fmt.Appendf(b, " ... thread: %s:%d\n ...... dso: %s\n", th.Comm, s.TID, dso)
}

// appendMemory appends the sample's fields of a memory access.
func appendMemory(b []byte, a *format.Attr, s *format.Sample) []byte {
	st := a.SampleType
	if st&(format.SampleWeight|format.SampleWeightStruct) != 0 {
		weight, first, second := s.Weights(a)
		b = fmt.Appendf(b, "... weight: %d", weight)
		if st&format.SampleWeightStruct != 0 {
			b = fmt.Appendf(b, ",%#x,%#x", first, second)
		}
		b = append(b, '\n')
	}
	if st&format.SampleDataSrc != 0 {
		b = fmt.Appendf(b, " . data_src: %#x\n", s.DataSrc)
	}
	if st&format.SamplePhysAddr != 0 {
		b = fmt.Appendf(b, " .. phys_addr: %#x\n", s.PhysAddr)
	}
	if st&format.SampleDataPageSize != 0 {
		b = append(appendPageSize(append(b, " .. data page size: "...), s.DataPageSize), '\n')
	}
	if st&format.SampleCodePageSize != 0 {
		b = append(appendPageSize(append(b, " .. code page size: "...), s.CodePageSize), '\n')
	}
	if st&format.SampleTransaction != 0 {
		b = fmt.Appendf(b, "... transaction: %x\n", s.Transaction)
	}
	return b
}

// contexts name the marks within a callchain.
var contexts = map[uint64]string{
	format.ContextHV: " (PERF_CONTEXT_HV)", format.ContextKernel: " (PERF_CONTEXT_KERNEL)",
	format.ContextUser:  " (PERF_CONTEXT_USER)",
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

// appendCallers appends the addresses of calls that the processor recorded, from n on.
func appendCallers(b []byte, n int, branches format.Branches) []byte {
	for i := range branches.Len() {
		if i == 0 {
			b = fmt.Appendf(b, "..... %2d: %016x\n", n, branches.To(0))
		}
		b = fmt.Appendf(b, "..... %2d: %016x\n", n+i+1, branches.From(i))
	}
	return b
}

// appendLBRChain appends the kernel's part of a callchain, and the program's as the
// processor recorded it.
func appendLBRChain(b []byte, chain format.Words, branches format.Branches) []byte {
	kernel := 0
	for kernel < chain.Len() && chain.At(kernel) != format.ContextUser {
		kernel++
	}
	if kernel == chain.Len() {
		return b
	}
	kernel++
	b = fmt.Appendf(b, "... LBR call chain: nr:%d\n", kernel+branches.Len()+1)
	for i := range kernel {
		b = fmt.Appendf(b, "..... %2d: %016x\n", i, chain.At(i))
	}
	return appendCallers(b, kernel, branches)
}

// appendDumpedBranches appends the branches, newest first.
func appendDumpedBranches(b []byte, branches format.Branches) []byte {
	b = fmt.Appendf(b, "... branch stack: nr:%d\n", branches.Len())
	for i := range branches.Len() {
		b = fmt.Appendf(b, "..... %2d: %016x -> %016x ", i, branches.From(i), branches.To(i))
		b = append(appendDumpedFlags(b, branchFlags(branches.Flags(i))), '\n')
	}
	return b
}

// appendDumpedFlags appends the flags of a branch, as branch_stack__printf of
// tools/perf does.
func appendDumpedFlags(b []byte, f branchFlags) []byte {
	kind := fields.BranchKind(uint64(f))
	missed, predicted, inTX, aborted := f.take(1), f.take(1), f.take(1), f.take(1)
	cycles, _, speculated, _ := f.take(16), f.take(4), f.take(2), f.take(4)
	b = fmt.Appendf(b, "%d cycles %c%c%c%c %x ", cycles, " M"[missed], " P"[predicted], " A"[aborted], " T"[inTX],
		uint32(f))
	b = append(b, fields.BranchKinds[kind]...)
	if b = append(b, ' '); speculated != 0 {
		b = append(b, speculations[speculated]...)
	}
	return b
}

// alternate is a number as C's %#x writes it.
func alternate(v uint64) string {
	if v == 0 {
		return "0"
	}
	return fmt.Sprintf("%#x", v)
}

// appendRegs appends the registers that the sample has, by their names.
func (d *dumper) appendRegs(b []byte, kind string, abi, mask uint64, w format.Words) []byte {
	if w.Len() == 0 {
		return b
	}
	names := [...]string{"none", "32-bit", "64-bit", "unknown"}
	b = fmt.Appendf(b, "... %s regs: mask %#x ABI %s\n", kind, mask, names[min(abi, 3)])
	for i := 0; i < w.Len() && mask != 0; i++ {
		b = fmt.Appendf(b, ".... %-5s %#016x\n", d.regs(bits.TrailingZeros64(mask)), w.At(i))
		mask &= mask - 1
	}
	return b
}

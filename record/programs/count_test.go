package programs

import (
	"encoding/binary"
	"testing"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/stacks"
)

// Tracepoints are counted without samples of the kernel, software events at each occurrence, clocks as the user says.
func TestLimit(t *testing.T) {
	for name, c := range map[string]struct {
		attr    format.Attr
		chosen  bool
		enabled bool
		freq    bool
		file    format.Attr // type, config and period of the event
	}{
		"tracepoint": {attr: format.Attr{Type: format.TypeTracepoint, Config: 7, SamplePeriod: 1},
			file: format.Attr{Type: format.TypeSoftware, Config: format.SWBPFOutput, SamplePeriod: 1}},
		"faults": {attr: format.Attr{Type: format.TypeSoftware, Config: format.SWPageFaults, SamplePeriod: 4000,
			Flags: format.FlagFreq}, enabled: true,
			file: format.Attr{Type: format.TypeSoftware, Config: format.SWPageFaults, SamplePeriod: 1}},
		"some faults": {attr: format.Attr{Type: format.TypeSoftware, Config: format.SWPageFaults, SamplePeriod: 99,
			Flags: format.FlagFreq}, chosen: true, enabled: true, freq: true,
			file: format.Attr{Type: format.TypeSoftware, Config: format.SWPageFaults, SamplePeriod: 99}},
		"clock": {attr: format.Attr{Type: format.TypeSoftware, Config: format.SWCPUClock, SamplePeriod: 4000,
			Flags: format.FlagFreq}, enabled: true, freq: true,
			file: format.Attr{Type: format.TypeSoftware, Config: format.SWCPUClock, SamplePeriod: 4000}},
	} {
		a := c.attr
		LimitCount(&a, c.chosen)
		if CounterEnabled(&a) != c.enabled || a.Flags&format.FlagFreq != 0 != c.freq {
			t.Errorf("%s: enabled %v, flags %x", name, CounterEnabled(&a), a.Flags)
		}
		if CountAttrForFile(&a); a.Type != c.file.Type || a.Config != c.file.Config ||
			a.SamplePeriod != c.file.SamplePeriod {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// The mark of a callchain is no frame of a stack.
func TestTakeStack(t *testing.T) {
	r := &Counter{opts: CounterOptions{Attrs: []format.Attr{{SampleType: SampleType, IDs: []uint64{5}}}},
		stacks: newStackStore()}
	kernelContext := format.ContextKernel
	for hash, frames := range map[uint64][]uint64{1: {kernelContext, 0x10, 0x20}, 2: {0x10, 0x20}} {
		raw := binary.LittleEndian.AppendUint64(nil, hash)
		raw = binary.LittleEndian.AppendUint32(raw, uint32(len(frames)))
		raw = append(raw, make([]byte, 12)...) // no frames of the user's, and none of an interpreter
		for _, ip := range frames {
			raw = binary.LittleEndian.AppendUint64(raw, ip)
		}
		r.stacks.take(stacks.Output{Raw: raw})
		stack := r.stacks.known[hash]
		rec := r.sample(&count{Count: bpf.Count{Weight: 3}}, &stack, 0)
		if ip := binary.LittleEndian.Uint64(rec[16:]); len(stack.Kernel) != 16 || ip != 0x10 {
			t.Errorf("stack %d: frames %x, ip %x", hash, stack.Kernel, ip)
		}
	}
}

package programs

import (
	"encoding/binary"
	"slices"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/event"
	"gperf/record/probe/kernel"
)

// output describes the samples that the programs write to a BPF output event.
type output struct {
	layout     format.SampleLayout
	raw        map[uint64]bool        // of raw tracepoints, by number
	runners    func() kernel.Codes    // the functions that run tracepoints' programs
	spans      map[uint64]*event.Span // by number: the period is the duration
	packets    map[uint64]*packets    // by number
	dropping   kernel.Codes           // the functions whose callers dropped packets belong to
	dropKernel bool                   // spans are without the kernel's frames, unlike other events
	ipOnly     bool                   // the callchain is recorded for the sample's ip only
}

// outputAttr returns the attr of the BPF output event for the samples of the emitted events with these attrs,
// whose sample types are equal. locate is the number of the kernel's first frames to add, which locate a
// tracepoint.
func outputAttr(attrs []format.Attr, locate int) format.Attr {
	a := attrs[0]
	a.Type, a.Config, a.SamplePeriod = format.TypeSoftware, format.SWBPFOutput, 1
	a.Flags &= format.FlagUseClockID | format.FlagSampleIDAll | format.FlagExcludeCallchainUser |
		format.FlagExcludeCallchainKernel
	if slices.ContainsFunc(attrs, withKernelFrames) {
		a.Flags &^= format.FlagExcludeCallchainKernel
	}
	if a.SampleType&format.SampleCallchain == 0 && locate > 0 {
		a.SampleType |= format.SampleCallchain
		a.Flags |= format.FlagExcludeCallchainUser
		a.SampleMaxStack = uint16(locate)
	}
	return a
}

// withKernelFrames reports whether an event's callchains, if any, include the kernel's frames.
func withKernelFrames(a format.Attr) bool { return a.Flags&format.FlagExcludeCallchainKernel == 0 }

// rewrite turns a program's sample into a sample of the program's event. Other records stay unchanged: the file's
// reader reports them.
func (o *output) rewrite(rec []byte) []byte {
	le, l := binary.LittleEndian, &o.layout
	raw, chain := l.Raw(rec[format.HeaderSize:]), l.Callchain(rec[format.HeaderSize:])
	if raw < 0 || raw+4+2 > len(rec)-format.HeaderSize {
		return rec
	}
	raw += format.HeaderSize
	frames := uint64(0)
	if chain >= 0 {
		chain += format.HeaderSize
		frames = le.Uint64(rec[chain:])
	}
	number := uint64(le.Uint16(rec[raw+4:]))
	le.PutUint64(rec[format.HeaderSize+l.ID:], ID(number))
	if l.Period >= 0 {
		le.PutUint64(rec[format.HeaderSize+l.Period:], o.period(number, rec[raw+4:]))
	}
	packets := o.packets[number]
	if packets != nil {
		rec = packets.addTexts(rec, raw)
	}
	own := uint64(0)
	first := chain + 8 + 8 // first frame, after PERF_CONTEXT_KERNEL
	span := o.spans[number]
	isSyscall := span != nil && span.IsSyscalls()
	if o.raw[number] && frames > 1+ownFrames && le.Uint64(rec[first-8:]) == format.ContextKernel {
		own = ownFrames
		for frames > 1+own+1 && own < maxOwnFrames && o.runners().Has(le.Uint64(rec[first+8*int(own):])) {
			own++
		}
		if packets != nil && packets.verdicts != nil {
			own = uint64(o.ownDropFrames(rec[first:first+8*int(frames-1)], int(own)))
		}
		le.PutUint64(rec[format.HeaderSize+l.IP:], le.Uint64(rec[first+8*int(own):]))
	}
	if isSyscall {
		o.setCaller(rec, raw+4)
	}
	if span != nil && span.Call != nil {
		before := len(rec)
		rec = o.setFunction(rec, span.Call, raw+4, chain)
		raw += len(rec) - before
	}
	switch {
	case o.ipOnly:
		rec = slices.Delete(rec, chain, raw)
	case isSyscall && o.dropKernel:
		rec = dropKernelFrames(rec, chain)
	case own > 0:
		le.PutUint64(rec[chain:], frames-own)
		rec = slices.Delete(rec, first, first+8*int(own))
	}
	le.PutUint16(rec[6:], uint16(len(rec)))
	return rec
}

// setCaller makes a sample of a system call belong to the caller in user space.
func (o *output) setCaller(rec []byte, raw int) {
	le := binary.LittleEndian
	if raw+bpf.SyscallSize > len(rec) {
		return
	}
	misc := format.Misc(le.Uint16(rec[4:]))&^format.MiscCPUModeMask | format.MiscUser
	le.PutUint16(rec[4:], uint16(misc))
	le.PutUint64(rec[format.HeaderSize+o.layout.IP:], le.Uint64(rec[raw+bpf.SyscallIP:]))
}

// dropKernelFrames removes the kernel's frames from a sample whose callchain is at this position.
func dropKernelFrames(rec []byte, chain int) []byte {
	le := binary.LittleEndian
	n := le.Uint64(rec[chain:])
	if n == 0 || le.Uint64(rec[chain+8:]) != format.ContextKernel {
		return rec
	}
	kernel := uint64(1)
	for kernel < n && le.Uint64(rec[chain+8+8*int(kernel):]) != format.ContextUser {
		kernel++
	}
	le.PutUint64(rec[chain:], n-kernel)
	return slices.Delete(rec, chain+8, chain+8+8*int(kernel))
}

// period returns the period of a sample with this raw data.
func (o *output) period(number uint64, raw []byte) uint64 {
	if o.spans[number] == nil || len(raw) < bpf.SpanDuration+8 {
		return 1
	}
	return binary.LittleEndian.Uint64(raw[bpf.SpanDuration:])
}

// ownFrames is the number of innermost frames of a raw tracepoint's sample that do not belong to the tracepoint's
// callers: the BPF program and the function that runs it. On arm64 the program takes two frames, and the function
// that the tracepoint calls follows, where the x86-64 function jumps. If several programs run, the function that
// calls them is the last one.
const (
	ownFrames    = 2
	maxOwnFrames = 5
)

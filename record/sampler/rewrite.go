package sampler

import (
	"encoding/binary"
	"slices"

	"gperf/format"
	"gperf/record/probe/kernel"
)

// output describes the samples that the programs write to a BPF output event.
type output struct {
	layout format.SampleLayout
	// runners are, of raw tracepoints by number, the functions that run their programs.
	runners map[uint64]kernel.Codes
	ipOnly  bool // the callchain is recorded for the sample's ip only
}

// outputAttr returns the attr of the BPF output event for samples of an emitted event.
func outputAttr(like *format.Attr) format.Attr {
	a := *like
	a.Type, a.Config, a.SamplePeriod = format.TypeSoftware, format.SWBPFOutput, 1
	a.Flags &= format.FlagUseClockID | format.FlagSampleIDAll | format.FlagExcludeCallchainUser |
		format.FlagExcludeCallchainKernel
	if a.SampleType&format.SampleCallchain == 0 { // the first frames locate the tracepoint
		a.SampleType |= format.SampleCallchain
		a.Flags |= format.FlagExcludeCallchainUser
		a.SampleMaxStack = maxOwnFrames + 1
	}
	return a
}

// rewrite turns a program's sample into one of its event. Other records stay unchanged: the
// file's reader reports them.
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
		le.PutUint64(rec[format.HeaderSize+l.Period:], 1)
	}
	own := uint64(0)
	first := chain + 8 + 8 // first frame, after PERF_CONTEXT_KERNEL
	runners, isRaw := o.runners[number]
	if isRaw && frames > 1+ownFrames && le.Uint64(rec[first-8:]) == format.ContextKernel {
		own = ownFrames
		for frames > 1+own+1 && own < maxOwnFrames && runners.Has(le.Uint64(rec[first+8*int(own):])) {
			own++
		}
		le.PutUint64(rec[format.HeaderSize+l.IP:], le.Uint64(rec[first+8*int(own):]))
	}
	switch {
	case o.ipOnly:
		rec = slices.Delete(rec, chain, raw)
	case own > 0:
		le.PutUint64(rec[chain:], frames-own)
		rec = slices.Delete(rec, first, first+8*int(own))
	}
	le.PutUint16(rec[6:], uint16(len(rec)))
	return rec
}

// ownFrames is the number of innermost frames of a raw tracepoint's sample that do not belong
// to its callers: the BPF program and the function that runs it. On arm64 the program has two,
// and the function that the tracepoint calls follows, where x86-64's jumps. If several programs
// run, the function that calls them is the last one.
const (
	ownFrames    = 2
	maxOwnFrames = 5
)

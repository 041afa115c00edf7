package report

import (
	"cmp"
	"strconv"
	"strings"

	"gperf/internal/session"
)

// Flags of a branch (struct perf_branch_entry of
// include/uapi/linux/perf_event.h).
const (
	branchMispredicted = 1 << iota
	branchPredicted
	branchInTransaction
	branchAbort

	cyclesShift = 4
)

// cyclesOf returns the cycles since the branch before, 0 if unknown.
func cyclesOf(flags uint64) uint64 { return flags >> cyclesShift & 0xffff }

// branchKeys look at a branch.
var branchKeys = []*SortKey{
	branchDSOKey("dso_from", "Source Shared Object", func(x *extra) *session.Frame { return x.from }),
	branchDSOKey("dso_to", "Target Shared Object", func(x *extra) *session.Frame { return x.to }),
	branchSymbolKey("symbol_from", "Source Symbol", func(x *extra) *session.Frame { return x.from }),
	branchSymbolKey("symbol_to", "Target Symbol", func(x *extra) *session.Frame { return x.to }),
	branchKey(numberKey{
		name:         "mispredict",
		head:         "Branch Mispredicted",
		biggestFirst: true,
		value:        func(x *extra) uint64 { return x.flags & (branchMispredicted | branchPredicted) },
		text:         word(predictedText),
	}.key()),
	branchKey(numberKey{
		name:         "abort",
		head:         "Transaction abort",
		biggestFirst: true,
		value:        func(x *extra) uint64 { return x.flags & branchAbort },
		text:         word(flagText(branchAbort, "A")),
	}.key()),
	branchKey(numberKey{
		name:         "in_tx",
		head:         "Branch in transaction",
		biggestFirst: true,
		value:        func(x *extra) uint64 { return x.flags & branchInTransaction },
		text:         word(flagText(branchInTransaction, "T")),
	}.key()),
	branchKey(numberKey{
		name:         "cycles",
		head:         "Basic Block Cycles",
		biggestFirst: true,
		value:        func(x *extra) uint64 { return cyclesOf(x.flags) },
		text:         appendCycles,
	}.key()),
	branchLineKey("srcline_from", "From Source:Line", func(x *extra) *session.Frame { return x.from }),
	branchLineKey("srcline_to", "To Source:Line", func(x *extra) *session.Frame { return x.to }),
	branchKey(ipcKey("ipc_lbr", "-")),
	branchAddressKey("addr_from", "Source Address", func(x *extra) *session.Frame { return x.from }),
	branchAddressKey("addr_to", "Target Address", func(x *extra) *session.Frame { return x.to }),
}

func branchKey(k *SortKey) *SortKey {
	k.mode = ModeBranches
	k.uses |= usesExtra | usesBranch
	return k
}

func predictedText(x *extra) string {
	switch {
	case x.flags&branchPredicted != 0:
		return "N"
	case x.flags&branchMispredicted != 0:
		return "Y"
	}
	return "N/A"
}

func flagText(flag uint64, set string) func(*extra) string {
	return func(x *extra) string {
		if x.flags&flag != 0 {
			return set
		}
		return "."
	}
}

func appendCycles(b []byte, e *Entry) []byte {
	n := cyclesOf(e.extra.flags)
	if n == 0 {
		return append(b, '-')
	}
	return strconv.AppendInt(b, int64(int16(n)), 10)
}

// branchDSOKey does not make room for names of DSOs without symbols, as in perf.
func branchDSOKey(name, head string, frame func(*extra) *session.Frame) *SortKey {
	return branchKey(otherDSOKey(name, head, frame, func(f *session.Frame) bool { return f.Sym() != nil }))
}

// otherDSOKey is a key of the DSO of a frame besides the sampled one. It sorts in the opposite order of dso, as in
// perf. Frames that named selects make room for the names of their DSOs.
func otherDSOKey(name, head string, frame func(*extra) *session.Frame, named func(*session.Frame) bool) *SortKey {
	k := &SortKey{Name: name, Head: head, frame: frame}
	k.identity = func(p *places, f *session.Frame) int32 { return p.of(f).file }
	k.cmp = func(h *Hist, a, b *Entry) int {
		af, bf := frame(a.extra), frame(b.extra)
		if af.Map == nil || bf.Map == nil {
			return compareBool(bf.Map != nil, af.Map != nil)
		}
		return strings.Compare(h.places.of(af).dso, h.places.of(bf).dso)
	}
	k.width = func(h *Hist, e *Entry) int {
		f := frame(e.extra)
		if named(f) {
			return len(h.places.of(f).dso)
		}
		return h.opts.unresolvedWidth()
	}
	k.append = func(h *Hist, b []byte, e *Entry, width int) []byte {
		return appendLeft(b, h.places.of(frame(e.extra)).dso, width)
	}
	return k
}

func branchSymbolKey(name, head string, frame func(*extra) *session.Frame) *SortKey {
	k := &SortKey{Name: name, Head: head, frame: frame}
	k.identity = (*places).bare
	k.cmp = func(_ *Hist, a, b *Entry) int {
		af, bf := frame(a.extra), frame(b.extra)
		as, bs := af.Sym(), bf.Sym()
		switch {
		case as == nil && bs == nil:
			return cmp.Compare(int64(bf.IP-af.IP), 0)
		case as == nil || bs == nil:
			return compareBool(as != nil, bs != nil)
		case as.Start != bs.Start:
			return cmp.Compare(int64(bs.Start-as.Start), 0)
		}
		return cmp.Compare(int64(bs.End-as.End), 0)
	}
	k.width = func(h *Hist, e *Entry) int { return h.opts.frameWidth(frame(e.extra)) }
	k.append = func(h *Hist, b []byte, e *Entry, width int) []byte {
		f, n := frame(e.extra), len(b)
		b = h.opts.appendOrigin(b, f, f.Map.SampledAddr(f.IP))
		return appendFrameSymbol(b, f, f.Map.SampledAddr(f.IP), branchLevel(f), width-(len(b)-n))
	}
	return branchKey(k)
}

// branchAddressKey distinguishes addresses.
func branchAddressKey(name, head string, frame func(*extra) *session.Frame) *SortKey {
	k := numberKey{
		name:  name,
		head:  head,
		min:   len("[k] 0x") + hexWidth,
		value: func(x *extra) uint64 { return frame(x).IP },
		text: func(b []byte, e *Entry) []byte {
			f := frame(e.extra)
			return appendAddress(append(b, '[', branchLevel(f), ']', ' '), f.Map.SampledAddr(f.IP))
		},
	}.key()
	return branchKey(k)
}

// branchLevel returns the letter before the symbol of a branch address. Branches
// lack a cpumode: the address is the kernel's if it is mapped there.
func branchLevel(f *session.Frame) byte {
	switch {
	case f.Map == nil:
		return 'H'
	case f.Kernel:
		return 'k'
	}
	return '.'
}

package report

import (
	"cmp"
	"strings"

	"gperf/format/memaccess"
	"gperf/internal/column"
	"gperf/internal/session"
)

// memoryKeys look at accesses to memory.
var memoryKeys = []*SortKey{
	dataSymbolKey(),
	dataDSOKey(),
	memoryKey("locked", "Locked", 6, memaccess.Source.Lock, memaccess.Source.LockText),
	memoryKey("tlb", "TLB access", 22, memaccess.Source.TLB, memaccess.Source.TLBText),
	memoryKey("mem", "Memory access", 39, memaccess.Source.Level, memaccess.Source.LevelText),
	memoryKey("snoop", "Snoop", 12, memaccess.Source.Snoop, memaccess.Source.SnoopText),
	physicalKey(),
	inMemoryMode(pageSizeKey("data_page_size", "Data Page Size", 22, func(x *extra) uint64 { return x.dataPage })),
	memoryKey("blocked", "Blocked", 10, memaccess.Source.Block, memaccess.Source.BlockText),
}

func inMemoryMode(k *SortKey) *SortKey {
	k.mode = ModeMemory
	return k
}

// memoryKey is a key of some bits of the data source; perf shows the highest
// first, or the lowest.
func memoryKey(name, head string, min int, bits func(memaccess.Source) uint64,
	text func(memaccess.Source) string) *SortKey {
	return inMemoryMode(numberKey{
		name:  name,
		head:  head,
		min:   min,
		value: func(x *extra) uint64 { return bits(memaccess.Source(x.source)) },
		text:  word(func(x *extra) string { return text(memaccess.Source(x.source)) }),
	}.key())
}

// dataSymbolKey distinguishes addresses of data, and shows their symbols.
func dataSymbolKey() *SortKey {
	k := &SortKey{Name: "symbol_daddr", Head: "Data Symbol", uses: usesExtra | usesData,
		value: func(x *extra) uint64 { return x.addr }}
	k.cmp = func(_ *Hist, a, b *Entry) int { return cmp.Compare(int64(b.extra.addr-a.extra.addr), 0) }
	k.width = func(_ *Hist, e *Entry) int {
		if sym := e.extra.data.Sym(); sym != nil {
			return len("[k] 0x") + hexWidth + len(sym.Name)
		}
		return len("[k] 0x") + hexWidth
	}
	k.append = func(_ *Hist, b []byte, e *Entry, width int) []byte {
		n := len(b)
		b = appendFrameSymbol(b, e.extra.data, e.extra.addr, e.extra.level, width)
		return column.AppendBlanks(b, width-(len(b)-n))
	}
	return inMemoryMode(k)
}

// dataDSOKey has the opposite order of dso, as in perf.
func dataDSOKey() *SortKey {
	data := func(x *extra) *session.Frame { return x.data }
	k := &SortKey{Name: "dso_daddr", Head: "Data Object", uses: usesExtra | usesData, frame: data}
	k.identity = func(p *places, f *session.Frame) int32 { return p.of(f).file }
	k.cmp = func(h *Hist, a, b *Entry) int {
		af, bf := a.extra.data, b.extra.data
		if af.Map == nil || bf.Map == nil {
			return compareBool(bf.Map != nil, af.Map != nil)
		}
		return strings.Compare(h.places.of(af).dso, h.places.of(bf).dso)
	}
	k.width = func(h *Hist, e *Entry) int {
		if e.extra.data.Map != nil {
			return len(h.places.of(e.extra.data).dso)
		}
		return h.unresolvedWidth()
	}
	k.append = func(h *Hist, b []byte, e *Entry, width int) []byte {
		return appendLeft(b, h.places.of(e.extra.data).dso, width)
	}
	return inMemoryMode(k)
}

func physicalKey() *SortKey {
	k := numberKey{
		name:         "phys_daddr",
		head:         "Data Physical Address",
		min:          22,
		biggestFirst: true,
		value:        func(x *extra) uint64 { return x.phys },
		text: func(b []byte, e *Entry) []byte {
			return appendAddress(append(b, '[', e.extra.level, ']', ' '), e.extra.phys)
		},
	}.key()
	k.uses |= usesData
	return inMemoryMode(k)
}

package report

import (
	"cmp"
	"hash/maphash"
	"strings"

	"gperf/format/fields"
	"gperf/internal/session"
	"gperf/internal/text"
)

// memoryKeys look at accesses to memory.
var memoryKeys = []*SortKey{
	accessSymbolKey("symbol_daddr", "Data Symbol", func(x *extra) (*session.Frame, uint64) { return x.data, x.addr }),
	dataDSOKey(),
	memoryKey("locked", "Locked", 6, fields.DataSource.Lock, fields.DataSource.LockText),
	memoryKey("tlb", "TLB access", 22, fields.DataSource.TLB, fields.DataSource.TLBText),
	memoryKey("mem", "Memory access", 39, fields.DataSource.Level, fields.DataSource.LevelText),
	memoryKey("snoop", "Snoop", 12, fields.DataSource.Snoop, fields.DataSource.SnoopText),
	cacheLineKey(),
	accessSymbolKey("symbol_iaddr", "Code Symbol",
		func(x *extra) (*session.Frame, uint64) { return x.code, x.code.IP }),
	physicalKey(),
	inMemoryMode(pageSizeKey("data_page_size", "Data Page Size", 22, func(x *extra) uint64 { return x.dataPage })),
	memoryKey("blocked", "Blocked", 10, fields.DataSource.Block, fields.DataSource.BlockText),
}

func inMemoryMode(k *SortKey) *SortKey {
	k.mode = ModeMemory
	return k
}

// memoryKey is a key of some bits of the data source; perf shows the highest
// first, or the lowest.
func memoryKey(name, head string, min int, mask func(fields.DataSource) uint64,
	text func(fields.DataSource) string) *SortKey {
	return inMemoryMode(numberKey{
		name:  name,
		head:  head,
		min:   min,
		value: func(x *extra) uint64 { return mask(fields.DataSource(x.source)) },
		text:  word(func(x *extra) string { return text(fields.DataSource(x.source)) }),
	}.key())
}

// accessSymbolKey distinguishes addresses of accesses, of the data or of the code, and shows symbols.
func accessSymbolKey(name, head string, at func(*extra) (*session.Frame, uint64)) *SortKey {
	addr := func(x *extra) uint64 {
		_, addr := at(x)
		return addr
	}
	k := &SortKey{Name: name, Head: head, uses: usesExtra | usesData, value: addr}
	k.cmp = func(_ *Hist, a, b *Entry) int { return cmp.Compare(int64(addr(b.extra)-addr(a.extra)), 0) }
	k.width = func(_ *Hist, e *Entry) int {
		f, _ := at(e.extra)
		return accessWidth(f)
	}
	k.append = func(_ *Hist, b []byte, e *Entry, width int) []byte {
		n := len(b)
		f, addr := at(e.extra)
		b = appendFrameSymbol(b, f, addr, e.extra.level, width)
		return text.AppendBlanks(b, width-(len(b)-n))
	}
	return inMemoryMode(k)
}

// accessWidth is the width of an access's symbol.
func accessWidth(f *session.Frame) int {
	if sym := f.Sym(); sym != nil {
		return len("[k] 0x") + hexWidth + len(sym.Name)
	}
	return len("[k] 0x") + hexWidth
}

// cacheLine identifies bytes that the CPUs cache together: the place of the first byte, and the process if no other has
// the data.
type cacheLine struct {
	level byte
	dso   string
	pid   int32
	addr  uint64
}

// newCacheLine returns the line of an access.
func newCacheLine(s *session.Sample, data *session.Frame, size uint64) cacheLine {
	l := cacheLine{level: level(s.Misc), addr: data.Map.SampledAddr(data.IP) &^ (size - 1)}
	if data.Map != nil {
		l.dso = data.Map.DSO.Name
		if l.level != 'k' && data.Map.Sharing == session.PrivateAnon {
			l.pid = s.Thread.PID
		}
	}
	return l
}

// cacheLineKey distinguishes cache lines, and shows the symbol of the data.
func cacheLineKey() *SortKey {
	k := &SortKey{Name: "dcacheline", Head: "Data Cacheline", uses: usesExtra | usesData}
	k.value = func(x *extra) uint64 { return maphash.Comparable(textSeed, x.line) }
	k.cmp = func(_ *Hist, a, b *Entry) int {
		x, y := &a.extra.line, &b.extra.line
		return cmp.Or(cmp.Compare(x.level, y.level), compareBool(x.dso != "", y.dso != ""),
			strings.Compare(x.dso, y.dso), cmp.Compare(y.pid, x.pid), cmp.Compare(y.addr, x.addr))
	}
	k.width = func(_ *Hist, e *Entry) int { return accessWidth(e.extra.data) }
	k.append = func(_ *Hist, b []byte, e *Entry, width int) []byte {
		n, letter := len(b), e.extra.level
		switch m := e.extra.data.Map; {
		case m == nil:
			letter = 'X'
		case letter != 'k' && m.Sharing == session.SharedData:
			letter = 's'
		}
		b = appendFrameSymbol(b, e.extra.data, e.extra.line.addr, letter, width)
		return text.AppendBlanks(b, width-(len(b)-n))
	}
	return inMemoryMode(k)
}

func dataDSOKey() *SortKey {
	k := otherDSOKey("dso_daddr", "Data Object", func(x *extra) *session.Frame { return x.data },
		func(f *session.Frame) bool { return f.Map != nil })
	k.uses = usesExtra | usesData
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

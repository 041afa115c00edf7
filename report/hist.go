package report

import (
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/parallel"
	"gperf/internal/session"
	"gperf/symbolize"
)

// Hist is the histogram of one event.
type Hist struct {
	Event   string
	Total   Stat     // 100 %
	Entries []*Entry // in the order in which they are shown

	all     Stat     // of all samples, including filtered ones
	plural  bool     // the title says "events": the histogram leads a group
	members []*Hist  // of the group that it leads, itself first; nil without one
	list    []*Entry // in the order in which perf keeps them

	opts    *Options
	layout  *layout
	traces  *traces
	event   int
	chains  bool   // entries contain call graphs
	minHits uint64 // period of the smallest branches
	byKey   map[entryKey]*Entry
	places  *places
	folds   []*folded
}

// Entry is the samples with equal sort keys.
type Entry struct {
	Comm     string
	Thread   *session.Thread // of the first sample
	CPU      int32           // -1: not recorded
	Level    byte            // k for the kernel, . for a process, as in perf
	Self     Stat            // of the samples taken here
	Children Stat            // of the samples taken here and in callees

	group []*Entry // entries of the group's members with the same keys, itself first; nil where missing
	extra *extra   // of the first sample; nil if no key uses it
	key   entryKey
	// parent is the function of the callchain that the key parent looks for.
	parent *symbolize.Symbol
	place  *place
	ip     uint64
	raw    []byte // tracepoint data of the first sample
	// srcline and srcfile are the source position, "" if no key uses them.
	srcline, srcfile string
	text             string // of raw, once it was made
	depth            int    // of the longest callchain
	last             int    // number of the stack that was added last
	of               *Entry // has the samples of this entry and those of other fillers
	chains           int    // number of callchains
	calls            []call // of each of these; none if every branch is too small to be shown
	free             int    // index in of.calls of this entry's next one
	hops             hopSum // of the callchains
}

// Sum is a sum of samples.
type Sum struct {
	Samples, Period uint64
	Latency         uint64 // of Period by how many threads ran, in 1/latencyUnit
}

func (a *Sum) add(b *Sum) {
	a.Samples += b.Samples
	a.Period += b.Period
	a.Latency += b.Latency
}

// Stat is a sum of samples of several levels.
type Stat struct {
	Sum
	Kernel, User uint64 // the parts of Period that were spent there
}

func (a *Stat) add(b *Stat) {
	a.Sum.add(&b.Sum)
	a.Kernel += b.Kernel
	a.User += b.User
}

// addAt adds samples of a subject.level.
func (a *Stat) addAt(level byte, b *Sum) {
	a.Sum.add(b)
	switch level {
	case 'k':
		a.Kernel += b.Period
	case '.':
		a.User += b.Period
	}
}

// entryKey is equal for the samples of an entry. Fields that no key uses are zero.
type entryKey struct {
	comm, place, raw int32
	tid              int32
	cpu, extra       int32
	parent           int32
	srcline, srcfile int32
	pid, noDigit     int32
	numbers          int32 // identifies the numbers of the place that keys compare
}

func (e *Entry) mapped() bool { return e.place.frame.Map != nil }

// shown returns the figure of the entry that is compared with the total.
func (e *Entry) shown(opts *Options) uint64 {
	if opts.NoChildren {
		return e.Self.Period
	}
	return e.Children.Period
}

func (h *Hist) trace(e *Entry) string {
	if e.text == "" {
		e.text = h.traces.text(h.event, e.raw)
	}
	return e.text
}

// folding is the folded stacks of all events of a file. It does not use the stacks any more.
type folding struct {
	file   *format.File
	opts   *Options
	events []*histBuilder
}

// newFolding folds stacks. The caller must not use the list afterwards.
func newFolding(f *format.File, l *layouts, opts *Options, t *traces, rank func(string) int32,
	mapSize func(*session.Frame) uint64, stacks []*stack) *folding {
	p := newPlaces(opts, rank, mapSize)
	if l.uses()&usesParent != 0 || opts.Parents.Only {
		p.parents = newParents(opts.Parents.Match)
	}
	p.prepare(stacks)
	all := &folding{file: f, opts: opts}
	same := &identities{raws: ids{}, extras: ids{}, names: ids{}, numbers: ids{}}
	for i, stacks := range stacksByEvent(stacks, len(f.Attrs)) {
		h := &Hist{
			Event:  f.EventName(i),
			opts:   opts,
			layout: l.byEvent[i],
			traces: t,
			event:  i,
			byKey:  map[entryKey]*Entry{},
			places: p,
		}
		h.chains = opts.Graph.Mode != GraphNone && opts.hasChains(&f.Attrs[i])
		b := &histBuilder{hist: h, identities: same}
		h.folds = b.fold(b.total(stacks))
		all.events = append(all.events, b)
	}
	p.shown = nil
	return all
}

// hists makes the histograms of all events with samples.
func (f *folding) hists() (hists []*Hist) {
	opts, groups := f.opts, eventGroups(f.file, f.opts)
	var all []*Hist
	for _, b := range f.events {
		b.fill()
		all = append(all, b.hist)
	}
	for i := 0; i < len(all); i++ {
		h := all[i]
		g, leads := groups[i]
		h.plural = leads
		if leads && opts.Groups != GroupsApart {
			h.lead(g, all[i:i+int(g.Members)])
			i += int(g.Members) - 1
		}
		if h.allSamples() > 0 || opts.Empty {
			h.sort()
			hists = append(hists, h)
		}
	}
	return hists
}

// stacksByEvent returns the stacks of each of n events, in their order.
func stacksByEvent(stacks []*stack, n int) [][]*stack {
	counts, byEvent := make([]int, n), make([][]*stack, n)
	for _, st := range stacks {
		counts[st.Of.event]++
	}
	for i, n := range counts {
		byEvent[i] = make([]*stack, 0, n)
	}
	for _, st := range stacks {
		byEvent[st.Of.event] = append(byEvent[st.Of.event], st)
	}
	return byEvent
}

// visible reports whether an entry with that share is shown.
func (h *Hist) visible(share uint64) bool {
	return h.Total.Period == 0 || float32(float64(share)*100/float64(h.Total.Period)) >= float32(h.opts.PercentLimit)
}

// before reports whether new precedes an entry: entries are in descending order.
func (h *Hist) before(there, new *Entry) bool { return h.compare(there, new) < 0 }

// sort puts the entries into the order of the result.
func (h *Hist) sort() {
	h.Entries = order(h.list, func(there, new *Entry) bool { return h.compareResult(new, there) > 0 })
}

func (h *Hist) compare(a, b *Entry) int {
	for _, k := range h.layout.sorts {
		if k.cmp == nil || k.field != nil && k.field.event != h.event || k.Name == "trace" &&
			h.traces.formats[h.event] == nil {
			continue
		}
		if c := k.cmp(h, a, b); c != 0 {
			return c
		}
	}
	return 0
}

func (h *Hist) compareResult(a, b *Entry) int {
	for _, k := range h.layout.sorts {
		if !k.shown(h.event) {
			continue
		}
		compare := k.sort
		if compare == nil {
			compare = k.cmp
		}
		if c := compare(h, a, b); c != 0 {
			return c
		}
	}
	return 0
}

// identities numbers equal values of keys, for all events: groups compare the
// entries.
type identities struct {
	raws, extras, names, numbers ids
}

// histBuilder makes a histogram of stacks.
type histBuilder struct {
	hist       *Hist
	entries    []*Entry // in the order in which they came up
	identities *identities
	buf        []byte
}

// fill makes the entries of the folded stacks.
func (b *histBuilder) fill() {
	fillers := b.fillers()
	parallel.Do(len(fillers), func(i int) { fillers[i].sum() })
	b.join(fillers)
	if b.hist.chains {
		b.hist.minHits = b.hist.opts.Graph.minPeriod(b.hist.Total.Period)
		for _, e := range b.entries {
			share := e.shown(b.hist.opts)
			if share >= b.hist.minHits && b.hist.visible(share) {
				e.calls = make([]call, e.chains)
			}
		}
		parallel.Do(len(fillers), func(i int) { fillers[i].addCalls() })
	}
	if b.hist.opts.SymbolFilter != "" {
		b.filterSymbols()
	}
	// perf sorts entries a second time if a key makes it merge them again.
	b.hist.list = order(b.entries, b.hist.before)
	if b.hist.layout.uses&usesComm != 0 {
		b.hist.list = order(b.hist.list, b.hist.before)
	}
}

// join sets the entries of the histogram to those of all fillers, in the order in which one filler would have made
// them.
func (b *histBuilder) join(fillers []*filler) {
	for _, f := range fillers {
		for _, e := range f.entries {
			if e.of = b.hist.byKey[e.key]; e.of == nil {
				e.of = e
				b.hist.byKey[e.key] = e
				b.entries = append(b.entries, e)
				continue
			}
			e.of.Self.add(&e.Self)
			e.of.Children.add(&e.Children)
			e.of.depth = max(e.of.depth, e.depth)
			e.free = e.of.chains
			e.of.chains += e.chains
			e.of.hops.AddTotals(&e.hops)
		}
	}
}

// total sums up stacks, and returns those that count in entries, in the memory of the list.
func (b *histBuilder) total(stacks []*stack) []*stack {
	list := stacks[:0]
	for _, st := range stacks {
		b.hist.all.addAt(st.Of.level, &st.Sum.Sum)
		if !st.Of.filtered || !b.hist.opts.Relative {
			b.hist.Total.addAt(st.Of.level, &st.Sum.Sum)
		}
		if !st.Of.filtered {
			list = append(list, st)
		}
	}
	return list
}

// filterSymbols drops the entries whose symbols the filter does not match. If callers
// include the samples of callees, percentages still refer to all samples.
func (b *histBuilder) filterSymbols() {
	b.entries = slices.DeleteFunc(b.entries, func(e *Entry) bool {
		sym := e.place.frame.Sym()
		return sym == nil || !strings.Contains(sym.Name, b.hist.opts.SymbolFilter)
	})
	if b.hist.opts.Relative && b.hist.opts.NoChildren {
		b.hist.Total.Period, b.hist.Total.Latency = 0, 0
		for _, e := range b.entries {
			b.hist.Total.Period += e.Self.Period
			b.hist.Total.Latency += e.Self.Latency
		}
	}
}

// rawID returns equal numbers for data with equal keys.
func (b *histBuilder) rawID(raw []byte) int32 {
	if b.hist.traces.formats[b.hist.event] == nil {
		return 0
	}
	b.buf = b.buf[:0]
	for _, k := range b.hist.layout.sorts {
		switch {
		case k.field != nil && k.field.event == b.hist.event:
			b.buf = append(b.buf, k.field.format.Bytes(raw, b.hist.traces.env.Order)...)
		case k.field == nil && k.uses&usesRaw != 0:
			b.buf = append(b.buf, b.hist.traces.text(b.hist.event, raw)...)
		}
		b.buf = append(b.buf, 0)
	}
	return b.identities.raws.number(b.buf)
}

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
	calls            []call // none if every branch is too small to be shown
	hops             hopSum // of the callchains
}

// Stat is a sum of samples.
type Stat struct {
	Samples, Period uint64
	Latency         uint64 // of Period by how many threads ran, in 1/latencyUnit
	Kernel, User    uint64 // the parts of Period that were spent there
}

func (a *Stat) add(b *Stat) {
	a.Samples += b.Samples
	a.Period += b.Period
	a.Latency += b.Latency
	a.Kernel += b.Kernel
	a.User += b.User
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

// newHists makes the histograms of all events with samples.
func newHists(f *format.File, l *layouts, opts *Options, t *traces, rank func(string) int32,
	mapSize func(*session.Frame) uint64, stacks []*stack) []*Hist {
	p := newPlaces(opts, rank, mapSize)
	if l.uses()&usesParent != 0 || opts.Parents.Only {
		p.parents = newParents(opts.Parents.Match)
	}
	p.prepare(stacks)
	byEvent := make([][]*stack, len(f.Attrs))
	for _, st := range stacks {
		byEvent[st.Of.event] = append(byEvent[st.Of.event], st)
	}
	all := make([]*Hist, len(f.Attrs))
	same := &identities{raws: ids{}, extras: ids{}, names: ids{}, numbers: ids{}}
	for i, stacks := range byEvent {
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
		(&histBuilder{hist: h, identities: same}).fill(stacks)
		all[i] = h
	}
	groups := eventGroups(f, opts)
	var hists []*Hist
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

// fill adds the stacks of the histogram's event.
func (b *histBuilder) fill(stacks []*stack) {
	b.hist.folds = b.fold(b.total(stacks))
	fillers := b.fillers()
	parallel.Do(len(fillers), func(i int) { fillers[i].sum() })
	b.join(fillers)
	if b.hist.chains {
		b.hist.minHits = b.hist.opts.Graph.minPeriod(b.hist.Total.Period)
		parallel.Do(len(fillers), func(i int) { fillers[i].addCalls() })
		for _, f := range fillers {
			for _, e := range f.entries {
				if e.of != e {
					e.of.calls = append(e.of.calls, e.calls...)
				}
			}
		}
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
			e.of.hops.AddTotals(&e.hops)
		}
	}
}

// total sums up stacks, and returns those that count in entries.
func (b *histBuilder) total(stacks []*stack) (list []*stack) {
	for _, st := range stacks {
		switch st.Of.level {
		case 'k':
			st.Sum.Kernel = st.Sum.Period
		case '.':
			st.Sum.User = st.Sum.Period
		}
		b.hist.all.add(&st.Sum.Stat)
		if !st.Of.filtered || !b.hist.opts.Relative {
			b.hist.Total.add(&st.Sum.Stat)
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

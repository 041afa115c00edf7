package report

import (
	"hash/maphash"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/intern"
	"gperf/internal/session"
	"gperf/report/key"
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
	byEvent := make([][]*stack, len(f.Attrs))
	for _, st := range stacks {
		byEvent[st.event] = append(byEvent[st.event], st)
	}
	all := make([]*Hist, len(f.Attrs))
	p := places{rank: rank, mapSize: mapSize, paths: opts.Verbose, fullPath: opts.FullPath,
		byAddress: opts.Graph.ByAddress}
	same := &identities{raws: ids{}, extras: ids{}, names: ids{}, numbers: ids{},
		parents: newParents(opts.Parents.Match)}
	for i, stacks := range byEvent {
		h := &Hist{
			Event:  f.EventName(i),
			opts:   opts,
			layout: l.byEvent[i],
			traces: t,
			event:  i,
			byKey:  map[entryKey]*Entry{},
			places: &p,
		}
		h.chains = opts.Graph.Mode != GraphNone && opts.hasChains(&f.Attrs[i])
		(&histBuilder{hist: h, identities: same, folds: folds{chain: []*place{}}}).fill(stacks)
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
	parents                      *parents
}

// histBuilder adds stacks to a histogram, one at a time.
type histBuilder struct {
	hist       *Hist
	entries    []*Entry // in the order in which they came up
	identities *identities
	buf        []byte

	folds  folds
	number int      // of the stack
	tails  []hopSum // of the stack's callchain from each frame on
	stack  *stack
	key    entryKey // without the place
	parent *symbolize.Symbol
}

// fill adds the stacks of the histogram's event.
func (b *histBuilder) fill(stacks []*stack) {
	for _, st := range stacks {
		switch st.level {
		case 'k':
			st.Kernel = st.Period
		case '.':
			st.User = st.Period
		}
		b.hist.all.add(&st.Stat)
		if !st.filtered || !b.hist.opts.Relative {
			b.hist.Total.add(&st.Stat)
		}
		if st.filtered {
			continue
		}
		b.begin(0, st)
		if b.parent != nil || !b.hist.opts.Parents.Only {
			b.fold(st)
		}
	}
	for i, st := range b.folds.stacks {
		b.begin(i+1, st)
		b.leaf().Self.add(&st.Stat)
		b.sumHops(st)
		b.each(func(e *Entry, from int) {
			e.Children.add(&st.Stat)
			e.depth = max(e.depth, len(st.chain)-from)
			if st.hops != nil {
				e.hops.AddTotals(&b.tails[from])
			}
		})
	}
	if b.hist.chains {
		b.hist.minHits = b.hist.opts.Graph.minPeriod(b.hist.Total.Period)
		b.fillCalls()
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

// fillCalls adds the callchains to the entries that may show a branch.
func (b *histBuilder) fillCalls() {
	for i, st := range b.folds.stacks {
		b.begin(-i-1, st)
		b.each(func(e *Entry, from int) {
			if share := e.shown(b.hist.opts); share >= b.hist.minHits && b.hist.visible(share) && from < len(st.chain) {
				e.calls = append(e.calls, call{st, from})
			}
		})
	}
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

// begin turns to a stack.
func (b *histBuilder) begin(number int, st *stack) {
	b.number, b.stack = number, st
	if st.chain == nil {
		b.folds.chain, st.hops = b.hist.places.chain(b.folds.chain[:0], st, b.hist.opts)
		st.chain = b.folds.chain
		b.ignoreCallees(st)
	}
	uses := b.hist.layout.uses
	b.key = entryKey{}
	if uses&usesComm != 0 {
		b.key.comm = st.commID
	}
	if uses&usesTID != 0 {
		b.key.tid = st.thread.TID
	}
	if uses&usesPID != 0 {
		b.key.pid = st.thread.PID
	}
	if uses&usesNoDigit != 0 {
		b.key.noDigit = b.identities.names.numberOf(key.NoDigits(st.comm))
	}
	if uses&usesCPU != 0 {
		b.key.cpu = st.cpu
	}
	if uses&usesRaw != 0 {
		b.key.raw = b.rawID(st)
	}
	b.parent = nil
	if uses&usesParent != 0 || b.hist.opts.Parents.Only {
		if b.parent = b.identities.parents.find(st.chain); b.parent != nil {
			b.key.parent = b.identities.names.numberOf(b.parent.Name)
		}
	}
	if uses&usesExtra != 0 {
		b.buf = b.hist.layout.appendIdentity(b.buf[:0], st.extra, func(k *SortKey, f *session.Frame) uint64 {
			return uint64(k.identity(b.hist.places, f))
		})
		b.key.extra = b.identities.extras.number(b.buf)
	}
}

// folds are the stacks of a histogram, with one for all that neither the keys nor the call graph distinguish: most
// stacks of programs differ in addresses within the same functions.
type folds struct {
	stacks []*stack // in the order of the first of each
	chain  []*place // of the current stack, reused

	index intern.Table // of those that may stand for others
	list  []folded
}

// folded is a stack that may stand for others.
type folded struct {
	at  int32 // in folds.stacks
	own bool  // it is a copy, whose samples are those of all
	key entryKey
}

// fold adds a stack, whose chain is in folds.chain, or its samples to those of an equal one.
func (b *histBuilder) fold(st *stack) {
	f := &b.folds
	if st.hops == nil && b.hist.layout.uses&(usesSrcline|usesSrcfile|usesAddress|usesPlace) == 0 {
		i, added := f.index.Add(b.hash(st), func(i int32) bool {
			return b.key == f.list[i].key && b.alike(f.stacks[f.list[i].at], st)
		})
		if !added {
			f.add(&f.list[i], st)
			return
		}
		f.list = append(f.list, folded{at: int32(len(f.stacks)), key: b.key})
	}
	st.chain = slices.Clone(st.chain)
	f.stacks = append(f.stacks, st)
}

// add adds the samples of a stack to those of an equal one.
func (f *folds) add(to *folded, st *stack) {
	if !to.own {
		sum := *f.stacks[to.at]
		f.stacks[to.at], to.own = &sum, true
	}
	f.stacks[to.at].Stat.add(&st.Stat)
	st.chain = nil
}

// hash returns the same for stacks that are alike and have the current key.
func (b *histBuilder) hash(st *stack) uint32 {
	at, id, _ := b.leafPlace(st)
	h := maphash.Comparable(foldSeed, b.key) ^ uint64(uint32(id))<<32
	add := func(pl *place) {
		h = (h ^ uint64(uint32(pl.id))<<32 ^ uint64(uint32(pl.chain))) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	add(at)
	for _, pl := range st.chain {
		add(pl)
	}
	return uint32(h ^ h>>32)
}

var foldSeed = maphash.MakeSeed()

// alike reports whether no key of a place and no call graph distinguishes two stacks.
func (b *histBuilder) alike(x, y *stack) bool {
	at, id, _ := b.leafPlace(x)
	other, otherID, _ := b.leafPlace(y)
	return id == otherID && x.level == y.level && at.same(other) && slices.EqualFunc(x.chain, y.chain, (*place).same)
}

// same reports whether neither keys without lines and addresses nor call graphs distinguish two places.
func (pl *place) same(other *place) bool {
	return pl == other || pl.id == other.id && pl.file == other.file && pl.chain == other.chain
}

// ignoreCallees moves the samples to the callchain's last function that matches
// --ignore-callees. As in perf, the frames before it are dropped: the callees, or
// in graphs that begin with the callers, the callers.
func (b *histBuilder) ignoreCallees(st *stack) {
	if b.hist.opts.IgnoreCallees == nil {
		return
	}
	for i, pl := range slices.Backward(st.chain) {
		if sym := pl.frame.Sym(); sym != nil && pl.call == nil && b.hist.opts.IgnoreCallees.MatchString(sym.Name) {
			st.chain, st.leaf = st.chain[i:], pl.frame
			if st.hops != nil {
				st.hops = st.hops[i:]
			}
			return
		}
	}
}

// rawID returns equal numbers for data with equal keys.
func (b *histBuilder) rawID(st *stack) int32 {
	if b.hist.traces.formats[b.hist.event] == nil {
		return 0
	}
	b.buf = b.buf[:0]
	for _, k := range b.hist.layout.sorts {
		switch {
		case k.field != nil && k.field.event == b.hist.event:
			b.buf = append(b.buf, k.field.format.Bytes(st.raw, b.hist.traces.env.Order)...)
		case k.field == nil && k.uses&usesRaw != 0:
			b.buf = append(b.buf, b.hist.traces.text(b.hist.event, st.raw)...)
		}
		b.buf = append(b.buf, 0)
	}
	return b.identities.raws.number(b.buf)
}

// leaf returns the entry of the stack's sampled frame.
func (b *histBuilder) leaf() *Entry {
	pl, id, ip := b.leafPlace(b.stack)
	return b.entry(pl, id, ip, b.stack.level, atSample)
}

// leafPlace returns the place of a stack's sampled frame, with the id and address of an entry there.
func (b *histBuilder) leafPlace(st *stack) (pl *place, id int32, ip uint64) {
	pl = b.hist.places.of(st.leaf)
	id, ip = pl.id, leafIP(pl.frame)
	if b.hist.opts.Mode == ModeBranches { // perf compares the targets of branches by ip
		ip = pl.frame.IP
	}
	if ip != pl.frame.IP && pl.frame.Sym() == nil {
		id = b.hist.places.id(pl, ip)
	}
	return pl, id, ip
}

// each visits the stack's entries, each once although functions recur: the entry of
// the leaf with the whole callchain, and the callers' with the rest of it, from
// them on.
func (b *histBuilder) each(visit func(e *Entry, from int)) {
	e := b.leaf()
	e.last = b.number
	visit(e, 0)
	if b.hist.opts.NoChildren {
		return
	}
	level := b.stack.level
	for i, pl := range b.stack.chain {
		// Perf 7.3 marks the kernel's callers like a process's, and an address
		// in no mapping like the frame before it.
		if pl.frame.Map != nil {
			level = '.'
		}
		e := b.entry(pl, pl.id, pl.frame.IP, level, b.stack.position(i))
		if e.last != b.number {
			e.last = b.number
			visit(e, i)
		}
	}
}

// entry finds or makes the entry of the stack at a place.
func (b *histBuilder) entry(pl *place, id int32, ip uint64, level byte, at position) *Entry {
	k := b.key
	var src source
	if b.hist.layout.uses&(usesSrcline|usesSrcfile) != 0 {
		src = b.source(pl, at)
		if b.hist.layout.uses&usesSrcline != 0 {
			k.srcline = src.lineNumber
		}
		if b.hist.layout.uses&usesSrcfile != 0 {
			k.srcfile = src.fileNumber
		}
	}
	switch b.hist.layout.uses & (usesDSO | usesSymbol | usesAddress) {
	case 0:
	case usesDSO:
		k.place = pl.file
	case usesSymbol, usesDSO | usesSymbol:
		k.place = id
	case usesAddress:
		k.place = b.hist.places.address("", pl.frame.IP)
	default:
		k.place = b.hist.places.address(pl.dso, pl.frame.IP)
	}
	if b.hist.layout.uses&usesPlace != 0 {
		k.numbers = b.numbersOf(pl, ip)
	}
	if pl.hist == b.hist && pl.entry.key == k {
		return pl.entry
	}
	e := b.hist.byKey[k]
	pl.hist = b.hist
	if pl.entry = e; e == nil {
		st := b.stack
		e = &Entry{
			Comm:    st.comm,
			Thread:  st.thread,
			CPU:     st.cpu,
			Level:   level,
			place:   pl,
			ip:      ip,
			raw:     st.raw,
			srcline: src.line,
			srcfile: src.file,
			extra:   st.extra,
			parent:  b.parent,
			key:     k,
		}
		b.hist.byKey[k] = e
		pl.entry = e
		b.entries = append(b.entries, e)
	}
	return e
}

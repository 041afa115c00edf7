package report

import (
	"iter"
	"math"
	"slices"

	"gperf/internal/dso"
	"gperf/internal/session"
	"gperf/symbolize"
	"gperf/symbolize/srcline"
)

// place is a frame in a histogram: the name of its DSO, and its symbol or else its
// address.
type place struct {
	frame *session.Frame
	dso   string               // as shown
	rank  int32                // of the DSO among the recording's, 0 for none
	id    int32                // equal for frames that no key distinguishes
	file  int32                // the same for frames of DSOs with the same name
	chain int32                // the same for frames that a call graph merges
	call  *srcline.InlineFrame // the inlined function, nil for the frame's own function

	inlined []*place // functions inlined at the frame, innermost first; set by places.inlinedAt
	asked   bool     // inlined is set

	number   int32 // in places.all
	leafID   int32 // id of an entry of samples at the place; 0: not set
	parent   bool  // the key parent looks for the function
	ignoring bool  // the function gets the samples of its callees

	sources *[positions]source // set by histBuilder.source
}

// places makes the place of a frame once. After prepare, any goroutine may call chain.
type places struct {
	opts  *Options
	all   []*place // by number
	graph []int32  // place.chain by number
	// hashes are by number: the same if neither keys without lines and addresses nor call graphs distinguish places.
	hashes  []pairHash
	list    []*place                  // by Frame.ID
	others  map[*session.Frame]*place // of frames whose ID an earlier one has
	shown   session.ByFrame[[]int32]  // by Frame.ID, see shownAt
	ids     map[placeKey]int32
	chains  map[chainKey]int32
	dsos    map[session.DSO]int32
	builds  map[string]dso.BuildID // the first known of a name
	rank    func(string) int32     // of a DSO by name
	mapSize func(*session.Frame) uint64
	parents *parents // nil: no key uses them
	names   map[*session.DSO]string
	files   map[fileKey]int32
	lines   map[string]int32 // of branches
}

type fileKey struct {
	dso    string
	mapped bool
}

// placeKey contains the values that perf compares for the keys dso and symbol: the DSO's short
// name, and the symbol's addresses.
type placeKey struct {
	dso        string
	mapped     bool
	named      bool
	start, end uint64 // without a symbol, the ip
	inlined    string // the function
}

// chainKey contains the values that perf compares in call graphs: the DSO and the symbol's start.
type chainKey struct {
	dso     int32
	named   bool
	start   uint64
	inlined string // the function
}

// newPlaces returns places of frames whose DSOs rank numbers.
func newPlaces(opts *Options, rank func(string) int32, mapSize func(*session.Frame) uint64) *places {
	return &places{opts: opts, rank: rank, mapSize: mapSize, others: map[*session.Frame]*place{},
		shown: session.ByFrame[[]int32]{}, ids: map[placeKey]int32{}, chains: map[chainKey]int32{},
		dsos: map[session.DSO]int32{}, builds: map[string]dso.BuildID{}, names: map[*session.DSO]string{},
		files: map[fileKey]int32{}, lines: map[string]int32{}}
}

// of returns the place of a frame.
func (p *places) of(f *session.Frame) *place {
	if f.ID >= len(p.list) {
		p.list = append(p.list, make([]*place, 1+f.ID-len(p.list))...)
	}
	pl := p.list[f.ID]
	switch {
	case pl == nil:
		pl = p.make(f, "")
		p.list[f.ID] = pl
	case pl.frame != f:
		if pl = p.others[f]; pl == nil {
			pl = p.make(f, "")
			p.others[f] = pl
		}
	}
	return pl
}

// make makes the place of a frame, or of a function inlined there.
func (p *places) make(f *session.Frame, inlined string) *place {
	pl := &place{frame: f, dso: "[unknown]"}
	ck := chainKey{start: f.IP, inlined: inlined}
	if f.Map != nil {
		if pl.dso = f.Map.DSO.Name; !p.opts.Verbose {
			pl.dso = p.shortName(f.Map.DSO)
		}
		pl.rank = p.rank(f.Map.DSO.Name)
		ck.dso = p.dso(*f.Map.DSO)
	}
	pl.id = p.idOf(pl, f.IP, inlined)
	pl.file = number(p.files, fileKey{pl.dso, f.Map != nil})
	if f.Sym() != nil && !p.opts.Graph.ByAddress {
		ck.named, ck.start = true, f.Sym().Start
	}
	pl.chain = number(p.chains, ck)
	pl.number = int32(len(p.all))
	p.all, p.graph = append(p.all, pl), append(p.graph, pl.chain)
	p.hashes = append(p.hashes, pairHashOf([3]int32{pl.id, pl.file, pl.chain}))
	pl.parent = p.parents != nil && p.parents.is(f.Sym())
	return pl
}

// idOf returns the number of the place if the address is ip.
func (p *places) idOf(pl *place, ip uint64, inlined string) int32 {
	k := placeKey{dso: pl.dso, mapped: pl.frame.Map != nil, start: ip, inlined: inlined}
	if sym := pl.frame.Sym(); sym != nil {
		k.named, k.start, k.end = true, sym.Start, sym.End
	}
	return number(p.ids, k)
}

// bare is the same for frames with the same symbol's addresses, whatever their
// DSOs, or without symbols with the same address.
func (p *places) bare(f *session.Frame) int32 {
	k := placeKey{start: f.IP}
	if sym := f.Sym(); sym != nil {
		k = placeKey{named: true, start: sym.Start, end: sym.End}
	}
	return number(p.ids, k)
}

// address is the same for the same address in DSOs of the same name.
func (p *places) address(dso string, ip uint64) int32 {
	return number(p.ids, placeKey{dso: dso, start: ip, end: math.MaxUint64})
}

// prepare makes the places of stacks.
func (p *places) prepare(stacks []*stack) {
	p.prepareChains(stacks)
	in, moves := placer{places: p, parents: true}, p.opts.Parents.Only || p.opts.IgnoreCallees != nil
	for _, st := range stacks {
		if !st.Of.filtered && (!moves || in.setChain(st)) && in.leaf == nil {
			p.setLeaf(p.of(st.Leaf))
		}
	}
}

func (p *places) prepareChains(stacks []*stack) {
	for f, in := range framesOf(stacks, p.opts) {
		list := p.shownAt(f)
		for _, n := range list {
			pl := p.all[n]
			p.setLeaf(pl)
			sym := pl.frame.Sym()
			pl.ignoring = p.opts.IgnoreCallees != nil && sym != nil && pl.call == nil &&
				p.opts.IgnoreCallees.MatchString(sym.Name)
		}
		if in != nil {
			p.shown.Set(in, f, list)
		}
	}
}

// setLeaf sets the number of an entry of samples at a place.
func (p *places) setLeaf(pl *place) {
	if pl.leafID != 0 {
		return
	}
	pl.leafID = pl.id
	if ip := p.leafIP(pl); ip != pl.frame.IP && pl.frame.Sym() == nil {
		pl.leafID = p.idOf(pl, ip, "")
	}
}

// shownAt returns the places of a frame of a callchain, as numbers, in the graph's order. Options.Inline adds the
// inlined calls; Options.Resolved drops frames without symbols.
func (p *places) shownAt(f *session.Frame) (list []int32) {
	if p.opts.Resolved && f.Sym() == nil {
		return nil
	}
	pl := p.of(f)
	if p.opts.Inline {
		for _, inlined := range p.inlinedAt(pl) {
			list = append(list, inlined.number)
		}
	}
	if list = append(list, pl.number); p.opts.Graph.Order == Caller {
		slices.Reverse(list)
	}
	return list
}

// chain appends the numbers of the places of a stack's callchain to list, in the graph's order, and returns the
// branches that they are ends of.
func (p *places) chain(list []int32, st *stack) (_ []int32, ends []*hop) {
	if st.Of.history != nil {
		return p.historyChain(list, st.Of.history)
	}
	at, chain := p.shown[st.Chain.In], shown(st, p.opts)
	if p.opts.Graph.Order == Caller {
		for _, part := range [...][]int32{chain.User.IDs, chain.Kernel.IDs} {
			for _, id := range slices.Backward(part) {
				list = append(list, at[id]...)
			}
		}
		return list, nil
	}
	for _, part := range [...][]int32{chain.Kernel.IDs, chain.User.IDs} {
		for _, id := range part {
			list = append(list, at[id]...)
		}
	}
	return list, nil
}

// historyChain is chain for a callchain with branches, whose ends get no inlined calls.
func (p *places) historyChain(list []int32, h *history) (_ []int32, ends []*hop) {
	for i := range h.frames {
		if p.opts.Graph.Order == Caller {
			i = len(h.frames) - 1 - i
		}
		shown := p.shownAt(h.frames[i])
		if len(shown) > 0 && h.hops[i] != nil {
			shown = []int32{p.of(h.frames[i]).number}
		}
		list = append(list, shown...)
		for range shown {
			ends = append(ends, h.hops[i])
		}
	}
	return list, ends
}

// shown returns the frames of a stack's callchain that are shown: at most MaxStack, the first ones in the graph's
// order.
func shown(st *stack, opts *Options) session.Chain {
	chain := st.Chain.Chain()
	if more := chain.Len() - opts.MaxStack; more > 0 && opts.Graph.Order == Caller {
		return chain.Skip(more)
	}
	return chain.Cut(opts.MaxStack)
}

// framesOf yields the frames of the callchains of stacks that are shown, with the callchains that have them by ID; nil
// for callchains with branches, which have no more frames than MaxStack.
func framesOf(stacks []*stack, opts *Options) iter.Seq2[*session.Frame, *session.Callchains] {
	return func(yield func(*session.Frame, *session.Callchains) bool) {
		for _, st := range stacks {
			if st.Of.filtered || st.Of.history == nil {
				continue
			}
			for _, f := range st.Of.history.frames {
				if !yield(f, nil) {
					return
				}
			}
		}
		session.FramesOf(func(yield func(session.Chain) bool) {
			for _, st := range stacks {
				if !st.Of.filtered && !yield(shown(st, opts)) {
					return
				}
			}
		})(yield)
	}
}

// inlinedAt returns the places of the calls that were inlined at a frame, the
// innermost first. Each gets a frame, with the symbol's addresses.
func (p *places) inlinedAt(at *place) []*place {
	f := at.frame
	sym := f.Sym()
	if at.asked || sym == nil {
		return at.inlined
	}
	at.asked = true
	calls := f.Calls()
	for _, c := range calls[:max(len(calls), 1)-1] {
		own := &symbolize.Symbol{Start: sym.Start, End: sym.End, Name: c.Function, Raw: c.Function}
		pl := p.make(f.Inlined(own), c.Function)
		pl.call = &c
		at.inlined = append(at.inlined, pl)
	}
	return at.inlined
}

// appendMark appends the mark of an inlined function after the name.
func (pl *place) appendMark(b []byte) []byte {
	if pl.call == nil {
		return b
	}
	return append(b, " (inlined)"...)
}

// number numbers keys from 1 on.
func number[K comparable](m map[K]int32, k K) int32 {
	n, ok := m[k]
	if !ok {
		n = int32(len(m) + 1)
		m[k] = n
	}
	return n
}

// dso numbers DSOs. A DSO without a build ID is treated as the other one of that
// name.
func (p *places) dso(d session.DSO) int32 {
	first, ok := p.builds[d.Name]
	if !ok || first.IsZero() {
		p.builds[d.Name] = d.BuildID
	} else if !d.BuildID.IsZero() && d.BuildID != first {
		return number(p.dsos, d)
	}
	return number(p.dsos, session.DSO{Name: d.Name})
}

func (p *places) shortName(d *session.DSO) string {
	short, ok := p.names[d]
	if !ok {
		short = d.ShortName()
		p.names[d] = short
	}
	return short
}

// leafIP returns the address of an entry of samples at a place. perf compares the targets of branches by ip.
func (p *places) leafIP(pl *place) uint64 {
	if p.opts.Mode == ModeBranches {
		return pl.frame.IP
	}
	return pl.frame.Map.SampledAddr(pl.frame.IP)
}

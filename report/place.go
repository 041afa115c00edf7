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

	sources *[positions]source // set by histBuilder.source

	// entry is the last entry of the histogram hist at the place: most functions are of one program.
	hist  *Hist
	entry *Entry
}

// places makes the place of a frame once.
type places struct {
	list    []*place // by Frame.ID
	ids     map[placeKey]int32
	chains  map[chainKey]int32
	dsos    map[session.DSO]int32
	builds  map[string]dso.BuildID // the first known of a name
	rank    func(string) int32     // of a DSO by name
	mapSize func(*session.Frame) uint64
	paths   bool // show the paths of DSOs instead of short names
	names   map[*session.DSO]string
	files   map[fileKey]int32
	lines   map[string]int32 // of branches
	// fullPath shows the whole paths of source files.
	fullPath bool
	// byAddress distinguishes the addresses of callchains.
	byAddress bool
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

// of returns the place of a frame.
func (p *places) of(f *session.Frame) *place {
	if f.ID >= len(p.list) {
		p.list = append(p.list, make([]*place, 1+f.ID-len(p.list))...)
	}
	pl := p.list[f.ID]
	if pl == nil {
		pl = p.make(f, "")
		p.list[f.ID] = pl
	}
	return pl
}

// make makes the place of a frame, or of a function inlined there.
func (p *places) make(f *session.Frame, inlined string) *place {
	if p.ids == nil {
		p.ids, p.chains = map[placeKey]int32{}, map[chainKey]int32{}
		p.builds = map[string]dso.BuildID{}
		p.lines = map[string]int32{}
		p.dsos, p.names, p.files = map[session.DSO]int32{}, map[*session.DSO]string{}, map[fileKey]int32{}
	}
	pl := &place{frame: f, dso: "[unknown]"}
	ck := chainKey{start: f.IP, inlined: inlined}
	if f.Map != nil {
		if pl.dso = f.Map.DSO.Name; !p.paths {
			pl.dso = p.shortName(f.Map.DSO)
		}
		pl.rank = p.rank(f.Map.DSO.Name)
		ck.dso = p.dso(*f.Map.DSO)
	}
	pl.id = p.idOf(pl, f.IP, inlined)
	pl.file = number(p.files, fileKey{pl.dso, f.Map != nil})
	if f.Sym() != nil && !p.byAddress {
		ck.named, ck.start = true, f.Sym().Start
	}
	pl.chain = number(p.chains, ck)
	return pl
}

// id returns the id of pl if the address is ip.
func (p *places) id(pl *place, ip uint64) int32 { return p.idOf(pl, ip, "") }

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
	p.of(f)
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

// chain appends the places of a stack's callchain to list, in the graph's order, and returns the branches that they are
// ends of.
// Options.Inline adds the inlined calls; Options.Resolved drops frames without symbols.
func (p *places) chain(list []*place, st *stack, opts *Options) (_ []*place, ends []*hop) {
	for i, f := range framesOf(st, opts) {
		if opts.Resolved && f.Sym() == nil {
			continue
		}
		pl := p.of(f)
		var inlined []*place
		if opts.Inline && (st.hops == nil || st.hops[i] == nil) {
			inlined = p.inlinedAt(pl)
		}
		if opts.Graph.Order == Caller {
			list = append(list, pl)
			for _, pl := range slices.Backward(inlined) {
				list = append(list, pl)
			}
		} else {
			list = append(append(list, inlined...), pl)
		}
		if st.hops != nil {
			for range 1 + len(inlined) {
				ends = append(ends, st.hops[i])
			}
		}
	}
	return list, ends
}

// framesOf yields the frames of a stack's callchain with indexes in the graph's order: at most MaxStack. A history with
// branches has no more than these, so framesOf yields all frames of a history.
func framesOf(st *stack, opts *Options) iter.Seq2[int, *session.Frame] {
	return func(yield func(int, *session.Frame) bool) {
		n := st.frames.Len()
		limit := min(n, opts.MaxStack)
		if st.hops != nil {
			limit = n
		}
		for i := range limit {
			if opts.Graph.Order == Caller {
				i = n - 1 - i
			}
			if !yield(i, st.frames.Frame(i)) {
				return
			}
		}
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

// leafIP returns the address by which perf distinguishes a sampled instruction: the
// address in the file, or in the kernel the ip. For callers perf uses the ip.
func leafIP(f *session.Frame) uint64 {
	if f.Map == nil || f.Map.DSO.IsKernel() {
		return f.IP
	}
	return dso.OffOfIP(f.IP, f.Map.Start, f.Map.Pgoff)
}

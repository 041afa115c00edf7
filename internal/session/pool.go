package session

import (
	"iter"
	"math"
	"slices"

	"gperf/internal/dso"
	"gperf/symbolize"
)

// Pool answers which frames of several recordings are the same. A frame of the pool keeps the names of the
// recording's frame and nothing else of the session, so that the session's memory can be freed.
//
// Two functions are the same if their names and DSOs are the same. Two DSOs are the same if they share a build ID
// or a path. The address of a frame is its offset in the DSO, so that it is the same wherever the DSO was mapped. A
// Pool is for one goroutine.
type Pool struct {
	PoolOptions

	names   map[dso.BuildID]*dsoName
	byName  map[string]*dsoName
	maps    map[poolMap]*Map
	symbols map[poolSymbol]*symbolize.Symbol
	frames  map[poolFrame]*Frame
	chains  *Callchains
	threads map[poolThread]*Thread
	code    map[uint64]*Frame // of kernel addresses, by the number that Code returns
	ids     []int32           // of Chain, used again
	known   []*Frame          // of the present recording, by Frame.ID
	places  map[*Map]*Map     // of the present recording
}

// dsoName is the name of DSOs that are the same.
type dsoName struct{ name, short string }

// poolMap identifies a Map of a Pool: a build of a DSO.
type poolMap struct {
	dso *dsoName
	id  dso.BuildID
}

// poolSymbol identifies a function.
type poolSymbol struct {
	dso  *dsoName
	name string
}

// poolFrame identifies a frame. With a symbol, at is the distance from the symbol's start.
type poolFrame struct {
	m      *Map
	sym    *symbolize.Symbol
	at     uint64
	kernel bool
	// isReturn distinguishes a return address, whose source line is the line of the call before it.
	isReturn bool
}

// poolThread identifies a thread.
type poolThread struct {
	pid, tid            int32
	comm, first, leader string
	named               bool
}

// pooled holds the values that a frame of a Pool stores instead of looking them up.
type pooled struct {
	start  string // see Frame.StartName
	origin dso.Origin
}

// PoolOptions select the values that frames of a Pool store besides the symbols.
type PoolOptions struct {
	Lines  bool // source lines and inlined functions
	Starts bool // names of functions without a symbol, see Frame.StartName
	// Functions merges all frames of a function, for callers that need no addresses.
	Functions bool
}

// NewPool returns an empty pool.
func NewPool(opts PoolOptions) *Pool {
	return &Pool{PoolOptions: opts, names: map[dso.BuildID]*dsoName{}, byName: map[string]*dsoName{},
		maps: map[poolMap]*Map{}, symbols: map[poolSymbol]*symbolize.Symbol{}, frames: map[poolFrame]*Frame{},
		chains: newCallchains(), threads: map[poolThread]*Thread{}, code: map[uint64]*Frame{}}
}

// Begin turns to the frames of another recording. It looks up the source lines of those that are new on all CPUs.
func (p *Pool) Begin(frames iter.Seq[*Frame]) {
	p.known, p.places = nil, map[*Map]*Map{}
	var unlined []*Frame
	for f := range frames {
		if f == nil || f.ID < 0 {
			continue
		}
		if p.known = grown(p.known, f.ID); p.known[f.ID] != nil {
			continue
		}
		own := p.find(f)
		p.known[f.ID] = own
		if p.Lines && own.needsCalls(f) {
			unlined = append(unlined, f)
		}
	}
	LookUpCalls(slices.Values(unlined))
	for _, f := range unlined {
		p.known[f.ID].keepCalls(f)
	}
}

// grown returns the list, extended if it does not contain the index.
func grown(list []*Frame, index int) []*Frame {
	if index >= len(list) {
		list = append(list, make([]*Frame, 1+index-len(list))...)
	}
	return list
}

// Frame returns the frame of the pool for a frame of a recording, nil for nil.
func (p *Pool) Frame(f *Frame) *Frame {
	if f == nil || f.pooled != nil {
		return f
	}
	if f.ID >= 0 && f.ID < len(p.known) && p.known[f.ID] != nil {
		return p.known[f.ID]
	}
	own := p.find(f)
	if p.Lines {
		own.keepCalls(f)
	}
	return own
}

// find returns the frame of the pool for a frame of the recording, without source lines.
func (p *Pool) find(f *Frame) *Frame {
	k := poolFrame{m: p.mapOf(f), kernel: f.Kernel, at: f.MapOff(), isReturn: f.Return}
	sym := f.Sym()
	if sym != nil && k.m != nil {
		if k.sym, k.at = p.symbol(k.m, sym), f.Off(); p.Functions {
			k.at, k.isReturn = 0, false
		}
	}
	own := p.frames[k]
	if own == nil {
		own = &Frame{IP: f.MapOff(), Return: f.Return, Kernel: f.Kernel, Map: k.m, label: f.label,
			pooled: &pooled{origin: f.Origin()}}
		if p.Starts && sym == nil {
			own.pooled.start = f.StartName()
		}
		own.once.Do(func() {
			own.sym, own.off, own.why = k.sym, f.Off(), f.Reason()
			if k.sym == nil {
				own.sym = sym
			}
		})
		p.chains.add(own)
		p.frames[k] = own
	}
	return own
}

// keepCalls copies the source lines of a recording's frame, unless they are known.
func (f *Frame) keepCalls(from *Frame) {
	if f.needsCalls(from) {
		calls := from.Calls()
		f.calls.Store(&calls)
	}
}

// needsCalls reports whether the source lines of a recording's frame may add to the known lines. Files of this
// machine always give the same lines, files of archives may give others.
func (f *Frame) needsCalls(from *Frame) bool {
	kept := f.calls.Load()
	return kept == nil || len(*kept) == 0 && from.symbols != nil && from.symbols.Locator().Packed()
}

// mapOf returns the mapping of a frame's DSO, from the first byte on.
func (p *Pool) mapOf(f *Frame) *Map {
	if f.Map == nil {
		return nil
	}
	if m := p.places[f.Map]; m != nil {
		return m
	}
	d := f.Map.DSO
	k := poolMap{dso: p.name(d)}
	if !d.BuildID.IsZero() { // builds without build ID are one
		k.id = d.BuildID
	}
	m := p.maps[k]
	if m == nil {
		m = &Map{End: math.MaxInt64, DSO: &DSO{Name: k.dso.name, Short: k.dso.short, BuildID: k.id}}
		if d.IsKernel() || f.Kernel {
			m.Start, m.End = f.Map.Start, f.Map.End
		}
		p.maps[k] = m
	}
	if p.places != nil {
		p.places[f.Map] = m
	}
	return m
}

// name returns the first name recorded for the DSO's build ID, or else the DSO's own name. All kernels share one name.
func (p *Pool) name(d *DSO) *dsoName {
	if n := p.names[d.BuildID]; n != nil && !d.BuildID.IsZero() {
		return n
	}
	key := d.Name
	if d.IsKernel() {
		key = dso.KernelName
	}
	n := p.byName[key]
	if n == nil {
		n = &dsoName{d.Name, d.Short}
		p.byName[key] = n
	}
	if !d.BuildID.IsZero() {
		p.names[d.BuildID] = n
	}
	return n
}

// symbol returns the pool's symbol for a function. The symbol's addresses do not overlap with other functions.
func (p *Pool) symbol(m *Map, sym *symbolize.Symbol) *symbolize.Symbol {
	k := poolSymbol{p.name(m.DSO), sym.Name}
	own := p.symbols[k]
	if own == nil {
		start := uint64(len(p.symbols)+1) << 32
		own = &symbolize.Symbol{Start: start, End: start + min(sym.End-sym.Start, 1<<31), Name: sym.Name, Raw: sym.Raw}
		p.symbols[k] = own
	}
	return own
}

// Chain returns the chain of the pool for a chain of a recording. The keys of equal chains are equal.
func (p *Pool) Chain(c Chain) Chain { return Chain{p.part(c.Kernel), p.part(c.User)} }

// Stack returns the stack of the pool for a stack of a recording.
func (p *Pool) Stack(k StackKey) StackKey {
	chain := p.Chain(k.Chain.Chain())
	return StackKey{chain.Key(), p.Frame(k.Leaf)}
}

func (p *Pool) part(of Part) Part {
	p.ids = p.ids[:0]
	for _, f := range of.All() {
		p.ids = append(p.ids, int32(p.Frame(f).ID))
	}
	return p.chains.keep(p.ids)
}

// Thread returns a thread of the pool, without mappings.
func (p *Pool) Thread(th *Thread) *Thread {
	leader := th.Leader()
	k := poolThread{th.PID, th.TID, th.Comm, th.FirstComm, leader.Comm, th.Named}
	own := p.threads[k]
	if own == nil {
		own = th.Detached()
		p.threads[k] = own
	}
	return own
}

// Waker returns a waker of the pool, nil for nil.
func (p *Pool) Waker(w *Waker) *Waker {
	if w == nil {
		return nil
	}
	own := *w
	own.Chain, own.Leaf = p.Chain(w.Chain), p.Frame(w.Leaf)
	return &own
}

// Code returns a number for the kernel code at an ip of a recording, which is the same for the same code in all of
// them, and not the number of other code. It returns ip for code without a symbol.
func (p *Pool) Code(s *Session, ip uint64) uint64 {
	sym, off, module, why := s.Symbols.Kernel(ip)
	if why != symbolize.Found {
		return ip
	}
	name := p.name(&DSO{Name: dso.KernelName})
	if module != "" {
		name = p.name(&DSO{Name: module})
	}
	own := p.symbol(p.kernelMap(name), sym)
	p.code[own.Start+off] = &Frame{sym: own, off: off, label: module}
	return own.Start + off
}

func (p *Pool) kernelMap(n *dsoName) *Map {
	k := poolMap{dso: n}
	m := p.maps[k]
	if m == nil {
		m = &Map{End: math.MaxInt64, DSO: &DSO{Name: n.name, Short: n.short}}
		p.maps[k] = m
	}
	return m
}

// Symbol returns the symbol of the code for which Code returned the number, in the form of tracepoint.Env.Symbol.
func (p *Pool) Symbol(number uint64) (name string, offset uint64, module string, ok bool) {
	f := p.code[number]
	if f == nil {
		return "", 0, "", false
	}
	return f.sym.Name, f.off, f.label, true
}

// Detached returns a frame with the same address and names, which keeps nothing of the session in memory. size
// returns the size of the mapping.
func (f *Frame) Detached(size func(*Frame) uint64) *Frame {
	own := &Frame{ID: f.ID, IP: f.IP, Return: f.Return, Kernel: f.Kernel, label: f.label,
		pooled: &pooled{origin: f.Origin()}}
	if f.Map != nil {
		m := &Map{Start: f.Map.Start, Pgoff: f.Map.Pgoff, DSO: f.Map.DSO}
		m.End = m.Start + size(f)
		own.Map = m
	}
	sym, off, why := f.Sym(), f.Off(), f.Reason()
	own.once.Do(func() { own.sym, own.off, own.why = sym, off, why })
	return own
}

// Detached returns a thread with the same names, without mappings.
func (th *Thread) Detached() *Thread {
	own := &Thread{PID: th.PID, TID: th.TID, Comm: th.Comm, Named: th.Named, FirstComm: th.FirstComm, parent: th.parent}
	if leader := th.Leader(); leader != th {
		own.leader = leader.Detached()
	}
	return own
}

package report

import "runtime"

// filler adds a part of a histogram's stacks to entries, one at a time.
type filler struct {
	builder *histBuilder
	hist    *Hist
	first   int // of folds in Hist.folds
	folds   []*folded
	entries []*Entry // in the order in which they came up
	byKey   map[entryKey]*Entry
	recent  []*Entry // the last entry at a place, by place.number: most functions are of one program

	number int      // of the stack
	tails  []hopSum // of the stack's callchain from each frame on
	stack  *folded
}

// fillers returns fillers for consecutive parts of the stacks. Keys that number values, such as lines, need one filler.
func (b *histBuilder) fillers() (list []*filler) {
	const least = 1024 // stacks of a filler
	folds, n := b.hist.folds, min(runtime.GOMAXPROCS(0), 1+len(b.hist.folds)/least)
	if b.hist.layout.uses&(usesSrcline|usesSrcfile|usesAddress|usesPlace|usesParent) != 0 || b.hist.opts.Parents.Only {
		n = 1
	}
	for i := range n {
		from, to := i*len(folds)/n, (i+1)*len(folds)/n
		list = append(list, &filler{builder: b, hist: b.hist, first: from, folds: folds[from:to],
			byKey: map[entryKey]*Entry{}, recent: make([]*Entry, len(b.hist.places.all))})
	}
	return list
}

// sum adds the figures of the stacks to their entries.
func (f *filler) sum() {
	for i, st := range f.folds {
		f.number, f.stack = i+1, st
		f.leaf().Self.addAt(st.of.level, &st.Sum)
		f.sumHops(st)
		f.each(func(e *Entry, from int) {
			e.Children.addAt(st.of.level, &st.Sum)
			e.depth = max(e.depth, len(st.chain)-from)
			if from < len(st.chain) {
				e.chains++
			}
			if st.hops != nil {
				e.hops.AddTotals(&f.tails[from])
			}
		})
	}
}

// addCalls adds the callchains to the entries that have room for them. Several fillers may do so at a time.
func (f *filler) addCalls() {
	for i, st := range f.folds {
		f.number, f.stack = -i-1, st
		f.each(func(e *Entry, from int) {
			if e.of.calls != nil && from < len(st.chain) {
				e.of.calls[e.free] = call{int32(f.first + i), int32(from)}
				e.free++
			}
		})
	}
}

// leaf returns the entry of the stack's sampled frame.
func (f *filler) leaf() *Entry {
	pl := f.stack.leaf
	return f.entry(pl, pl.leafID, f.hist.places.leafIP(pl), f.stack.of.level, atSample)
}

// each visits the stack's entries, each once although functions recur: the entry of
// the leaf with the whole callchain, and the callers' with the rest of it, from
// them on.
func (f *filler) each(visit func(e *Entry, from int)) {
	e := f.leaf()
	e.last = f.number
	visit(e, 0)
	if f.hist.opts.NoChildren {
		return
	}
	level := f.stack.of.level
	for i, n := range f.stack.chain {
		pl := f.hist.places.all[n]
		// Perf 7.3 marks the kernel's callers like a process's, and an address
		// in no mapping like the frame before it.
		if pl.frame.Map != nil {
			level = '.'
		}
		e := f.entry(pl, pl.id, pl.frame.IP, level, f.stack.position(i))
		if e.last != f.number {
			e.last = f.number
			visit(e, i)
		}
	}
}

// entry finds or makes the entry of the stack at a place.
func (f *filler) entry(pl *place, id int32, ip uint64, level byte, at position) *Entry {
	k, uses := f.stack.of.key, f.hist.layout.uses
	if f.stack.parent != nil {
		k.parent = f.builder.identities.names.numberOf(f.stack.parent.Name)
	}
	var src source
	if uses&(usesSrcline|usesSrcfile) != 0 {
		src = f.builder.source(pl, at)
		if uses&usesSrcline != 0 {
			k.srcline = src.lineNumber
		}
		if uses&usesSrcfile != 0 {
			k.srcfile = src.fileNumber
		}
	}
	switch uses & (usesDSO | usesSymbol | usesAddress) {
	case 0:
	case usesDSO:
		k.place = pl.file
	case usesSymbol, usesDSO | usesSymbol:
		k.place = id
	case usesAddress:
		k.place = f.hist.places.address("", pl.frame.IP)
	default:
		k.place = f.hist.places.address(pl.dso, pl.frame.IP)
	}
	if uses&usesPlace != 0 {
		k.numbers = f.builder.numbersOf(pl, ip)
	}
	if e := f.recent[pl.number]; e != nil && e.key == k {
		return e
	}
	e := f.byKey[k]
	if e == nil {
		st := f.stack
		e = &Entry{
			Comm:    st.of.comm,
			Thread:  st.thread,
			CPU:     st.of.cpu,
			Level:   level,
			place:   pl,
			ip:      ip,
			raw:     st.of.raw,
			srcline: src.line,
			srcfile: src.file,
			extra:   st.of.extra,
			parent:  st.parent,
			key:     k,
		}
		f.byKey[k] = e
		f.entries = append(f.entries, e)
	}
	f.recent[pl.number] = e
	return e
}

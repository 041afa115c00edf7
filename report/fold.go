package report

import (
	"hash/maphash"
	"slices"
	"sync"

	"gperf/internal/intern"
	"gperf/internal/parallel"
	"gperf/internal/session"
	"gperf/report/key"
	"gperf/symbolize"
)

// Most stacks of programs differ in addresses within the same functions. A histogram counts those that neither keys nor
// call graphs distinguish as one. All CPUs make the places of callchains, twice: for a hash of each stack, and then of
// the first stack with each hash, so that only these are in memory.

// folded is the stacks of a histogram that nothing distinguishes. Its values are those of the first.
type folded struct {
	of     *subject
	first  int32 // among the event's stacks
	thread *session.Thread
	leaf   *place
	chain  []int32 // numbers of places, in the call graph's order
	hops   []*hop  // of chain; nil: a callchain without branches
	parent *symbolize.Symbol
	Sum    // of all
}

// pairHash is two hashes with seeds that are new for each process: that two of a billion stacks have both in common is
// less likely than an error of the memory.
type pairHash struct{ a, b uint64 }

var seedA, seedB = maphash.MakeSeed(), maphash.MakeSeed()

func pairHashOf[T comparable](v T) pairHash {
	return pairHash{maphash.Comparable(seedA, v), maphash.Comparable(seedB, v)}
}

// add makes h, the hash of a list, the hash of the list with another member.
func (h *pairHash) add(member pairHash) {
	h.a = (h.a ^ member.a) * 0x9e3779b97f4a7c15
	h.a ^= h.a >> 29
	h.b = (h.b ^ member.b) * 0xc2b2ae3d27d4eb4f
	h.b ^= h.b >> 31
}

// fold returns the stacks as entries count them.
func (b *histBuilder) fold(stacks []*stack) (list []*folded) {
	b.setKeys(stacks)
	hashes := make([]pairHash, len(stacks))
	b.inBlocks(len(stacks), func(p *placer, from, to int) {
		for i := from; i < to; i++ {
			hashes[i] = p.hash(stacks[i])
		}
	})
	apart := b.hist.layout.uses&(usesSrcline|usesSrcfile|usesAddress|usesPlace) != 0
	var index intern.Table
	var known []int32 // in list, by number in index
	for i, st := range stacks {
		h := hashes[i]
		if h == leftOut {
			continue
		}
		if !apart && st.Of.history == nil {
			n, added := index.Add(uint32(h.a), func(n int32) bool { return hashes[list[known[n]].first] == h })
			if !added {
				list[known[n]].Sum.add(&st.Sum.Sum)
				continue
			}
			known = append(known, int32(len(list)))
		}
		list = append(list, &folded{of: st.Of, first: int32(i), thread: st.Sum.thread, Sum: st.Sum.Sum})
	}
	b.inBlocks(len(list), func(p *placer, from, to int) { p.keep(list[from:to], stacks) })
	return list
}

// inBlocks calls do for blocks of n stacks, on all CPUs.
func (b *histBuilder) inBlocks(n int, do func(p *placer, from, to int)) {
	const block = 1024
	parallel.Do((n+block-1)/block, func(i int) {
		p := placers.Get().(*placer)
		p.places, p.parents = b.hist.places, b.hist.layout.uses&usesParent != 0 || b.hist.opts.Parents.Only
		do(p, i*block, min((i+1)*block, n))
		p.places, p.leaf, p.parent = nil, nil, nil // the pool must not keep them in memory
		placers.Put(p)
	})
}

// placer makes the places of one stack after the other.
type placer struct {
	places  *places
	parents bool // keys use the parent
	leaf    *place
	chain   []int32
	hops    []*hop
	parent  *symbolize.Symbol
	block   []int32 // of several chains
	ends    []int   // of each of them in block
}

var placers = sync.Pool{New: func() any { return new(placer) }}

// place makes the places of a stack. It returns false if the stack is left out.
func (p *placer) place(st *stack) bool {
	if !p.setChain(st) {
		return false
	}
	if p.leaf == nil {
		p.leaf = p.places.of(st.Leaf)
	}
	return true
}

// setChain makes the places of a stack's callchain, and finds the parent. It sets the leaf if --ignore-callees moves
// the samples. It returns false if the stack is left out.
func (p *placer) setChain(st *stack) bool {
	p.chain, p.hops = p.places.chain(p.chain[:0], st)
	p.leaf, p.parent = nil, nil
	p.ignoreCallees()
	if p.parents {
		if i := slices.IndexFunc(p.chain, func(n int32) bool { return p.places.all[n].parent }); i >= 0 {
			p.parent = p.places.all[p.chain[i]].frame.Sym()
		}
	}
	return p.parent != nil || !p.places.opts.Parents.Only
}

// ignoreCallees moves the samples to the callchain's last function that matches --ignore-callees. As in perf, the
// frames before it are dropped: the callees, or in graphs that begin with the callers, the callers.
func (p *placer) ignoreCallees() {
	if p.places.opts.IgnoreCallees == nil {
		return
	}
	for i, n := range slices.Backward(p.chain) {
		if pl := p.places.all[n]; pl.ignoring {
			p.chain, p.leaf = append(p.chain[:0], p.chain[i:]...), pl
			if p.hops != nil {
				p.hops = p.hops[i:]
			}
			return
		}
	}
}

// leftOut is the hash of stacks that are left out.
var leftOut pairHash

// hash returns the same for stacks that no key of a place and no call graph distinguishes.
func (p *placer) hash(st *stack) pairHash {
	if !p.place(st) {
		return leftOut
	}
	h, hashes := st.Of.hash, p.places.hashes
	h.add(hashes[p.leaf.number])
	h.add(pairHash{uint64(p.leaf.leafID), uint64(p.leaf.leafID)})
	for _, n := range p.chain {
		h.add(hashes[n])
	}
	return h
}

// keep sets the places of the first of stacks.
func (p *placer) keep(list []*folded, stacks []*stack) {
	p.block, p.ends = p.block[:0], p.ends[:0]
	for _, f := range list {
		p.place(stacks[f.first])
		f.leaf, f.hops, f.parent = p.leaf, p.hops, p.parent
		p.block = append(p.block, p.chain...)
		p.ends = append(p.ends, len(p.block))
	}
	block, start := slices.Clone(p.block), 0
	for i, f := range list {
		f.chain = block[start:p.ends[i]:p.ends[i]]
		start = p.ends[i]
	}
}

// setKeys sets the keys of the subjects of stacks.
func (b *histBuilder) setKeys(stacks []*stack) {
	known := map[*subject]bool{}
	for _, st := range stacks {
		if !known[st.Of] {
			known[st.Of] = true
			st.Of.key = b.keyOf(st)
			st.Of.hash = pairHashOf(struct {
				key   entryKey
				level byte
			}{st.Of.key, st.Of.level})
		}
	}
}

// keyOf returns the key of the entries of a stack, without parent and place.
func (b *histBuilder) keyOf(st *stack) (k entryKey) {
	uses := b.hist.layout.uses
	if uses&usesComm != 0 {
		k.comm = st.Of.commID
	}
	if uses&usesTID != 0 {
		k.tid = st.Sum.thread.TID
	}
	if uses&usesPID != 0 {
		k.pid = st.Sum.thread.PID
	}
	if uses&usesNoDigit != 0 {
		k.noDigit = b.identities.names.numberOf(key.NoDigits(st.Of.comm))
	}
	if uses&usesCPU != 0 {
		k.cpu = st.Of.cpu
	}
	if uses&usesRaw != 0 {
		k.raw = b.rawID(st.Of.raw)
	}
	if uses&usesExtra != 0 {
		b.buf = b.hist.layout.appendIdentity(b.buf[:0], st.Of.extra, func(k *SortKey, f *session.Frame) uint64 {
			return uint64(k.identity(b.hist.places, f))
		})
		k.extra = b.identities.extras.number(b.buf)
	}
	return k
}

package report

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// call is the part of a callchain that belongs to an entry: the frames from one on.
type call struct {
	stack int32 // in Hist.folds
	from  int32
}

// branch is a sequence of frames that callchains share: they fork or end only after
// its last frame.
type branch struct {
	frames   []*place
	parent   *branch
	children []*branch // in a graph only those to show, the biggest first
	hops     []hopSum  // of frames with branches
	calls
}

// calls sums up the calls that end in a branch and those that continue below it.
type calls struct {
	hits, below        uint64 // periods
	samples, moreBelow uint64
}

func (c *calls) sum() uint64        { return c.hits + c.below }
func (c *calls) sumSamples() uint64 { return c.samples + c.moreBelow }

// grower makes the tree of an entry's callchains. It does not descend into
// branches that are too small to be shown.
type grower struct {
	graph   *CallGraph
	places  *places
	folds   []*folded
	minHits uint64
	entry   []call    // all calls of the entry; lists of calls are indexes, which move often
	calls   []growing // the same calls

	// Scratch memory, reused for each fork.
	forks  int32
	all    []int32   // indexes of calls
	group  []groupOf // by place.chain
	groups []int32   // of each call, -1 for one that ends
	list   []int32
}

// growing is a call with the values that each fork reads.
type growing struct {
	frames          []int32 // numbers of places, from call.from on
	period, samples uint64
}

// groupOf maps a place to the group at a fork.
type groupOf struct{ fork, group int32 }

// group holds the calls that continue with the same frame after a fork.
type group struct {
	calls  []int32
	n      int
	period uint64
}

var growers = sync.Pool{New: func() any { return new(grower) }}

// grow returns the tree's root, a branch without frames.
func grow(h *Hist, list []call) *branch {
	root := &branch{}
	w := growers.Get().(*grower)
	w.graph, w.places, w.folds, w.minHits = &h.opts.Graph, h.places, h.folds, h.minHits
	w.entry, w.calls = list, slices.Grow(w.calls[:0], len(list))
	w.all, w.list, w.groups = sized(w.all, len(list)), sized(w.list, len(list)), sized(w.groups, len(list))
	for i, c := range list {
		w.all[i] = int32(i)
		st := h.folds[c.stack]
		w.calls = append(w.calls, growing{st.chain[c.from:], st.Period, st.Samples})
	}
	w.fork(root, w.all, 0)
	w.places, w.folds, w.entry = nil, nil, nil // the pool must not keep them in memory
	clear(w.calls)
	growers.Put(w)
	return root
}

// sized returns a list of n elements, in the memory of list if it is large enough.
func sized(list []int32, n int) []int32 { return slices.Grow(list[:0], n)[:n] }

// fork counts the calls of b, whose callchains are the same in the first n
// frames, and adds b's children. It reorders the list.
func (w *grower) fork(b *branch, list []int32, n int) {
	groups := w.divide(b, list, n)
	groups = slices.DeleteFunc(groups, func(g group) bool { return len(g.calls) == 0 })
	if len(groups) > 1 {
		groups = order(groups, func(there, new group) bool {
			return before(w.at(there.calls[0], n), w.at(new.calls[0], n))
		})
	}
	for _, g := range groups {
		b.children = append(b.children, w.branch(b, g.calls, n))
	}
	if !w.graph.isList() {
		slices.SortStableFunc(b.children, func(a, b *branch) int { return cmp.Compare(b.sum(), a.sum()) })
	}
}

// divide counts the calls of b and groups those with the same next frame. Groups
// that are too small to be shown get no calls.
func (w *grower) divide(b *branch, list []int32, n int) (groups []group) {
	w.forks++
	w.groups = w.groups[:0]
	for _, at := range list {
		c := &w.calls[at]
		if n == len(c.frames) {
			b.hits += c.period
			b.samples += c.samples
			w.groups = append(w.groups, -1)
			continue
		}
		b.below += c.period
		b.moreBelow += c.samples
		i := w.groupOf(c.frames[n], &groups)
		groups[i].n++
		groups[i].period += c.period
		w.groups = append(w.groups, i)
	}
	at, least := 0, w.least(b)
	for i := range groups {
		g := &groups[i]
		if g.period < least {
			g.n = 0
		}
		g.calls = list[at : at : at+g.n]
		at += g.n
	}
	w.list = append(w.list[:0], list...)
	for i, c := range w.list {
		if k := w.groups[i]; k >= 0 && groups[k].n > 0 {
			groups[k].calls = append(groups[k].calls, c)
		}
	}
	return groups
}

// at returns the place of frame n of a call.
func (w *grower) at(call int32, n int) *place { return w.places.all[w.calls[call].frames[n]] }

// groupOf returns the index of the group whose next frame is at a place.
func (w *grower) groupOf(place int32, groups *[]group) int32 {
	chain := w.places.graph[place]
	if int(chain) >= len(w.group) {
		w.group = append(w.group, make([]groupOf, int(chain)+1)...)
	}
	g := &w.group[chain]
	if g.fork != w.forks {
		*g = groupOf{w.forks, int32(len(*groups))}
		*groups = append(*groups, group{})
	}
	return g.group
}

// branch returns a new child of parent that begins with frame n of the callchains.
func (w *grower) branch(parent *branch, list []int32, n int) *branch {
	b := &branch{parent: parent}
	first, graph := w.calls[list[0]].frames, w.places.graph
	for {
		b.frames = append(b.frames, w.at(list[0], n))
		if w.graph.Branches {
			b.hops = append(b.hops, w.sumAt(list, n))
		}
		n++
		if n == len(first) || slices.ContainsFunc(list, func(at int32) bool {
			frames := w.calls[at].frames
			return n == len(frames) || graph[frames[n]] != graph[first[n]]
		}) {
			break
		}
	}
	w.fork(b, list, n)
	return b
}

// before reports whether b's branch comes before a's if the hits are equal:
// perf compares the addresses of DSO structs, which dsoRanks replaces, and
// the symbols' addresses (match_chain of tools/perf/util/callchain.c).
func before(a, b *place) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	if a.frame.Sym() != nil && b.frame.Sym() != nil {
		return a.frame.Sym().Start < b.frame.Sym().Start
	}
	return a.frame.IP < b.frame.IP
}

// flat returns the branches in which enough callchains end, in descending order of hits.
func flat(b *branch, minHits uint64) []*branch {
	var list []*branch
	var visit func(*branch)
	visit = func(b *branch) {
		for _, c := range b.children {
			visit(c)
		}
		if b.hits > 0 && b.hits >= minHits {
			list = append(list, b)
		}
	}
	visit(b)
	slices.SortStableFunc(list, func(a, b *branch) int { return cmp.Compare(b.hits, a.hits) })
	return list
}

// minPeriod returns the minimum period of branches that are shown.
func (g *CallGraph) minPeriod(total uint64) uint64 {
	if g.Mode == GraphFractal {
		return 0
	}
	return uint64(float64(total) * (g.Percent / 100))
}

// least returns the minimum period of children of b that are shown.
func (w *grower) least(b *branch) uint64 {
	if w.graph.Mode == GraphFractal {
		return uint64(math.Ceil(float64(b.below) * (w.graph.Percent / 100)))
	}
	return w.minHits
}

// isList reports whether callchains are shown as a list.
func (g *CallGraph) isList() bool { return g.Mode == GraphFlat || g.Mode == GraphFolded }

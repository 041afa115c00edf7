package symbolize

import "slices"

// tableBuilder collects the entries of a table in the order in which perf inserts them into its tree. With overlapping
// symbols, the result of a lookup depends on this order.
type tableBuilder struct {
	show    func(*entry) string
	entries []entry // sorted
	history []event
	nodes   int32 // number of entries ever added
	apart   int32 // nodes when no entries overlapped, 0 if ends have grown since

	walk    walk // perf's tree after the first replays events of history
	replays int
	starts  []uint64 // of the entries by node of this tree, from 1 on
}

// event is one change of perf's tree.
type event struct {
	start uint64 // of the entry added
	erase int32  // node that is erased, 0 if one is added
}

// add adds entries in the order of list, which it sorts and keeps.
func (b *tableBuilder) add(list []entry) {
	b.history = slices.Grow(b.history, len(list))
	for i := range list {
		b.nodes++
		list[i].node = b.nodes
		b.history = append(b.history, event{start: list[i].start})
	}
	sortEntries(list)
	if len(b.entries) == 0 {
		b.entries = list
		return
	}
	// Merge from the end, where there is room. Added entries go after equal ones.
	i, j := len(b.entries)-1, len(list)-1
	b.entries = append(b.entries, list...)
	for k := len(b.entries) - 1; j >= 0; k-- {
		if i >= 0 && b.entries[i].start > list[j].start {
			b.entries[k] = b.entries[i]
			i--
		} else {
			b.entries[k] = list[j]
			j--
		}
	}
}

// resolve sets the ends of symbols without a size, and drops all but one symbol at each address.
func (b *tableBuilder) resolve() {
	fixupEnds(b.entries, func(_, next *entry) uint64 { return next.start })
	b.entries = dropDuplicates(b.entries, b.show, b.erased)
}

func (b *tableBuilder) erased(e *entry) { b.history = append(b.history, event{erase: e.node}) }

// find returns the current entry at addr, or nil.
func (b *tableBuilder) find(addr uint64) *entry {
	i := -1
	if b.apart == b.nodes {
		i = find(b.entries, addr)
	} else if w := b.overlap(); w != nil {
		i = w.find(b.entries, addr)
	} else {
		b.apart = b.nodes
		i = find(b.entries, addr)
	}
	if i < 0 {
		return nil
	}
	return &b.entries[i]
}

// overlap returns perf's current tree, or nil if no entries overlap, so that the tree's shape does not matter.
func (b *tableBuilder) overlap() *walk {
	if b.replays == 0 && !overlapping(b.entries) {
		return nil
	}
	if b.replays == len(b.history) {
		return &b.walk
	}
	if b.walk.tree == nil {
		b.walk.tree = new(RBTree)
	}
	for _, h := range b.history[b.replays:] {
		if h.erase != 0 {
			b.walk.tree.erase(h.erase)
		} else {
			b.starts = append(b.starts, h.start)
			b.walk.tree.Insert(func(n int32) bool { return h.start < b.starts[n-1] })
		}
	}
	b.replays = len(b.history)
	b.walk.index = make([]int32, b.nodes+1)
	for i := range b.entries {
		b.walk.index[b.entries[i].node] = int32(i)
	}
	return &b.walk
}

func (b *tableBuilder) table() *Table {
	entries := slices.Clip(b.entries)
	if b.overlap() == nil {
		return newTable(entries, nil, b.show)
	}
	w := walk{tree: b.walk.tree, index: b.walk.index} // do not keep the builder in memory
	return newTable(entries, func(addr uint64) int { return w.find(entries, addr) }, b.show)
}

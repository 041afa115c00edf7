package symbolize

import "slices"

// builder collects the entries of a table in the order in which perf inserts
// them, which counts where symbols overlap.
type builder struct {
	show    func(*entry) string
	entries []entry // sorted
	history []event
	nodes   int32 // entries ever added

	walk    walk // perf's tree after the first replayed events; made when needed
	replays int
}

// event is one change of perf's tree.
type event struct {
	start uint64 // of the entry added
	erase int32  // node that is erased, 0 if one is added
}

// add adds entries in the order of list, which it sorts.
func (b *builder) add(list []entry) {
	b.history = slices.Grow(b.history, len(list))
	for i := range list {
		b.nodes++
		list[i].node = b.nodes
		b.history = append(b.history, event{start: list[i].start})
	}
	sortEntries(list)
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

// settle gives an end to symbols without a size, and one symbol to each address.
func (b *builder) settle() {
	fixupEnds(b.entries, func(_, next *entry) uint64 { return next.start })
	b.entries = dropDuplicates(b.entries, b.show, b.erased)
}

func (b *builder) erased(e *entry) { b.history = append(b.history, event{erase: e.node}) }

// remove removes the entry of that start and name.
func (b *builder) remove(start uint64, name string) {
	i := slices.IndexFunc(b.entries, func(e entry) bool { return e.start == start && e.name == name })
	if i >= 0 {
		b.erased(&b.entries[i])
		b.entries = slices.Delete(b.entries, i, i+1)
	}
}

// find returns the entry that answers for addr at this moment, nil if none does.
func (b *builder) find(addr uint64) *entry {
	var i int
	if w := b.overlap(); w != nil {
		i = w.find(b.entries, addr)
	} else {
		i = find(b.entries, addr)
	}
	if i < 0 {
		return nil
	}
	return &b.entries[i]
}

// overlap returns the tree that perf has at this moment, nil if no two entries
// overlap and the tree's shape does not matter.
func (b *builder) overlap() *walk {
	if b.replays == 0 && !overlapping(b.entries) {
		return nil
	}
	if b.replays == len(b.history) {
		return &b.walk
	}
	if b.walk.tree == nil {
		b.walk.tree = new(rbTree)
	}
	for _, h := range b.history[b.replays:] {
		if h.erase != 0 {
			b.walk.tree.erase(h.erase)
		} else {
			b.walk.tree.insert(h.start)
		}
	}
	b.replays = len(b.history)
	b.walk.index = make([]int32, b.nodes+1)
	for i := range b.entries {
		b.walk.index[b.entries[i].node] = int32(i)
	}
	return &b.walk
}

func (b *builder) table() *Table {
	w := b.overlap()
	if w != nil {
		w = &walk{tree: w.tree, index: w.index} // lets go of the builder
	}
	return newTable(slices.Clip(b.entries), w, b.show)
}

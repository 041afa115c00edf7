package symbolize

import "slices"

// builder collects the entries of a table in the order in which perf inserts
// them, which counts where symbols overlap.
type builder struct {
	show    func(*entry) string
	entries []entry // sorted
	nodes   int32   // entries ever added
	history []event
	walk    *walk // of entries as they are now; nil if not needed yet
}

// event is one change of perf's tree.
type event struct {
	start uint64 // of the entry added
	erase int32  // node that is erased, 0 if one is added
}

func (b *builder) add(list []entry) {
	for i := range list {
		b.nodes++
		list[i].node = b.nodes
		b.history = append(b.history, event{start: list[i].start})
	}
	b.entries = append(b.entries, list...)
	sortEntries(b.entries)
	b.walk = nil
}

// settle gives an end to symbols without a size, and one symbol to each address.
func (b *builder) settle() {
	fixupEnds(b.entries, func(_, next *entry) uint64 { return next.start })
	b.entries = dropDuplicates(b.entries, b.show, b.erased)
	b.walk = nil
}

func (b *builder) erased(e *entry) { b.history = append(b.history, event{erase: e.node}) }

// remove takes the entry of that start and name out again.
func (b *builder) remove(start uint64, name string) {
	i := slices.IndexFunc(b.entries, func(e entry) bool { return e.start == start && e.name == name })
	if i >= 0 {
		b.erased(&b.entries[i])
		b.entries = slices.Delete(b.entries, i, i+1)
		b.walk = nil
	}
}

// find returns the entry that answers for addr at this moment, nil if none does.
func (b *builder) find(addr uint64) *entry {
	i := -1
	if overlapping(b.entries) {
		i = b.overlapped().find(b.entries, addr)
	} else {
		i = find(b.entries, addr)
	}
	if i < 0 {
		return nil
	}
	return &b.entries[i]
}

// overlapped makes the tree that perf would have now.
func (b *builder) overlapped() *walk {
	if b.walk != nil {
		return b.walk
	}
	w := &walk{tree: &rbTree{nodes: make([]rbNode, 1, b.nodes+1)}, index: make([]int32, b.nodes+1)}
	for _, h := range b.history {
		if h.erase != 0 {
			w.tree.erase(h.erase)
		} else {
			w.tree.insert(h.start)
		}
	}
	for i := range b.entries {
		w.index[b.entries[i].node] = int32(i)
	}
	b.walk = w
	return w
}

func (b *builder) table() *Table {
	b.entries = slices.Clip(b.entries)
	var w *walk
	if overlapping(b.entries) {
		w = b.overlapped()
	}
	return newTable(b.entries, w, b.show)
}

package symbolize

import (
	"cmp"
	"debug/elf"
	"slices"
	"sort"
	"strings"
	"sync/atomic"

	"gperf/symbolize/demangle"
)

// Symbol is a named range of addresses: file offsets for user DSOs, ips for the kernel. End is exclusive.
type Symbol struct {
	Start, End uint64
	Name       string // demangled, if Options.Demangle is set
	Raw        string // as in the symbol table, with "@plt" for a PLT entry
}

// entry is a symbol in a table, in compact form: Table makes the display name on first use.
type entry struct {
	start, end uint64 // end is exclusive; equal to start if the size is unknown
	name       string // in kallsyms with "\t[module]"
	typ        elf.SymType
	bind       elf.SymBind
	plt        bool  // the display name is name@plt
	ifunc      bool  // an IFUNC with another name is at start
	node       int32 // position in the order of adding, from 1
}

// contains reports whether the symbol contains addr. A symbol without a size contains only its start.
func (e *entry) contains(addr uint64) bool {
	return addr >= e.start && (addr < e.end || addr == e.start)
}

// Table is a DSO's symbols by address. It is safe for concurrent use.
type Table struct {
	entries []entry               // by start, if search is nil
	search  func(addr uint64) int // of the index of the entry at addr, or -1; nil if no entries overlap
	show    func(*entry) string
	shown   []atomic.Pointer[Symbol] // by index in entries; nil before the first lookup
}

// walk finds symbols in a table with overlapping symbols, in the order of perf's tree.
type walk struct {
	tree  *RBTree
	index []int32 // index in entries, by node of the tree
}

func newTable(entries []entry, search func(addr uint64) int, show func(*entry) string) *Table {
	return &Table{entries: entries, search: search, show: show, shown: make([]atomic.Pointer[Symbol], len(entries))}
}

// Len returns the number of symbols.
func (t *Table) Len() int { return len(t.entries) }

// Lookup returns the symbol at addr. It returns the same pointer for the same symbol.
func (t *Table) Lookup(addr uint64) (*Symbol, bool) {
	i := t.find(addr)
	if i < 0 {
		return nil, false
	}
	return t.symbol(i), true
}

func (t *Table) symbol(i int) *Symbol {
	if s := t.shown[i].Load(); s != nil {
		return s
	}
	e := &t.entries[i]
	s := &Symbol{Start: e.start, End: e.end, Raw: e.raw(), Name: t.show(e)}
	if !t.shown[i].CompareAndSwap(nil, s) {
		return t.shown[i].Load()
	}
	return s
}

func (e *entry) raw() string {
	if e.plt {
		return e.name + pltSuffix
	}
	return e.name
}

// find returns the index of the entry at addr, or -1.
func (t *Table) find(addr uint64) int {
	if t.search != nil {
		return t.search(addr)
	}
	return find(t.entries, addr)
}

// find is for entries that do not overlap.
func find(entries []entry, addr uint64) int {
	i := sort.Search(len(entries), func(i int) bool { return entries[i].start > addr }) - 1
	if i >= 0 && entries[i].contains(addr) {
		return i
	}
	return -1
}

func (w *walk) find(entries []entry, addr uint64) int {
	for x := w.tree.root; x != 0; {
		i, side := int(w.index[x]), 1
		switch e := &entries[i]; {
		case addr < e.start:
			side = 0
		case e.contains(addr):
			return i
		}
		x = w.tree.nodes[x].child[side]
	}
	return -1
}

// overlapping reports whether two entries may contain the same address.
func overlapping(entries []entry) bool {
	for i := 1; i < len(entries); i++ {
		if prev := &entries[i-1]; prev.end > entries[i].start || prev.start == entries[i].start {
			return true
		}
	}
	return false
}

// sortEntries sorts entries by address, and entries at the same address in the order of adding.
func sortEntries(entries []entry) {
	// Sort keys, so that each entry moves only once.
	type key struct {
		start uint64
		node  int32
		at    int32
	}
	keys := make([]key, len(entries))
	for i := range entries {
		keys[i] = key{entries[i].start, entries[i].node, int32(i)}
	}
	compare := func(a, b key) int {
		if c := cmp.Compare(a.start, b.start); c != 0 {
			return c
		}
		return cmp.Compare(a.node, b.node)
	}
	if slices.IsSortedFunc(keys, compare) {
		return
	}
	slices.SortFunc(keys, compare)
	for i := range keys { // move the entries of a cycle, so that no second list is needed
		first, to := entries[i], int32(i)
		for from := keys[to].at; from != int32(i); from = keys[to].at {
			entries[to], keys[to].at = entries[from], to
			to = from
		}
		entries[to], keys[to].at = first, to
	}
}

// fixupEnds extends symbols without a size to the next symbol, and the last one to the end of the page after its own
// (symbols__fixup_end in tools/perf/util/symbol.c). Symbols of assembly often lack a size, symbols of kallsyms always.
// nextEnd returns the end of a symbol that another one follows.
func fixupEnds(entries []entry, nextEnd func(e, next *entry) uint64) {
	for i := range entries {
		e := &entries[i]
		switch {
		case e.end != e.start:
		case i+1 < len(entries):
			e.end = nextEnd(e, &entries[i+1])
		default:
			e.end = pageUp(e.start) + pageSize
		}
	}
}

const pageSize = 4096

func pageUp(addr uint64) uint64 { return (addr + pageSize - 1) &^ (pageSize - 1) }

// dropDuplicates keeps one of the symbols with the same start: the one that perf chooses (symbols__fixup_duplicate).
// entries must be sorted. show returns the names to compare. dropDuplicates calls drop for each dropped entry.
func dropDuplicates(entries []entry, show func(*entry) string, drop func(*entry)) []entry {
	kept := entries[:0]
	for i := range entries {
		e := &entries[i]
		if len(kept) == 0 || kept[len(kept)-1].start != e.start {
			kept = append(kept, *e)
			continue
		}
		last := &kept[len(kept)-1]
		winner, loser := last, e
		if !better(last, e, show) {
			winner, loser = e, last
		}
		drop(loser)
		ifunc := winner.ifunc || loser.typ == elf.STT_GNU_IFUNC
		*last = *winner
		last.ifunc = ifunc
	}
	clear(entries[len(kept):])
	return kept
}

// better reports whether perf prefers a, which is first, to b at the same address (choose_best_symbol in
// tools/perf/util/symbol.c): the one with a size, then with a type, then not weak, then global, then with fewer leading
// underscores, then with the longer name, and not the kernel's SyS aliases.
func better(a, b *entry, show func(*entry) string) bool {
	if a, b := a.end > a.start, b.end > b.start; a != b {
		return a
	}
	if a, b := a.typ != elf.STT_NOTYPE, b.typ != elf.STT_NOTYPE; a != b {
		return a
	}
	if a, b := a.bind != elf.STB_WEAK, b.bind != elf.STB_WEAK; a != b {
		return a
	}
	if a, b := a.bind == elf.STB_GLOBAL, b.bind == elf.STB_GLOBAL; a != b {
		return a
	}
	if a.name == b.name || demangle.SameConstructor(a.name, b.name) {
		return true
	}
	an, bn := show(a), show(b)
	if a, b := demangle.Underscores(an), demangle.Underscores(bn); a != b {
		return a < b
	}
	if len(an) != len(bn) {
		return len(an) > len(bn)
	}
	return !strings.HasPrefix(an, "SyS") && !strings.HasPrefix(an, "compat_SyS")
}

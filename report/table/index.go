package table

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// Counter counts the entries of a table again and again. It computes once for each list of keys to which entries
// samples and nodes belong, so that a count passes over arrays only. Any goroutine may call Prepare; Entries is for one
// at a time.
type Counter struct {
	Table        *Table
	mu           sync.Mutex
	indexes      map[string]func() *index
	pairs, nodes []Sum // scratch memory, used again by the next count
}

// zeroes returns n sums of nothing, in the memory of list if it is large enough.
func zeroes(list []Sum, n int) []Sum {
	if cap(list) < n {
		return make([]Sum, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// index is to which entries samples belong, for a list of keys.
type index struct {
	keys    []string
	samples []sampleKey
	entries []Entry // without sums, in the order of keys

	pairs    []int32 // by sample: a sampleKey and a stack
	sampled  []int32 // by pair: the entry where the samples were taken, -1 for none
	pairNode []int32 // by pair: the node pair, -1 for none

	// Node pairs are a sampleKey and a node. Callees precede callers.
	parents   []int32 // by node pair, -1 for the outermost
	outermost []int32 // by node pair: the entry, -1 if a caller belongs to it, too
}

// Prepare computes the index that Entries needs for these keys.
func (c *Counter) Prepare(keys []string) { c.index(keys) }

func (c *Counter) index(keys []string) *index {
	id := strings.Join(keys, ",")
	c.mu.Lock()
	if c.indexes == nil {
		c.indexes = map[string]func() *index{}
	}
	if c.indexes[id] == nil {
		c.indexes[id] = sync.OnceValue(func() *index { return newIndex(c.Table, keys) })
	}
	get := c.indexes[id]
	c.mu.Unlock()
	return get()
}

// Entries counts the samples that a filter selects by keys. In Total, callers include the samples of their callees;
// without children, it is Self, and functions without own samples are left out.
func (c *Counter) Entries(f Filter, keys []string, children bool) *Entries {
	x := c.index(keys)
	result := &Entries{table: c.Table, Keys: keys, samples: x.samples}
	c.pairs, c.nodes = zeroes(c.pairs, len(x.pairNode)), zeroes(c.nodes, len(x.parents))
	pairs, nodes := c.pairs, c.nodes
	for i := range c.Table.selected(&f) {
		pairs[x.pairs[i]].Add(c.Table.sum(i))
	}
	list := slices.Clone(x.entries)
	for i, s := range pairs {
		if s.Samples == 0 {
			continue
		}
		result.All.Add(s)
		if at := x.sampled[i]; at >= 0 {
			list[at].Self.Add(s)
		}
		if at := x.pairNode[i]; at >= 0 {
			nodes[at].Add(s)
		}
	}
	if children {
		for i, parent := range x.parents {
			s := nodes[i]
			if s.Samples == 0 {
				continue
			}
			if parent >= 0 {
				nodes[parent].Add(s)
			}
			if at := x.outermost[i]; at >= 0 {
				list[at].Total.Add(s)
			}
		}
	}
	if !children || len(x.parents) == 0 {
		for i := range list {
			list[i].Total = list[i].Self
		}
	}
	result.List = ordered(slices.DeleteFunc(list, func(e Entry) bool { return e.Total.Samples == 0 }))
	return result
}

// ordered sorts entries by figures, the largest first, and keeps the order of entries with equal figures. Many entries
// have equal figures, so it sorts groups of them.
func ordered(list []Entry) []Entry {
	type figures struct{ total, self uint64 }
	groups, sums := map[figures]int32{}, []figures{}
	group, sizes := make([]int32, len(list)), []int32{}
	for i := range list {
		f := figures{list[i].Total.Weight, list[i].Self.Weight}
		g, ok := groups[f]
		if !ok {
			g = int32(len(sums))
			groups[f], sums, sizes = g, append(sums, f), append(sizes, 0)
		}
		group[i] = g
		sizes[g]++
	}
	order := make([]int32, len(sums))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(sums[b].total, sums[a].total), cmp.Compare(sums[b].self, sums[a].self))
	})
	starts, at := make([]int32, len(sums)), int32(0)
	for _, g := range order {
		starts[g] = at
		at += sizes[g]
	}
	sorted := make([]Entry, len(list))
	for i, g := range group {
		sorted[starts[g]] = list[i]
		starts[g]++
	}
	return sorted
}

// indexer makes an index.
type indexer struct {
	table           *Table
	index           *index
	bySymbol, byDSO bool
	keyOf           func(i int) int32 // of a sample
	entry           map[uint64]int32  // by sampleKey and place
	dense           []int32           // the same, if there are few: index plus 1
	places          int
	isOuter         []bool // by node: no caller is at the same place
}

func newIndex(t *Table, keys []string) *index {
	n := &indexer{table: t, index: &index{keys: keys}, bySymbol: slices.Contains(keys, KeySymbol),
		byDSO: slices.Contains(keys, KeyDSO), entry: map[uint64]int32{}, isOuter: t.outer, places: 1}
	n.newSampleKeys()
	switch {
	case n.bySymbol:
		n.places = len(t.Functions)
	case n.byDSO:
		n.places, n.isOuter = len(t.DSOs), t.outerDSOs()
	}
	pairKeys, pairStacks := n.makePairs()
	if size := len(n.index.samples) * n.places; size <= maxDense {
		n.dense = make([]int32, size)
	}
	placed := n.bySymbol || n.byDSO
	n.index.sampled, n.index.pairNode = make([]int32, len(pairKeys)), make([]int32, len(pairKeys))
	for i, key := range pairKeys {
		n.index.sampled[i], n.index.pairNode[i] = -1, -1
		if node := t.Stacks[pairStacks[i]]; node > 0 || !placed {
			n.index.sampled[i] = n.entryAt(key, t.Sampled(node))
		}
	}
	if placed {
		n.makeNodes(pairKeys, pairStacks)
	}
	n.order()
	return n.index
}

// maxDense is how many entries are found by index rather than in a map.
const maxDense = 1 << 24

// keyed numbers pairs of a sampleKey and a stack or node. Most stacks and nodes belong to one key.
type keyed struct {
	key, id []int32 // by stack or node; the id is the first key's plus 1, 0 for none
	more    map[uint64]int32
}

func newKeyed(n int) keyed {
	return keyed{make([]int32, n), make([]int32, n), map[uint64]int32{}}
}

// get returns the number of a pair, next if it is new.
func (k *keyed) get(at, key, next int32) int32 {
	switch {
	case k.id[at] == 0:
		k.key[at], k.id[at] = key, next+1
		return next
	case k.key[at] == key:
		return k.id[at] - 1
	}
	id, ok := k.more[uint64(key)<<32|uint64(at)]
	if !ok {
		id = next
		k.more[uint64(key)<<32|uint64(at)] = id
	}
	return id
}

// makePairs numbers the pairs of sampleKey and stack of the samples.
func (n *indexer) makePairs() (keys, stacks []int32) {
	known := newKeyed(len(n.table.Stacks))
	n.index.pairs = make([]int32, n.table.Len())
	for i := range n.index.pairs {
		key := n.keyOf(i)
		id := known.get(n.table.Stack[i], key, int32(len(keys)))
		if int(id) == len(keys) {
			keys, stacks = append(keys, key), append(stacks, n.table.Stack[i])
		}
		n.index.pairs[i] = id
	}
	return keys, stacks
}

// makeNodes numbers the pairs of sampleKey and node, callees first.
func (n *indexer) makeNodes(pairKeys, pairStacks []int32) {
	known := newKeyed(len(n.table.Nodes))
	var nodes, keys []int32
	add := func(node, key int32) (id int32, isNew bool) {
		id = known.get(node, key, int32(len(nodes)))
		if isNew = int(id) == len(nodes); isNew {
			nodes, keys = append(nodes, node), append(keys, key)
		}
		return id, isNew
	}
	for i, key := range pairKeys {
		for node := n.table.Stacks[pairStacks[i]]; node > 0; node = n.table.Nodes[node].Parent {
			if _, isNew := add(node, key); !isNew {
				break
			}
		}
	}
	// Renumber them by node, the last first: callers have lower numbers than callees.
	starts := make([]int32, len(n.table.Nodes)+1)
	for _, node := range nodes {
		starts[len(n.table.Nodes)-1-int(node)+1]++
	}
	for i := 1; i < len(starts); i++ {
		starts[i] += starts[i-1]
	}
	number := make([]int32, len(nodes))
	for id, node := range nodes {
		at := &starts[len(n.table.Nodes)-1-int(node)]
		number[id] = *at
		*at++
	}
	n.index.parents, n.index.outermost = make([]int32, len(nodes)), make([]int32, len(nodes))
	for id, node := range nodes {
		n.index.parents[number[id]], n.index.outermost[number[id]] = -1, -1
		if parent := n.table.Nodes[node].Parent; parent > 0 {
			n.index.parents[number[id]] = number[known.get(parent, keys[id], -1)]
		}
		if n.isOuter[node] {
			n.index.outermost[number[id]] = n.entryAt(keys[id], node)
		}
	}
	for i, key := range pairKeys {
		if node := n.table.Stacks[pairStacks[i]]; node > 0 {
			n.index.pairNode[i] = number[known.get(node, key, -1)]
		}
	}
}

// entryAt returns the entry of a sampleKey at a node.
func (n *indexer) entryAt(key, node int32) int32 {
	function, dso, place := int32(-1), int32(-1), int32(0)
	if n.bySymbol || n.byDSO {
		function = n.table.FunctionOf(node)
		dso = n.table.Functions[function].DSO
		if place = function; !n.bySymbol {
			place, function = dso, -1
		}
	}
	if n.dense != nil {
		at := &n.dense[int(key)*n.places+int(place)]
		if *at == 0 {
			n.index.entries = append(n.index.entries, Entry{Function: function, DSO: dso, sample: key})
			*at = int32(len(n.index.entries))
		}
		return *at - 1
	}
	id := uint64(key)<<32 | uint64(place)
	at, ok := n.entry[id]
	if !ok {
		at = int32(len(n.index.entries))
		n.entry[id] = at
		n.index.entries = append(n.index.entries, Entry{Function: function, DSO: dso, sample: key})
	}
	return at
}

// order sorts the entries by keys, as gperf report sorts entries with equal figures.
func (n *indexer) order() {
	ranks := make([][]int32, len(n.index.keys)) // by key, of functions, DSOs or sampleKeys
	for i, key := range n.index.keys {
		switch key {
		case KeySymbol:
			list := n.table.Functions
			ranks[i] = ranked(len(list), func(a, b int32) int { return list[a].compare(&list[b]) })
		case KeyDSO:
			ranks[i] = ranked(len(n.table.DSOs), func(a, b int32) int {
				return strings.Compare(n.table.DSOs[a].Short, n.table.DSOs[b].Short)
			})
		default:
			ranks[i] = ranked(len(n.index.samples), func(a, b int32) int {
				return strings.Compare(n.index.samples[a].texts[i], n.index.samples[b].texts[i])
			})
		}
	}
	rank := func(i int, e *Entry) int32 {
		switch n.index.keys[i] {
		case KeySymbol:
			return ranks[i][e.Function]
		case KeyDSO:
			return ranks[i][e.DSO]
		}
		return ranks[i][e.sample]
	}
	order := make([]int32, len(n.index.entries))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := &n.index.entries[a], &n.index.entries[b]
		for i := range n.index.keys {
			if c := cmp.Compare(rank(i, x), rank(i, y)); c != 0 {
				return c
			}
		}
		if x.Function >= 0 {
			return cmp.Compare(n.table.Functions[x.Function].Start, n.table.Functions[y.Function].Start)
		}
		return 0
	})
	number, sorted := make([]int32, len(order)), make([]Entry, len(order))
	for at, old := range order {
		number[old], sorted[at] = int32(at), n.index.entries[old]
	}
	n.index.entries = sorted
	for _, list := range [][]int32{n.index.sampled, n.index.outermost} {
		for i, old := range list {
			if old >= 0 {
				list[i] = number[old]
			}
		}
	}
}

// ranked returns the rank of each of n elements; equal ones share a rank.
func ranked(n int, compare func(a, b int32) int) []int32 {
	order, ranks := make([]int32, n), make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, compare)
	for i := 1; i < n; i++ {
		ranks[order[i]] = ranks[order[i-1]]
		if compare(order[i-1], order[i]) != 0 {
			ranks[order[i]]++
		}
	}
	return ranks
}

// compare compares functions by name; functions without a name come last.
func (f *Function) compare(g *Function) int {
	switch {
	case f.Unnamed && g.Unnamed:
		return 0
	case f.Unnamed:
		return 1
	case g.Unnamed:
		return -1
	}
	return strings.Compare(f.Name, g.Name)
}

// outerDSOs returns for each node whether no caller is in the same DSO.
func (t *Table) outerDSOs() []bool {
	outer, change := make([]bool, len(t.Nodes)), make([]int32, len(t.Nodes))
	for i := 1; i < len(t.Nodes); i++ {
		// change is the outermost node from which on all are in this DSO. Only there a caller's DSO is another one.
		parent, dso := t.Nodes[i].Parent, t.dsoOf(int32(i))
		change[i] = int32(i)
		if parent > 0 && t.dsoOf(parent) == dso {
			change[i] = change[parent]
			continue
		}
		outer[i] = true
		for at := parent; at > 0 && outer[i]; at = t.Nodes[change[at]].Parent {
			outer[i] = t.dsoOf(at) != dso
		}
	}
	return outer
}

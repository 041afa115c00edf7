package samples

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Keys of entries, besides the fields of groups.
const (
	KeyComm   = "comm"
	KeyPID    = "pid"
	KeyTID    = "tid"
	KeyCPU    = "cpu"
	KeyDSO    = "dso"
	KeySymbol = "symbol"
)

// Entry is the samples with equal keys, as gperf report counts them.
type Entry struct {
	Self, Total Sum   // in recursion, a sample counts once in Total
	Function    int32 // index in Table.Functions, -1 without the key symbol
	DSO         int32 // index in Table.DSOs, -1 without the keys dso and symbol

	sample int32 // index in Entries.samples
}

// Entries is the result of Counter.Entries.
type Entries struct {
	*Table
	Keys []string
	List []Entry // those with most samples first
	All  Sum     // of the selected samples

	samples []sampleKey
}

// sampleKey is the values of the keys that do not depend on the stack, "" for the other keys.
type sampleKey struct {
	texts   []string
	threads []bool // that have these values; nil without a key of threads
	cpu     int32
	group   int32 // -1: any
}

// Counter counts the entries of a table again and again. One goroutine may use it.
type Counter struct {
	*Table
	// Entries of functions and of DSOs: the place of each node, and whether no caller is at the same place.
	dsoOuter []bool
}

// Fields returns the keys of the event's groups, in the order in which they first occur.
func (t *Table) Fields(event int) (keys []string) {
	seen := make([]bool, len(t.Groups))
	for i, g := range t.Group {
		if g < 0 || seen[g] || int(t.Event[i]) != event {
			continue
		}
		seen[g] = true
		for _, v := range t.Groups[g].Values {
			if !slices.Contains(keys, v.Key) {
				keys = append(keys, v.Key)
			}
		}
	}
	return keys
}

// Entries counts the samples that a filter selects by keys. In Total, callers include the samples of what they called;
// without children, it is Self, and functions without samples of their own are left out.
func (c *Counter) Entries(f Filter, keys []string, children bool) *Entries {
	n := &entryCounter{Table: c.Table, children: children, keys: keys}
	n.bySymbol, n.byDSO = slices.Contains(keys, KeySymbol), slices.Contains(keys, KeyDSO)
	result := &Entries{Table: c.Table, Keys: keys}
	n.newSampleKeys()
	n.countStacks(&f, &result.All)
	n.outer = c.outer
	if !n.bySymbol && n.byDSO {
		n.outer = c.outerDSOs()
	}
	n.begin()
	n.countNodes()
	result.samples = n.samples
	result.List = slices.DeleteFunc(n.list, func(e Entry) bool { return e.Total.Samples == 0 })
	if !children {
		result.List = slices.DeleteFunc(result.List, func(e Entry) bool { return e.Self.Samples == 0 })
		for i := range result.List {
			result.List[i].Total = result.List[i].Self
		}
	}
	result.sort()
	return result
}

// outerDSOs returns for each node whether no caller is in the same DSO.
func (c *Counter) outerDSOs() []bool {
	if c.dsoOuter == nil {
		c.dsoOuter = make([]bool, len(c.Nodes))
		change := make([]int32, len(c.Nodes)) // the innermost node on the way whose caller is in another DSO
		for i := 1; i < len(c.Nodes); i++ {
			parent, dso := c.Nodes[i].Parent, c.dsoOf(int32(i))
			change[i] = int32(i)
			if parent > 0 && c.dsoOf(parent) == dso {
				change[i] = change[parent]
				continue
			}
			outer := true
			for at := parent; at > 0; at = c.Nodes[change[at]].Parent {
				if c.dsoOf(at) == dso {
					outer = false
					break
				}
			}
			c.dsoOuter[i] = outer
		}
	}
	return c.dsoOuter
}

func (t *Table) dsoOf(node int32) int32 { return t.Functions[t.FunctionOf(node)].DSO }

// keySum is a sum of samples with the same sampleKey.
type keySum struct {
	key int32
	Sum
}

// keySums is sums by sampleKey. Most stacks and nodes have one.
type keySums struct {
	first []keySum // by stack or node; without samples for none
	more  map[int32][]keySum
}

func newKeySums(n int) keySums { return keySums{make([]keySum, n), map[int32][]keySum{}} }

func (k *keySums) add(at, key int32, s Sum) {
	first := &k.first[at]
	if first.Samples == 0 {
		first.key = key
	}
	if first.key == key {
		first.add(s)
		return
	}
	list := k.more[at]
	for i := range list {
		if list[i].key == key {
			list[i].add(s)
			return
		}
	}
	k.more[at] = append(list, keySum{key, s})
}

// each visits the sums at a stack or node.
func (k *keySums) each(at int32, visit func(key int32, s Sum)) {
	first := k.first[at]
	if first.Samples == 0 {
		return
	}
	visit(first.key, first.Sum)
	if len(k.more) == 0 {
		return
	}
	for _, s := range k.more[at] {
		visit(s.key, s.Sum)
	}
}

// entryCounter counts entries once.
type entryCounter struct {
	*Table
	keys            []string
	children        bool
	bySymbol, byDSO bool
	outer           []bool
	samples         []sampleKey
	keyOf           func(i int) int32 // of a sample
	stacks          keySums
	list            []Entry
	dense           []int32 // index in list plus 1, by sampleKey and place
	sparse          map[[2]int32]int32
	places          int
}

// newSampleKeys makes the sampleKeys: those of threads, and their combinations with CPUs and groups as they occur.
func (n *entryCounter) newSampleKeys() {
	ids := map[string]int32{}
	byThread := make([]int32, len(n.Threads))
	threadKeys := slices.ContainsFunc(n.keys, isThreadKey)
	for i := range n.Threads {
		texts := make([]string, len(n.keys))
		for j, key := range n.keys {
			texts[j] = n.Threads[i].text(key)
		}
		byThread[i] = internText(ids, &n.samples, strings.Join(texts, "\x00"),
			func() sampleKey { return sampleKey{texts: texts, cpu: -1, group: -1} })
		if k := &n.samples[byThread[i]]; threadKeys {
			if k.threads == nil {
				k.threads = make([]bool, len(n.Threads))
			}
			k.threads[i] = true
		}
	}
	byCPU := slices.Contains(n.keys, KeyCPU)
	fields := slices.DeleteFunc(slices.Clone(n.keys), func(key string) bool {
		return isThreadKey(key) || key == KeyCPU || key == KeyDSO || key == KeySymbol
	})
	if !byCPU && len(fields) == 0 {
		n.keyOf = func(i int) int32 { return byThread[n.Thread[i]] }
		return
	}
	threadOnly := n.samples
	n.samples = nil
	groups, combined := n.groupsBy(fields), map[[3]int32]int32{}
	n.keyOf = func(i int) int32 {
		k := [3]int32{byThread[n.Thread[i]], -1, -1}
		if byCPU {
			k[1] = int32(n.CPU[i])
		}
		if g := n.Group[i]; g >= 0 && len(fields) > 0 {
			k[2] = groups[g]
		}
		id, ok := combined[k]
		if !ok {
			id = int32(len(n.samples))
			combined[k] = id
			n.samples = append(n.samples, n.combine(threadOnly[k[0]], byCPU, k[1], k[2]))
		}
		return id
	}
}

func isThreadKey(key string) bool { return key == KeyComm || key == KeyPID || key == KeyTID }

// text returns the value of a key of threads.
func (t *Thread) text(key string) string {
	switch key {
	case KeyComm:
		return t.Comm
	case KeyPID, KeyTID: // as in gperf report
		return fmt.Sprintf("%7d:%s", t.TID, t.Comm)
	}
	return ""
}

// groupsBy returns for each group the first one with the same values of these fields.
func (t *Table) groupsBy(fields []string) []int32 {
	ids, same := map[string]int32{}, make([]int32, len(t.Groups))
	for i := range t.Groups {
		var texts []string
		for _, key := range fields {
			texts = append(texts, t.Groups[i].text(key))
		}
		id := strings.Join(texts, "\x00")
		if _, ok := ids[id]; !ok {
			ids[id] = int32(i)
		}
		same[i] = ids[id]
	}
	return same
}

// text returns the value of a field, "" for none.
func (g *Group) text(key string) string {
	for _, v := range g.Values {
		if v.Key == key {
			return v.Text
		}
	}
	return ""
}

func (n *entryCounter) combine(k sampleKey, byCPU bool, cpu, group int32) sampleKey {
	k.texts, k.cpu, k.group = slices.Clone(k.texts), -1, group
	for i, key := range n.keys {
		switch {
		case key == KeyCPU && byCPU:
			k.texts[i], k.cpu = fmt.Sprintf("%03d", cpu), cpu
		case k.texts[i] == "" && group >= 0:
			k.texts[i] = n.Groups[group].text(key)
		}
	}
	return k
}

func internText[T any](index map[string]int32, list *[]T, id string, value func() T) int32 {
	i, ok := index[id]
	if !ok {
		i = int32(len(*list))
		index[id] = i
		*list = append(*list, value())
	}
	return i
}

// countStacks sums the selected samples up by stack and sampleKey.
func (n *entryCounter) countStacks(f *Filter, all *Sum) {
	n.stacks = newKeySums(len(n.Stacks))
	for i := range n.selected(f) {
		s := Sum{n.Weight[i], 1}
		all.add(s)
		n.stacks.add(n.Stack[i], n.keyOf(i), s)
	}
}

// maxDense is how many entries are looked up by index rather than in a map.
const maxDense = 1 << 24

// begin prepares looking up entries.
func (n *entryCounter) begin() {
	n.places = 1
	switch {
	case n.bySymbol:
		n.places = len(n.Functions)
	case n.byDSO:
		n.places = len(n.DSOs)
	}
	if len(n.samples)*n.places <= maxDense {
		n.dense = make([]int32, len(n.samples)*n.places)
	} else {
		n.sparse = map[[2]int32]int32{}
	}
}

// entry returns the entry of a sampleKey at a node.
func (n *entryCounter) entry(key, node int32) *Entry {
	function, dso, place := int32(-1), int32(-1), int32(0)
	if n.bySymbol || n.byDSO {
		function = n.FunctionOf(node)
		dso = n.Functions[function].DSO
		if place = function; !n.bySymbol {
			place, function = dso, -1
		}
	}
	var at int32
	if n.dense != nil {
		at = n.dense[int(key)*n.places+int(place)]
	} else {
		at = n.sparse[[2]int32{key, place}]
	}
	if at == 0 {
		n.list = append(n.list, Entry{Function: function, DSO: dso, sample: key})
		at = int32(len(n.list))
		if n.dense != nil {
			n.dense[int(key)*n.places+int(place)] = at
		} else {
			n.sparse[[2]int32{key, place}] = at
		}
	}
	return &n.list[at-1]
}

// Sampled returns the node of the function in which the samples of a node were taken: the one into which the node's is
// inlined.
func (t *Table) Sampled(node int32) int32 {
	for node > 0 && t.Frames[t.Nodes[node].Frame].Inlined && t.Nodes[node].Parent > 0 {
		node = t.Nodes[node].Parent
	}
	return node
}

// countNodes adds the sums of stacks to the entries.
func (n *entryCounter) countNodes() {
	placed := n.bySymbol || n.byDSO
	var nodes keySums
	if n.children && placed {
		nodes = newKeySums(len(n.Nodes))
	}
	for i, node := range n.Stacks {
		n.stacks.each(int32(i), func(key int32, s Sum) {
			if placed && node == 0 { // no address
				return
			}
			n.entry(key, n.Sampled(node)).Self.add(s)
			switch {
			case nodes.first != nil:
				nodes.add(node, key, s)
			default:
				n.entry(key, n.Sampled(node)).Total.add(s)
			}
		})
	}
	if nodes.first == nil {
		return
	}
	for i := int32(len(n.Nodes) - 1); i > 0; i-- {
		parent := n.Nodes[i].Parent
		nodes.each(i, func(key int32, s Sum) {
			if parent > 0 {
				nodes.add(parent, key, s)
			}
			if n.outer[i] {
				n.entry(key, i).Total.add(s)
			}
		})
	}
}

// sort puts the entries into the order of gperf report.
func (e *Entries) sort() {
	slices.SortFunc(e.List, func(a, b Entry) int {
		if c := cmp.Or(cmp.Compare(b.Total.Weight, a.Total.Weight), cmp.Compare(b.Self.Weight, a.Self.Weight)); c != 0 {
			return c
		}
		for i, key := range e.Keys {
			if c := e.compare(key, i, &a, &b); c != 0 {
				return c
			}
		}
		return e.compareAddresses(&a, &b)
	})
}

func (e *Entries) compareAddresses(a, b *Entry) int {
	if a.Function < 0 {
		return 0
	}
	return cmp.Compare(e.Functions[a.Function].Start, e.Functions[b.Function].Start)
}

func (e *Entries) compare(key string, i int, a, b *Entry) int {
	switch key {
	case KeyDSO:
		return strings.Compare(e.DSOs[a.DSO].Short, e.DSOs[b.DSO].Short)
	case KeySymbol:
		x, y := &e.Functions[a.Function], &e.Functions[b.Function]
		switch {
		case x.Unnamed && y.Unnamed:
			return 0
		case x.Unnamed:
			return 1
		case y.Unnamed:
			return -1
		}
		return strings.Compare(x.Name, y.Name)
	}
	return strings.Compare(e.samples[a.sample].texts[i], e.samples[b.sample].texts[i])
}

// Text returns the value of key i of an entry, as gperf report prints it.
func (e *Entries) Text(entry *Entry, i int) string {
	switch e.Keys[i] {
	case KeyDSO:
		return e.DSOs[entry.DSO].Short
	case KeySymbol:
		return e.Functions[entry.Function].Text()
	}
	return e.samples[entry.sample].texts[i]
}

// Text returns the name of a function with the mode of its samples, as gperf report prints it.
func (f *Function) Text() string {
	if f.Kernel {
		return "[k] " + f.Name
	}
	return "[.] " + f.Name
}

// Narrow returns a filter of the samples of an entry with the same stacks: those with its values of keys that do not
// depend on the stack.
func (e *Entries) Narrow(f Filter, entry *Entry) Filter {
	k := &e.samples[entry.sample]
	if k.threads != nil {
		threads := slices.Clone(k.threads)
		for i := range threads {
			threads[i] = threads[i] && (f.Threads == nil || f.Threads[i])
		}
		f.Threads = threads
	}
	if k.cpu >= 0 {
		f.CPUs = make([]bool, k.cpu+1)
		f.CPUs[k.cpu] = true
	}
	if k.group >= 0 {
		fields := slices.DeleteFunc(slices.Clone(e.Keys), func(key string) bool { return e.Groups[k.group].text(key) == "" })
		groups := make([]bool, len(e.Groups))
		for i := range groups {
			groups[i] = (f.Groups == nil || f.Groups[i]) && !slices.ContainsFunc(fields, func(key string) bool {
				return e.Groups[i].text(key) != e.Groups[k.group].text(key)
			})
		}
		f.Groups = groups
	}
	return f
}

// CallersOfSampled returns the tree of the callers of a function with the samples that were taken in it, which may be
// in functions inlined there.
func (c *Tree) CallersOfSampled(match func(function int32) bool) *Branch {
	b := &Branch{Function: -1, tree: c, callers: true}
	for i := 1; i < len(c.Nodes); i++ {
		if c.Self[i].Samples == 0 {
			continue
		}
		if at := c.Sampled(int32(i)); match(c.FunctionOf(at)) {
			b.add(part{at, c.Self[i]})
		}
	}
	return b
}

// Spot is an address in a function.
type Spot struct {
	Off    uint64 // from its start, in bytes
	Return bool   // a call returns there
}

// BySpot returns the samples that were taken in a function by their addresses. It needs Loader.Exact.
func (c *Tree) BySpot(function int32) map[Spot]Sum {
	spots := map[Spot]Sum{}
	for i := 1; i < len(c.Nodes); i++ {
		if c.Self[i].Samples == 0 {
			continue
		}
		if at := c.Sampled(int32(i)); c.FunctionOf(at) == function {
			f := &c.Frames[c.Nodes[at].Frame]
			s := spots[Spot{f.Off, f.Return}]
			s.add(c.Self[i])
			spots[Spot{f.Off, f.Return}] = s
		}
	}
	return spots
}

// Percent returns a sum as a percentage of another one.
func (s Sum) Percent(of Sum) float64 {
	if of.Weight == 0 {
		return 0
	}
	return 100 * float64(s.Weight) / float64(of.Weight)
}

// FormatPercent returns a percentage as gperf report prints it.
func FormatPercent(p float64) string { return strconv.FormatFloat(p, 'f', 2, 64) + "%" }

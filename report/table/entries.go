package table

import (
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
	table *Table
	Keys  []string
	List  []Entry // those with most samples first
	All   Sum     // of the selected samples

	samples []sampleKey
}

// sampleKey is the values of the keys that do not depend on the stack, "" for the other keys.
type sampleKey struct {
	texts   []string
	threads []bool // with these values; nil without a key of threads
	cpu     int32
	group   int32 // -1: any
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

func (t *Table) dsoOf(node int32) int32 { return t.Functions[t.FunctionOf(node)].DSO }

// newSampleKeys makes the sampleKeys: one for each thread, and the combinations with CPUs and groups as they occur.
func (n *indexer) newSampleKeys() {
	ids := map[string]int32{}
	byThread := make([]int32, len(n.table.Threads))
	threadKeys := slices.ContainsFunc(n.index.keys, isThreadKey)
	for i := range n.table.Threads {
		texts := make([]string, len(n.index.keys))
		for j, key := range n.index.keys {
			texts[j] = n.table.Threads[i].text(key)
		}
		byThread[i] = internText(ids, &n.index.samples, n.table.Threads[i].identity(n.index.keys),
			func() sampleKey { return sampleKey{texts: texts, cpu: -1, group: -1} })
		if k := &n.index.samples[byThread[i]]; threadKeys {
			if k.threads == nil {
				k.threads = make([]bool, len(n.table.Threads))
			}
			k.threads[i] = true
		}
	}
	byCPU := slices.Contains(n.index.keys, KeyCPU)
	fields := slices.DeleteFunc(slices.Clone(n.index.keys), func(key string) bool { return !IsField(key) })
	if !byCPU && len(fields) == 0 {
		n.keyOf = func(i int) int32 { return byThread[n.table.Thread[i]] }
		return
	}
	threadOnly := n.index.samples
	n.index.samples = nil
	groups, combined := n.table.groupsBy(fields), map[[3]int32]int32{}
	n.keyOf = func(i int) int32 {
		k := [3]int32{byThread[n.table.Thread[i]], -1, -1}
		if byCPU {
			k[1] = int32(n.table.CPU[i])
		}
		if g := n.table.Group[i]; g >= 0 && len(fields) > 0 {
			k[2] = groups[g]
		}
		id, ok := combined[k]
		if !ok {
			id = int32(len(n.index.samples))
			combined[k] = id
			n.index.samples = append(n.index.samples, n.combine(threadOnly[k[0]], byCPU, k[1], k[2]))
		}
		return id
	}
}

// IsField reports whether a key of entries is a field of groups.
func IsField(key string) bool {
	return !isThreadKey(key) && key != KeyCPU && key != KeyDSO && key != KeySymbol
}

func isThreadKey(key string) bool { return key == KeyComm || key == KeyPID || key == KeyTID }

// text returns the value of a key of threads, as in gperf report.
func (t *Thread) text(key string) string {
	switch key {
	case KeyComm:
		return t.Comm
	case KeyPID, KeyTID:
		return fmt.Sprintf("%7d:%s", t.TID, t.Last)
	}
	return ""
}

// identity returns equal texts for threads with equal keys. As in gperf report, a thread's number distinguishes it, and
// the text is that of the first sample.
func (t *Thread) identity(keys []string) string {
	id := ""
	if slices.Contains(keys, KeyComm) {
		id = t.Comm
	}
	if slices.Contains(keys, KeyPID) || slices.Contains(keys, KeyTID) {
		id += "\x00" + strconv.Itoa(int(t.TID))
	}
	return id
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

func (n *indexer) combine(k sampleKey, byCPU bool, cpu, group int32) sampleKey {
	k.texts, k.cpu, k.group = slices.Clone(k.texts), -1, group
	for i, key := range n.index.keys {
		switch {
		case key == KeyCPU && byCPU:
			k.texts[i], k.cpu = fmt.Sprintf("%03d", cpu), cpu
		case k.texts[i] == "" && group >= 0:
			k.texts[i] = n.table.Groups[group].text(key)
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

// Sampled returns the node of the function in which the samples of a node were taken: the one into which the node's is
// inlined.
func (t *Table) Sampled(node int32) int32 {
	for node > 0 && t.Frames[t.Nodes[node].Frame].Inlined && t.Nodes[node].Parent > 0 {
		node = t.Nodes[node].Parent
	}
	return node
}

// Text returns the value of key i of an entry, as gperf report prints it.
func (e *Entries) Text(entry *Entry, i int) string {
	switch e.Keys[i] {
	case KeyDSO:
		return e.table.DSOs[entry.DSO].Short
	case KeySymbol:
		return e.table.Functions[entry.Function].Text()
	}
	return e.samples[entry.sample].texts[i]
}

// Text returns the name of a function with the mode of the samples, as gperf report prints it.
func (f *Function) Text() string {
	if f.Kernel {
		return "[k] " + f.Name
	}
	return "[.] " + f.Name
}

// Class returns equal numbers for entries for which Narrow returns equal filters.
func (e *Entries) Class(entry *Entry) int32 { return entry.sample }

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
		fields := slices.DeleteFunc(slices.Clone(e.Keys), func(key string) bool {
			return e.table.Groups[k.group].text(key) == ""
		})
		groups := make([]bool, len(e.table.Groups))
		for i := range groups {
			groups[i] = (f.Groups == nil || f.Groups[i]) && !slices.ContainsFunc(fields, func(key string) bool {
				return e.table.Groups[i].text(key) != e.table.Groups[k.group].text(key)
			})
		}
		f.Groups = groups
	}
	return f
}

// CallersOfSampled returns the tree of the callers of functions with the samples that were taken in them, which may be
// in functions inlined there.
func (c *Tree) CallersOfSampled(functions ...int32) *Branch {
	b := &Branch{Function: -1, tree: c, callers: true}
	for _, function := range functions {
		for _, i := range c.table.sampledOf.of(function) {
			if c.Self[i].Samples > 0 {
				b.add(part{c.table.Sampled(i), c.Self[i]})
			}
		}
	}
	return b
}

// Spot is an address in a function.
type Spot struct {
	Off    uint64 // from the start, in bytes
	Return bool   // a call returns there
}

// BySpot returns the samples that were taken in a function by address. It needs Loader.Exact.
func (c *Tree) BySpot(function int32) map[Spot]Sum {
	spots := map[Spot]Sum{}
	for _, i := range c.table.sampledOf.of(function) {
		if c.Self[i].Samples > 0 {
			f := &c.table.Frames[c.table.Nodes[c.table.Sampled(i)].Frame]
			s := spots[Spot{f.Off, f.Return}]
			s.Add(c.Self[i])
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

// Sum sums the selected samples up.
func (t *Table) Sum(f Filter) (sum Sum) {
	for i := range t.selected(&f) {
		sum.Add(t.sum(i))
	}
	return sum
}

// SumsByThread sums the selected samples up by index in Table.Threads.
func (t *Table) SumsByThread(f Filter) []Sum {
	sums := make([]Sum, len(t.Threads))
	for i := range t.selected(&f) {
		sums[t.Thread[i]].Add(t.sum(i))
	}
	return sums
}

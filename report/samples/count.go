package samples

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Filter selects samples. The zero value selects those of event 0. A nil list selects all.
type Filter struct {
	Event      int    // index in Table.Events
	From, To   uint64 // times in ns, both included; To 0: without an end
	Recordings []bool // by index in Table.Recordings
	Threads    []bool // by index in Table.Threads
	CPUs       []bool // by number; samples without a CPU are selected only by nil
	Groups     []bool // by index in Table.Groups; samples without a group are selected only by nil
	Focus      []bool // by index in Table.Functions: the stack must have one of them
	Hide       []bool // by index in Table.Functions: the stack must have none of them
	NoIdle     bool
	NoGuests   bool
}

// ThreadsWhere returns a list for Filter.Threads.
func (t *Table) ThreadsWhere(match func(*Thread) bool) []bool { return where(t.Threads, match) }

// FunctionsWhere returns a list for Filter.Focus and Filter.Hide.
func (t *Table) FunctionsWhere(match func(*Function) bool) []bool { return where(t.Functions, match) }

// FunctionsNamed returns a list for Filter.Focus and Filter.Hide: the functions whose names contain text, in any case.
func (t *Table) FunctionsNamed(text string) []bool {
	text = strings.ToLower(text)
	return t.FunctionsWhere(func(f *Function) bool { return strings.Contains(strings.ToLower(f.Name), text) })
}

// GroupsWith returns a list for Filter.Groups: those in which the field has this text.
func (t *Table) GroupsWith(key, text string) []bool {
	return where(t.Groups, func(g *Group) bool {
		for _, v := range g.Values {
			if v.Key == key && v.Text == text {
				return true
			}
		}
		return false
	})
}

func where[T any](list []T, match func(*T) bool) []bool {
	selected := make([]bool, len(list))
	for i := range list {
		selected[i] = match(&list[i])
	}
	return selected
}

// Sum is what samples sum up to.
type Sum struct{ Weight, Samples uint64 }

func (s *Sum) add(o Sum) { s.Weight, s.Samples = s.Weight+o.Weight, s.Samples+o.Samples }

// Tree is the sums of selected samples by the nodes of a table.
type Tree struct {
	*Table
	Self  []Sum // by node: of the samples that were taken in it
	Total []Sum // by node: with those in what it called
}

// orLast returns the end of a time range.
func orLast(to uint64) uint64 {
	if to == 0 {
		return math.MaxUint64
	}
	return to
}

// selected yields the indexes of the selected samples.
func (t *Table) selected(f *Filter) func(yield func(i int) bool) {
	threads, stacks, to := t.threadMask(f), t.stackMask(f), orLast(f.To)
	return func(yield func(i int) bool) {
		for _, r := range t.Recordings {
			for i := r.Start; i < r.Start+r.Samples; i++ {
				if int(t.Event[i]) != f.Event || t.Time[i] < f.From || t.Time[i] > to || !threads[t.Thread[i]] ||
					stacks != nil && !stacks[t.Stack[i]] || f.CPUs != nil && !has(f.CPUs, int(t.CPU[i])) ||
					f.Groups != nil && !has(f.Groups, int(t.Group[i])) || f.NoIdle && t.Flags[i]&Idle != 0 ||
					f.NoGuests && t.Flags[i]&Guest != 0 {
					continue
				}
				if !yield(i) {
					return
				}
			}
		}
	}
}

func has(list []bool, i int) bool { return i >= 0 && i < len(list) && list[i] }

// threadMask returns the threads that Threads and Recordings select.
func (t *Table) threadMask(f *Filter) []bool {
	mask := make([]bool, len(t.Threads))
	for i := range mask {
		mask[i] = (f.Recordings == nil || has(f.Recordings, int(t.Threads[i].Recording))) &&
			(f.Threads == nil || has(f.Threads, i))
	}
	return mask
}

// stackMask returns the stacks that Focus and Hide select, nil for all.
func (t *Table) stackMask(f *Filter) []bool {
	if f.Focus == nil && f.Hide == nil {
		return nil
	}
	focused, hidden := make([]bool, len(t.Nodes)), make([]bool, len(t.Nodes))
	focused[0] = f.Focus == nil
	for i := 1; i < len(t.Nodes); i++ {
		p, fn := t.Nodes[i].Parent, int(t.FunctionOf(int32(i)))
		focused[i], hidden[i] = focused[p] || has(f.Focus, fn), hidden[p] || has(f.Hide, fn)
	}
	mask := make([]bool, len(t.Stacks))
	for i, node := range t.Stacks {
		mask[i] = focused[node] && !hidden[node]
	}
	return mask
}

// Count sums the selected samples up.
func (t *Table) Count(f Filter) *Tree { return t.CountInto(new(Tree), f) }

// CountInto is Count into the memory of a tree that is no longer used.
func (t *Table) CountInto(c *Tree, f Filter) *Tree {
	stacks := make([]Sum, len(t.Stacks))
	for i := range t.selected(&f) {
		s := &stacks[t.Stack[i]]
		s.Weight += t.Weight[i]
		s.Samples++
	}
	c.Table, c.Self = t, zeroes(c.Self, len(t.Nodes))
	for i, node := range t.Stacks {
		c.Self[node].add(stacks[i])
	}
	c.Total = append(c.Total[:0], c.Self...)
	for i := len(t.Nodes) - 1; i > 0; i-- {
		c.Total[t.Nodes[i].Parent].add(c.Total[i])
	}
	return c
}

// All returns the sum of the selected samples.
func (c *Tree) All() Sum { return c.Total[0] }

// FunctionSum is the samples of a function.
type FunctionSum struct {
	Function    int32 // index in Table.Functions
	Self, Total Sum   // in recursion, a sample counts once
}

// ByFunction returns the functions that have samples, those with most weight of their own first.
func (c *Tree) ByFunction() []FunctionSum {
	sums := make([]FunctionSum, len(c.Functions))
	for i := 1; i < len(c.Nodes); i++ {
		s := &sums[c.FunctionOf(int32(i))]
		s.Self.add(c.Self[i])
		if c.outer[i] {
			s.Total.add(c.Total[i])
		}
	}
	for i := range sums {
		sums[i].Function = int32(i)
	}
	sums = slices.DeleteFunc(sums, func(s FunctionSum) bool { return s.Total.Samples == 0 })
	slices.SortStableFunc(sums, func(a, b FunctionSum) int {
		return cmp.Or(compare(b.Self, a.Self), compare(b.Total, a.Total), strings.Compare(c.Functions[a.Function].Name,
			c.Functions[b.Function].Name))
	})
	return sums
}

func compare(a, b Sum) int {
	return cmp.Or(cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Samples, b.Samples))
}

// LineSum is the samples of a source line of a function.
type LineSum struct {
	File        string
	Line        int32 // 0 if unknown
	Self, Total Sum
}

// ByLine returns the lines of a function that have samples, in the order of files and lines.
func (c *Tree) ByLine(function int32) []LineSum {
	type place struct {
		file string
		line int32
	}
	index, sums := map[place]int32{}, []LineSum{}
	for i := 1; i < len(c.Nodes); i++ {
		if c.FunctionOf(int32(i)) != function || c.Total[i].Samples == 0 {
			continue
		}
		f := &c.Frames[c.Nodes[i].Frame]
		at, ok := index[place{f.File, f.Line}]
		if !ok {
			at = int32(len(sums))
			index[place{f.File, f.Line}] = at
			sums = append(sums, LineSum{File: f.File, Line: f.Line})
		}
		sums[at].Self.add(c.Self[i])
		if c.outer[i] {
			sums[at].Total.add(c.Total[i])
		}
	}
	slices.SortFunc(sums, func(a, b LineSum) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return sums
}

package table

import (
	"cmp"
	"math"
)

// Filter selects samples. The zero value selects the samples of event 0. A nil list selects all.
type Filter struct {
	Event      int    // index in Table.Events
	From, To   uint64 // times in ns, both included; To 0: without an end
	Recordings []bool // by index in Table.Recordings
	Threads    []bool // by index in Table.Threads
	CPUs       []bool // by number; samples without a CPU are selected only by nil
	Groups     []bool // by index in Table.Groups; samples without a group are selected only by nil
	Focus      []bool // by index in Table.Functions: the stack must contain one of them
	NoIdle     bool
	NoGuests   bool
}

// ThreadsWhere returns a list for Filter.Threads.
func (t *Table) ThreadsWhere(match func(*Thread) bool) []bool { return where(t.Threads, match) }

// FunctionsWhere returns a list for Filter.Focus.
func (t *Table) FunctionsWhere(match func(*Function) bool) []bool { return where(t.Functions, match) }

func where[T any](list []T, match func(*T) bool) []bool {
	selected := make([]bool, len(list))
	for i := range list {
		selected[i] = match(&list[i])
	}
	return selected
}

// Sum is the sum of samples.
type Sum struct{ Weight, Samples uint64 }

// Add adds a sum.
func (s *Sum) Add(o Sum) { s.Weight, s.Samples = s.Weight+o.Weight, s.Samples+o.Samples }

// Tree is the sums of selected samples by the nodes of a table.
type Tree struct {
	table *Table
	Self  []Sum // by node: of the samples that were taken in it
	Total []Sum // by node: with the samples in callees
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
	threads, stacks, to := f.threadMask(t), t.stackMask(f), orLast(f.To)
	return func(yield func(i int) bool) {
		for _, r := range t.Recordings {
			for i := r.Start; i < r.Start+r.Samples; i++ {
				if int(t.Event[i]) != f.Event || t.Time[i] < f.From || t.Time[i] > to || !threads[t.Thread[i]] ||
					stacks != nil && !stacks[t.Stack[i]] || f.CPUs != nil && !has(f.CPUs, int(t.CPU[i])) ||
					f.Groups != nil && !has(f.Groups, int(t.Group[i])) || f.NoIdle && t.Flags[i]&Idle != 0 ||
					f.NoGuests && t.Flags[i]&guest != 0 {
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
func (f *Filter) threadMask(t *Table) []bool {
	mask := make([]bool, len(t.Threads))
	for i := range mask {
		mask[i] = (f.Recordings == nil || has(f.Recordings, int(t.Threads[i].Recording))) &&
			(f.Threads == nil || has(f.Threads, i))
	}
	return mask
}

// stackMask returns the stacks that Focus selects, nil for all.
func (t *Table) stackMask(f *Filter) []bool {
	if f.Focus == nil {
		return nil
	}
	focused := make([]bool, len(t.Nodes))
	for i := 1; i < len(t.Nodes); i++ {
		focused[i] = focused[t.Nodes[i].Parent] || has(f.Focus, int(t.FunctionOf(int32(i))))
	}
	mask := make([]bool, len(t.Stacks))
	for i, node := range t.Stacks {
		mask[i] = focused[node]
	}
	return mask
}

// Count sums the selected samples up.
func (t *Table) Count(f Filter) *Tree { return t.CountInto(new(Tree), f) }

// CountInto is Count into the memory of a tree that is no longer used.
func (t *Table) CountInto(c *Tree, f Filter) *Tree {
	stacks := make([]Sum, len(t.Stacks))
	for i := range t.selected(&f) {
		stacks[t.Stack[i]].Add(t.sum(i))
	}
	c.table, c.Self = t, zeroes(c.Self, len(t.Nodes))
	for i, node := range t.Stacks {
		c.Self[node].Add(stacks[i])
	}
	c.Total = append(c.Total[:0], c.Self...)
	for i := len(t.Nodes) - 1; i > 0; i-- {
		c.Total[t.Nodes[i].Parent].Add(c.Total[i])
	}
	return c
}

// All returns the sum of the selected samples.
func (c *Tree) All() Sum { return c.Total[0] }

func compare(a, b Sum) int {
	return cmp.Or(cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Samples, b.Samples))
}

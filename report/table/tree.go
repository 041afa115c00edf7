package table

import (
	"cmp"
	"slices"
	"strings"
)

// Branch is an entry of a call tree: a function with the path that leads to it, and the sum of the samples whose
// stacks contain this path. Next makes the entries after it, so that only those cost that are shown.
type Branch struct {
	Function int32 // index in Table.Functions, -1 for the root
	Total    Sum
	// Self is the part of Total outside all entries of Next: of samples in the function itself, or in a tree of
	// callers, of stacks that begin with the function.
	Self Sum

	tree    *Tree
	callers bool
	parts   []part
}

// part is the share of a node in a branch.
type part struct {
	node int32
	sum  Sum
}

// Callees returns the tree of the outermost functions and their callees.
func (c *Tree) Callees() *Branch {
	b := &Branch{Function: -1, tree: c}
	b.add(part{0, c.All()})
	return b
}

// CalleesOf returns the tree of a function's callees, for all callers. In recursion, a sample counts once.
func (c *Tree) CalleesOf(function int32) *Branch {
	return c.branchOf(function, false)
}

// CallersOf returns the tree of the callers of a function, with the samples in it and in its callees. In recursion,
// a sample counts once.
func (c *Tree) CallersOf(function int32) *Branch {
	return c.branchOf(function, true)
}

func (c *Tree) branchOf(function int32, callers bool) *Branch {
	b := &Branch{Function: function, tree: c, callers: callers}
	for _, i := range c.table.nodesOf.of(function) {
		if c.table.outer[i] && c.Total[i].Samples > 0 {
			b.add(part{i, c.Total[i]})
		}
	}
	return b
}

// add adds a node to a branch.
func (b *Branch) add(p part) {
	b.Total.Add(p.sum)
	b.parts = append(b.parts, p)
	switch {
	case !b.callers:
		b.Self.Add(b.tree.Self[p.node])
	case b.tree.table.Nodes[p.node].Parent == 0:
		b.Self.Add(p.sum)
	}
}

// Next returns the entries of the next level, those with most weight first: the functions that the branch's function
// calls, or in a tree of callers those that call it.
func (b *Branch) Next() []*Branch {
	index, list := map[int32]*Branch{}, []*Branch{}
	for p := range b.next() {
		fn := b.tree.table.FunctionOf(p.node)
		next := index[fn]
		if next == nil {
			next = &Branch{Function: fn, tree: b.tree, callers: b.callers}
			index[fn] = next
			list = append(list, next)
		}
		next.add(p)
	}
	names := b.tree.table.Functions
	slices.SortStableFunc(list, func(x, y *Branch) int {
		return cmp.Or(compare(y.Total, x.Total), strings.Compare(names[x.Function].Name, names[y.Function].Name))
	})
	return list
}

// next yields the nodes of the next level.
func (b *Branch) next() func(yield func(part) bool) {
	t := b.tree
	return func(yield func(part) bool) {
		for _, p := range b.parts {
			switch {
			case b.callers && b.Function < 0: // the root of all callers: its parts are the next level
				if !yield(p) {
					return
				}
			case b.callers:
				if parent := t.table.Nodes[p.node].Parent; parent > 0 && !yield(part{parent, p.sum}) {
					return
				}
			default:
				for child := t.table.firstChild[p.node]; child >= 0; child = t.table.nextSibling[child] {
					if t.Total[child].Samples > 0 && !yield(part{child, t.Total[child]}) {
						return
					}
				}
			}
		}
	}
}

// Inlined reports whether the function is inlined into its caller wherever it is in the entry.
func (b *Branch) Inlined() bool {
	t := b.tree.table
	return !slices.ContainsFunc(b.parts, func(p part) bool {
		return p.node == 0 || !t.Frames[t.Nodes[p.node].Frame].Inlined
	})
}

// HasNext reports whether Next returns entries.
func (b *Branch) HasNext() bool {
	for range b.next() {
		return true
	}
	return false
}

package tui

import (
	"maps"
	"slices"

	"gperf/report/table"
)

// row is a line of the list: an entry, or a branch of its callchains.
type row struct {
	entry  int           // index in table.Entries.List
	branch *table.Branch // nil: the entry itself
	parent *row
	depth  int
	open   bool
	loaded bool
	below  []*row
}

// flatten appends a row and the open ones below it.
func (r *row) flatten(list []*row) []*row {
	list = append(list, r)
	if r.open {
		for _, b := range r.below {
			list = b.flatten(list)
		}
	}
	return list
}

// maxTrees is how many trees are kept: each has two sums per node.
const maxTrees = 4

// dropTrees forgets the trees of the rows, which are made again. Their memory is used again.
func (l *counts) dropTrees() {
	l.spare = slices.AppendSeq(l.spare, maps.Values(l.trees))
	clear(l.trees)
}

// tree returns the samples of an entry by their stacks.
func (l *counts) tree(e *table.Entry) *table.Tree {
	f := l.counted.Narrow(l.filter(), e)
	k := l.counted.Class(e)
	if t := l.trees[k]; t != nil {
		return t
	}
	if len(l.trees) >= maxTrees {
		clear(l.trees)
	}
	t := new(table.Tree)
	if n := len(l.spare); n > 0 {
		t, l.spare = l.spare[n-1], l.spare[:n-1]
	}
	l.trees[k] = l.table.CountInto(t, f)
	return t
}

// root returns the branch that an entry's callchains begin with.
func (l *counts) root(e *table.Entry) []*table.Branch {
	t := l.tree(e)
	switch {
	case e.Function >= 0 && l.callers && l.children:
		return t.CallersOf(e.Function).Next()
	case e.Function >= 0 && l.children:
		return t.CalleesOf(e.Function).Next()
	case e.Function >= 0: // the first level is the function itself
		var list []*table.Branch
		for _, b := range t.CallersOfSampled(e.Function).Next() {
			list = append(list, b.Next()...)
		}
		return list
	case l.callers || !l.children:
		var functions []int32
		for i, f := range l.table.Functions {
			if e.DSO < 0 || f.DSO == e.DSO {
				functions = append(functions, int32(i))
			}
		}
		return t.CallersOfSampled(functions...).Next()
	}
	return t.Callees().Next()
}

// branchLimit is the smallest percentage of a branch that is shown, as in gperf report.
const branchLimit = 0.5

// load makes the rows below a row, those above the limit.
func (l *counts) load(r *row) {
	if r.loaded {
		return
	}
	r.loaded = true
	branches := []*table.Branch(nil)
	if r.branch == nil {
		branches = l.root(&l.counted.List[r.entry])
	} else {
		branches = r.branch.Next()
	}
	for _, b := range branches {
		if b.Total.Percent(l.base) >= branchLimit {
			r.below = append(r.below, &row{entry: r.entry, branch: b, parent: r, depth: r.depth + 1})
		}
	}
}

// maxDepth bounds the levels that one key opens: recursion may be thousands of levels deep.
const maxDepth = 256

// expand opens a row, and those below it while they do not fork, as they are one callchain. all opens everything below.
func (l *counts) expand(r *row, all bool) {
	for depth := 0; depth < maxDepth; depth++ {
		l.load(r)
		r.open = len(r.below) > 0
		if all {
			for _, b := range r.below {
				if b.depth < maxDepth {
					l.expand(b, true)
				}
			}
			return
		}
		if len(r.below) != 1 {
			return
		}
		r = r.below[0]
	}
}

// collapse closes a row and those below it.
func (r *row) collapse() {
	r.open = false
	for _, b := range r.below {
		b.collapse()
	}
}

// canOpen reports whether a row may have rows below it.
func (l *counts) canOpen(r *row) bool {
	switch {
	case r.loaded:
		return len(r.below) > 0
	case r.branch == nil:
		return l.chains
	}
	return r.branch.HasNext()
}

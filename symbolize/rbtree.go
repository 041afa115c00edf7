package symbolize

import "iter"

// RBTree is a red-black tree of the nodes 1, 2, 3… in the shape of perf's trees (Linux's lib/rbtree.c), because some
// of perf's results depend on the shape, and so on all insertions and deletions:
//
//   - perf walks down a tree of symbols to find an address. If symbols overlap, as labels within functions written in
//     assembly do, perf returns the first one on the way.
//   - perf report sorts entries by inserting them into a tree. Its comparisons are not consistent: one uses an entry's
//     thread.
//
// The kernel's algorithms, and these, come from Cormen et al., Introduction to Algorithms, chapter 13.
type RBTree struct {
	nodes []rbNode // nodes[0] represents every leaf
	root  int32
}

type rbNode struct {
	child  [2]int32 // left, right
	parent int32
	red    bool
}

// side is the side of x below its parent: 0 left, 1 right.
func (t *RBTree) side(x int32) int {
	if t.nodes[t.nodes[x].parent].child[1] == x {
		return 1
	}
	return 0
}

// All yields the nodes from left to right.
func (t *RBTree) All() iter.Seq[int32] {
	return func(yield func(int32) bool) { t.walk(t.root, yield) }
}

// walk yields the nodes below x and x. It returns false if yield did.
func (t *RBTree) walk(x int32, yield func(int32) bool) bool {
	return x == 0 || t.walk(t.nodes[x].child[0], yield) && yield(x) && t.walk(t.nodes[x].child[1], yield)
}

// Insert adds the next node to the left of nodes for which left returns true, and to the right of others. Its number is
// the count of nodes ever inserted.
func (t *RBTree) Insert(left func(node int32) bool) {
	if len(t.nodes) == 0 {
		t.nodes = make([]rbNode, 1)
	}
	z := int32(len(t.nodes))
	parent, side := int32(0), 0
	for x := t.root; x != 0; {
		parent, side = x, 1
		if left(x) {
			side = 0
		}
		x = t.nodes[x].child[side]
	}
	t.nodes = append(t.nodes, rbNode{parent: parent, red: true})
	if parent == 0 {
		t.root = z
	} else {
		t.nodes[parent].child[side] = z
	}
	t.fixInsert(z)
}

// fixInsert removes red nodes with red parents, from z upwards.
func (t *RBTree) fixInsert(z int32) {
	n := t.nodes
	for n[n[z].parent].red {
		p := n[z].parent
		g := n[p].parent
		side := t.side(p)
		if uncle := n[g].child[1-side]; n[uncle].red {
			n[p].red, n[uncle].red, n[g].red = false, false, true
			z = g
			continue
		}
		if t.side(z) != side {
			t.rotate(p, side)
			z, p = p, z
		}
		n[p].red, n[g].red = false, true
		t.rotate(g, 1-side)
	}
	n[t.root].red = false
}

// rotate moves x down to the given side.
func (t *RBTree) rotate(x int32, side int) {
	n := t.nodes
	y := n[x].child[1-side]
	inner := n[y].child[side]
	n[x].child[1-side] = inner
	if inner != 0 {
		n[inner].parent = x
	}
	t.replace(x, y)
	n[y].child[side], n[x].parent = x, y
}

// replace makes y the child of x's parent, in place of x.
func (t *RBTree) replace(x, y int32) {
	n := t.nodes
	p := n[x].parent
	if p == 0 {
		t.root = y
	} else {
		n[p].child[t.side(x)] = y
	}
	n[y].parent = p // set for a leaf too: fixErase starts there and goes up
}

// erase removes node z.
func (t *RBTree) erase(z int32) {
	n := t.nodes
	var x int32 // the node that moves up to the place of the removed node
	wasRed := n[z].red
	switch left, right := n[z].child[0], n[z].child[1]; {
	case left == 0:
		x = right
		t.replace(z, x)
	case right == 0:
		x = left
		t.replace(z, x)
	default:
		next := right
		for n[next].child[0] != 0 {
			next = n[next].child[0]
		}
		wasRed = n[next].red
		x = n[next].child[1]
		if n[next].parent == z {
			n[x].parent = next
		} else {
			t.replace(next, x)
			n[next].child[1], n[right].parent = right, next
		}
		t.replace(z, next)
		n[next].child[0], n[left].parent = left, next
		n[next].red = n[z].red
	}
	if !wasRed {
		t.fixErase(x)
	}
	n[0] = rbNode{}
}

// fixErase makes black heights equal again if paths through x have one black node
// less than others.
func (t *RBTree) fixErase(x int32) {
	n := t.nodes
	for x != t.root && !n[x].red {
		p := n[x].parent
		side := t.side(x)
		w := n[p].child[1-side]
		if n[w].red {
			n[w].red, n[p].red = false, true
			t.rotate(p, side)
			w = n[p].child[1-side]
		}
		near, far := n[w].child[side], n[w].child[1-side]
		if !n[near].red && !n[far].red {
			n[w].red = true
			x = p
			continue
		}
		if !n[far].red {
			n[near].red, n[w].red = false, true
			t.rotate(w, 1-side)
			w = n[p].child[1-side]
			far = n[w].child[1-side]
		}
		n[w].red, n[p].red, n[far].red = n[p].red, false, false
		t.rotate(p, side)
		x = t.root
	}
	n[x].red = false
}

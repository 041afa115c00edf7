package symbolize

// rbTree is a red-black tree by address; nodes are numbers from 1 on. gperf
// needs the shape of perf's tree. perf keeps symbols in a red-black tree (Linux's lib/rbtree.c) and
// walks down it to find an address. If symbols overlap, as labels within functions
// written in assembly do, perf returns the first one on the way, which depends on
// all insertions and deletions. The kernel's algorithms, and these, come from
// Cormen et al., Introduction to Algorithms, chapter 13.
type rbTree struct {
	nodes []rbNode // nodes[0] represents every leaf
	root  int32
}

type rbNode struct {
	start               uint64
	left, right, parent int32
	red                 bool
}

// insert adds a node after those with the same start. Its number is the count of
// nodes ever inserted.
func (t *rbTree) insert(start uint64) {
	if len(t.nodes) == 0 {
		t.nodes = make([]rbNode, 1)
	}
	z := int32(len(t.nodes))
	t.nodes = append(t.nodes, rbNode{start: start, red: true})
	n := t.nodes
	var parent int32
	for x := t.root; x != 0; {
		parent = x
		if start < n[x].start {
			x = n[x].left
		} else {
			x = n[x].right
		}
	}
	n[z].parent = parent
	switch {
	case parent == 0:
		t.root = z
	case start < n[parent].start:
		n[parent].left = z
	default:
		n[parent].right = z
	}
	for n[n[z].parent].red {
		p := n[z].parent
		g := n[p].parent
		uncle, leftSide := n[g].left, false
		if p == uncle {
			uncle, leftSide = n[g].right, true
		}
		if n[uncle].red {
			n[p].red, n[uncle].red, n[g].red = false, false, true
			z = g
			continue
		}
		if leftSide && z == n[p].right || !leftSide && z == n[p].left {
			t.rotate(p, leftSide)
			z, p = p, z
		}
		n[p].red, n[g].red = false, true
		t.rotate(g, !leftSide)
	}
	n[t.root].red = false
}

// rotate moves x down to the left or to the right.
func (t *rbTree) rotate(x int32, left bool) {
	n := t.nodes
	var y int32
	if left {
		y = n[x].right
		n[x].right = n[y].left
		if n[y].left != 0 {
			n[n[y].left].parent = x
		}
		n[y].left = x
	} else {
		y = n[x].left
		n[x].left = n[y].right
		if n[y].right != 0 {
			n[n[y].right].parent = x
		}
		n[y].right = x
	}
	t.replace(x, y)
	n[x].parent = y
}

// replace makes y the child of x's parent, in place of x.
func (t *rbTree) replace(x, y int32) {
	n := t.nodes
	p := n[x].parent
	switch {
	case p == 0:
		t.root = y
	case n[p].left == x:
		n[p].left = y
	default:
		n[p].right = y
	}
	n[y].parent = p // set for a leaf too: fixErase starts there and goes up
}

// erase removes node z.
func (t *rbTree) erase(z int32) {
	n := t.nodes
	var x int32 // the node that moves up to the place of the removed node
	wasRed := n[z].red
	switch {
	case n[z].left == 0:
		x = n[z].right
		t.replace(z, x)
	case n[z].right == 0:
		x = n[z].left
		t.replace(z, x)
	default:
		next := n[z].right
		for n[next].left != 0 {
			next = n[next].left
		}
		wasRed = n[next].red
		x = n[next].right
		if n[next].parent == z {
			n[x].parent = next
		} else {
			t.replace(next, x)
			n[next].right = n[z].right
			n[n[next].right].parent = next
		}
		t.replace(z, next)
		n[next].left = n[z].left
		n[n[next].left].parent = next
		n[next].red = n[z].red
	}
	if !wasRed {
		t.fixErase(x)
	}
	n[0] = rbNode{}
}

// fixErase makes black heights equal again if paths through x have one black node
// less than others.
func (t *rbTree) fixErase(x int32) {
	n := t.nodes
	for x != t.root && !n[x].red {
		p := n[x].parent
		left := n[p].left == x
		child := func(i int32, leftOne bool) int32 {
			if leftOne {
				return n[i].left
			}
			return n[i].right
		}
		w := child(p, !left)
		if n[w].red {
			n[w].red, n[p].red = false, true
			t.rotate(p, left)
			w = child(p, !left)
		}
		near, far := child(w, left), child(w, !left)
		if !n[near].red && !n[far].red {
			n[w].red = true
			x = p
			continue
		}
		if !n[far].red {
			n[near].red, n[w].red = false, true
			t.rotate(w, !left)
			w = child(p, !left)
			far = child(w, !left)
		}
		n[w].red, n[p].red, n[far].red = n[p].red, false, false
		t.rotate(p, left)
		x = t.root
	}
	n[x].red = false
}

package report

// order returns items in perf's order: it inserts them into a red-black tree and
// reads it from left to right. left says whether the new item goes to the left of
// an existing one. A stable sort would suffice if perf's comparisons were
// consistent, but they are not (one uses an entry's thread), so the result depends
// on the tree's shape. The insertion is the textbook's (Cormen et al., chapter 13),
// as is the kernel's.
func order[T any](items []T, left func(there, new T) bool) []T {
	t := &tree{nodes: make([]treeNode, 1, len(items)+1)}
	for _, item := range items {
		t.insert(func(n int32) bool { return left(items[n-1], item) })
	}
	sorted := make([]T, 0, len(items))
	t.walk(t.root, func(n int32) { sorted = append(sorted, items[n-1]) })
	return sorted
}

// tree is a red-black tree of the numbers 1, 2, 3…; nodes[0] represents every
// leaf.
type tree struct {
	nodes []treeNode
	root  int32
}

type treeNode struct {
	child  [2]int32
	parent int32
	red    bool
}

// side is the side of n below its parent: 0 left, 1 right.
func (t *tree) side(n int32) int {
	if t.nodes[t.nodes[n].parent].child[1] == n {
		return 1
	}
	return 0
}

// insert adds the next number, which goes to the left of n where left(n).
func (t *tree) insert(left func(n int32) bool) {
	z := int32(len(t.nodes))
	parent, side := int32(0), 0
	for x := t.root; x != 0; {
		parent, side = x, 1
		if left(x) {
			side = 0
		}
		x = t.nodes[x].child[side]
	}
	t.nodes = append(t.nodes, treeNode{parent: parent, red: true})
	if parent == 0 {
		t.root = z
	} else {
		t.nodes[parent].child[side] = z
	}
	t.balance(z)
}

func (t *tree) balance(z int32) {
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
func (t *tree) rotate(x int32, side int) {
	n := t.nodes
	y := n[x].child[1-side]
	inner := n[y].child[side]
	n[x].child[1-side] = inner
	if inner != 0 {
		n[inner].parent = x
	}
	p := n[x].parent
	n[y].parent = p
	if p == 0 {
		t.root = y
	} else {
		n[p].child[t.side(x)] = y
	}
	n[y].child[side], n[x].parent = x, y
}

func (t *tree) walk(n int32, visit func(int32)) {
	if n == 0 {
		return
	}
	t.walk(t.nodes[n].child[0], visit)
	visit(n)
	t.walk(t.nodes[n].child[1], visit)
}

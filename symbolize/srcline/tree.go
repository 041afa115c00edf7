package srcline

import "slices"

// node is a function with code of its own, or one inlined into its parent.
type node struct {
	parent     int32  // index of the node that it is inlined into, -1 for none
	function   int32  // in tree.functions
	file       uint32 // in the line table: of the call
	line       uint32
	column     uint32
	inlined    bool
	start, end int32 // its part of tree.spans
}

// tree is the functions of a unit, in the order of their DIEs: parents come
// before what they hold.
type tree struct {
	*sections       // of the unit
	code      spans // where there is code
	nodes     []node
	spans     []span
	functions []function // the first is none

	known   map[place]int32 // functions that others refer to
	parents []int32         // of the DIEs at each depth
	claims  []claim
	settled []piece
}

// reset forgets a unit's functions and keeps the memory for those of the next.
func (t *tree) reset() {
	t.nodes, t.spans, t.functions = t.nodes[:0], t.spans[:0], append(t.functions[:0], function{})
	if t.known == nil || len(t.known) > maxKnown {
		t.known = make(map[place]int32)
	}
	clear(t.known)
}

// maxKnown is the number of entries up to which the map known is cleared and not
// replaced.
const maxKnown = 1 << 10

// place is that of a DIE: its offset, with inSupp in the file of dwz.
type place uint64

const inSupp place = 1 << 63

// function is what a DIE and those that it refers to say.
type function struct {
	name      []byte
	linkage   bool // the name is a linkage name
	startLine uint32
}

// read walks through the unit's DIEs. It is false if they are damaged: what was
// read up to there is kept.
func (t *tree) read(u *unit) bool {
	t.sections = u.sections
	table := u.abbrevs()
	c := u.cursor(u.info[:u.end])
	c.Seek(u.die)
	methods := u.hasMethods()
	parents := append(t.parents[:0], -1)
	defer func() { t.parents = parents }()
	var v values
	for c.Left() > 0 {
		code := c.ULEB()
		if code == 0 {
			if parents = parents[:len(parents)-1]; len(parents) <= 1 {
				break
			}
			continue
		}
		a := table.get(code)
		if a == nil {
			return false
		}
		if a.plain && len(parents) > 1 { // most are
			c.Skip(uint64(a.ops[0].skip))
			continue
		}
		u.layout.read(&c, a, &v)
		if c.Bad {
			return false
		}
		parent := parents[len(parents)-1]
		switch a.kind {
		case kindFunction:
			parent = t.add(u, &v, -1, false)
		case kindInlined:
			parent = t.add(u, &v, parent, true)
		case kindOther, kindType:
			if !a.children || a.kind == kindType && methods {
				break
			}
			if sibling, ok := v.get(slotSibling); ok {
				if next, off := u.ref(sibling); next == u && off > uint64(c.Pos) {
					c.Seek(off)
					continue
				}
			}
		}
		if a.children {
			parents = append(parents, parent)
		} else if len(parents) == 1 {
			break // the root has none
		}
	}
	return !c.Bad && len(t.spans) <= maxSpans
}

// hasMethods reports whether types may hold functions with code.
func (u *unit) hasMethods() bool {
	switch u.lang {
	case langC89, langC, langC99, langC11, langC17, langMIPSAssembler:
		return false
	}
	return true
}

// maxSpans bounds the ranges of one unit's functions: many DIEs may refer to one
// endless list.
const maxSpans = 1 << 22

// add adds the function of a DIE and returns what its children's parent is.
func (t *tree) add(u *unit, v *values, parent int32, inlined bool) int32 {
	first := len(t.spans)
	if first <= maxSpans {
		t.spans = u.spans(v, t.spans)
	}
	kept := slices.DeleteFunc(t.spans[first:], func(s span) bool { return !t.code.has(s.lo) })
	t.spans = t.spans[:first+len(kept)]
	if len(t.spans) == first {
		return parent
	}
	n := node{
		parent: -1, function: t.function(u, v), inlined: inlined && parent >= 0,
		start: int32(first), end: int32(len(t.spans)),
	}
	if n.inlined {
		n.parent = parent
		n.file, n.line, n.column = uint32(v.number(slotCallFile)), uint32(v.number(slotCallLine)), uint32(v.number(slotCallColumn))
	}
	t.nodes = append(t.nodes, n)
	return int32(len(t.nodes) - 1)
}

// maxOrigins is how far a function's name may be from its code.
const maxOrigins = 16

// function returns the index of what names a DIE's function.
func (t *tree) function(u *unit, v *values) int32 {
	const own = 1<<slotLinkage | 1<<slotName | 1<<slotDeclLine | 1<<slotSpecification
	if to, ok := v.get(slotOrigin); ok && v.has&own == 0 {
		return t.origin(u, to, maxOrigins-1)
	}
	return t.put(t.origins(u, v, maxOrigins))
}

func (t *tree) put(f function) int32 {
	t.functions = append(t.functions, f)
	return int32(len(t.functions) - 1)
}

// origins collects what names a function: a linkage name anywhere along its
// origins, or else the nearest name.
func (t *tree) origins(u *unit, v *values, depth int) function {
	f := function{name: u.stringOf(v, slotLinkage), startLine: uint32(v.number(slotDeclLine))}
	if f.linkage = len(f.name) > 0; !f.linkage {
		f.name = u.stringOf(v, slotName)
	}
	for _, s := range [...]slot{slotOrigin, slotSpecification} {
		to, ok := v.get(s)
		if !ok || f.linkage && f.startLine != 0 {
			continue
		}
		o := &t.functions[t.origin(u, to, depth-1)]
		if o.linkage && !f.linkage || len(f.name) == 0 {
			f.name, f.linkage = o.name, o.linkage
		}
		if f.startLine == 0 {
			f.startLine = o.startLine
		}
	}
	return f
}

// origin returns the index of what the DIE that a value refers to says.
func (t *tree) origin(u *unit, v value, depth int) int32 {
	u, off := u.ref(v)
	if u == nil || depth == 0 {
		return 0
	}
	at := place(off)
	if u.sections != t.sections {
		at |= inSupp
	}
	if i, ok := t.known[at]; ok {
		return i
	}
	c := u.cursor(u.info[:u.end])
	c.Seek(off)
	a := u.abbrevs().get(c.ULEB())
	if a == nil || a.kind != kindFunction && a.kind != kindInlined {
		return 0
	}
	var values values
	u.layout.read(&c, a, &values)
	if c.Bad {
		return 0
	}
	i := t.put(t.origins(u, &values, depth))
	t.known[at] = i
	return i
}

// pieces cuts the unit's addresses where they change from one node to another.
// Where nodes overlap the later counts: a child before its parent.
func (t *tree) pieces() []piece {
	t.claims = t.claims[:0]
	for i := range t.nodes {
		n := &t.nodes[i]
		for _, s := range t.spans[n.start:n.end] {
			t.claims = append(t.claims, claim{s, int32(i)})
		}
	}
	t.settled = settle(t.claims, t.settled[:0])
	return t.settled
}

package srcline

import (
	"cmp"
	"slices"
)

// node is a function with code, or a function inlined into its parent.
type node struct {
	parent     int32  // index of the node that it is inlined into; -1: none
	function   int32  // in tree.functions
	file       uint32 // of the call, in the line table
	line       uint32
	column     uint32
	inlined    bool
	start, end int32 // its spans: tree.spans[start:end]
}

// tree is the functions of a unit, in the order of their DIEs: parents come before their children.
type tree struct {
	sections  *sections // of the unit
	code      spans     // of the file's code
	nodes     []node
	spans     []span
	functions []function // the first means none

	known    map[place]int32 // functions that other DIEs refer to
	parents  []int32         // of the DIEs at each depth
	claims   []claim
	resolved []piece
}

// reset removes a unit's functions and keeps the memory for the functions of the next.
func (t *tree) reset() {
	t.nodes, t.spans, t.functions = t.nodes[:0], t.spans[:0], append(t.functions[:0], function{})
	if t.known == nil || len(t.known) > maxKnown {
		t.known = make(map[place]int32)
	}
	clear(t.known)
}

// maxKnown limits the map that reset clears: clearing a larger one takes longer than allocating a new one.
const maxKnown = 1 << 10

// place identifies a DIE: its offset, plus inSupp if it is in the supplementary file.
type place uint64

const inSupp place = 1 << 63

// function is the attributes of a DIE and the DIEs that it refers to.
type function struct {
	name      []byte
	linkage   bool // the name is a linkage name
	startLine uint32
}

// read walks the unit's DIEs. It returns false at a corrupt one, and keeps the functions before that.
func (t *tree) read(u *unit) bool {
	t.sections = u.sections
	table := u.abbrevs()
	c := u.sections.cursor(u.sections.info[:u.end])
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
		if a.plain && len(parents) > 1 { // most DIEs are
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
			break // the root has no siblings
		}
	}
	return !c.Bad && len(t.spans) <= maxSpans
}

// hasMethods reports whether types may contain functions with code.
func (u *unit) hasMethods() bool {
	switch u.lang {
	case langC89, langC, langC99, langC11, langC17, langMIPSAssembler:
		return false
	}
	return true
}

// maxSpans limits the ranges of one unit's functions: in a corrupt file, many DIEs may refer to one long list.
const maxSpans = 1 << 22

// add adds the function of a DIE and returns the parent node of its children.
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
		n.file, n.line, n.column = uint32(v.number(slotCallFile)), uint32(v.number(slotCallLine)),
			uint32(v.number(slotCallColumn))
	}
	t.nodes = append(t.nodes, n)
	return int32(len(t.nodes) - 1)
}

// maxOrigins limits the DIEs from a function's code to its name.
const maxOrigins = 16

// function returns the index in functions of a DIE's function.
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

// origins follows a function's abstract origins for its name: the first linkage name, or otherwise the first name.
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
		f.startLine = cmp.Or(f.startLine, o.startLine)
	}
	return f
}

// origin returns the index in functions of the DIE that a value refers to.
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
	c := u.sections.cursor(u.sections.info[:u.end])
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

// pieces returns the node of each of the unit's addresses. Where nodes overlap, the later one owns the address: a
// child, not its parent.
func (t *tree) pieces() []piece {
	t.claims = t.claims[:0]
	for i := range t.nodes {
		n := &t.nodes[i]
		for _, s := range t.spans[n.start:n.end] {
			t.claims = append(t.claims, claim{s, int32(i)})
		}
	}
	t.resolved = resolveClaims(t.claims, t.resolved[:0])
	return t.resolved
}

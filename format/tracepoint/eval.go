package tracepoint

// printer prints one event's raw data.
type printer struct {
	raw []byte
	env *Env
	big bool
}

// num is an expression's number. All numbers are unsigned 64 bits, as in
// libtraceevent, which extends no signs: a -1 in an int field is 0xffffffff.
func (p *printer) num(n *node) uint64 {
	switch n.kind {
	case nodeAtom:
		return n.val
	case nodeField:
		if n.field == nil {
			return 0
		}
		v, _ := readUint(p.raw, n.field.Offset, n.field.Size, p.big)
		return v
	case nodeCast:
		return p.num(n.args[0]) & n.val
	case nodeLongSize:
		return uint64(p.env.longSize())
	case nodeDynamicLen:
		_, length := n.field.span(p.raw, p.big)
		return uint64(length)
	case nodeDynamic: // an address in perf's memory, which cannot be printed
		off, _ := n.field.span(p.raw, p.big)
		return uint64(off)
	case nodeOp:
		return p.operation(n)
	}
	return 0
}

func (p *printer) operation(n *node) uint64 {
	switch n.op {
	case '[':
		return p.index(n)
	case '?':
		branches := n.args[1]
		if p.num(n.args[0]) != 0 {
			return p.num(branches.args[0])
		}
		return p.num(branches.args[1])
	}
	return compute(n.op, p.num(n.args[0]), p.num(n.args[1]))
}

// index is args[0][args[1]]. In a dynamic array the index counts bytes.
func (p *printer) index(n *node) uint64 {
	i := p.num(n.args[1])
	array, mask := n.args[0], uint64(1<<64-1)
	if array.kind == nodeCast {
		mask = pointedMask(array.text)
	}
	for array.kind == nodeCast {
		array = array.args[0]
	}
	var off uint32 // wraps, so that small negative indexes work
	size := p.env.longSize()
	switch {
	case array.kind == nodeDynamic:
		o, _ := array.field.span(p.raw, p.big)
		off = uint32(o) + uint32(i)
		if array.field.ElemSize != 0 {
			size = array.field.ElemSize
		}
	case array.kind == nodeField && array.field != nil:
		size = array.field.ElemSize
		off = uint32(array.field.Offset) + uint32(i)*uint32(size)
	default:
		return 0
	}
	v, _ := readUint(p.raw, int(off), size, p.big)
	return v & mask
}

// pointedMask is castMask of the type that a pointer points to.
func pointedMask(typ string) uint64 {
	if len(typ) < 3 || typ[len(typ)-1] != '*' {
		return 1<<64 - 1
	}
	return castMask(typ[:len(typ)-2])
}

// compute is a op b in C's unsigned long long. It is 0 for ^, which
// libtraceevent cannot compute here, and for what C leaves undefined.
func compute(o op, a, b uint64) uint64 {
	switch o {
	case '+':
		return a + b
	case '-':
		return a - b
	case '*':
		return a * b
	case '/':
		if b == 0 {
			return 0
		}
		return a / b
	case '%':
		if b == 0 {
			return 0
		}
		return a % b
	case '&':
		return a & b
	case '|':
		return a | b
	case '~':
		return ^b
	case opShl:
		return a << (b & 63)
	case opShr:
		return a >> (b & 63)
	}
	return uint64(truth(compare(o, a, b)))
}

func compare(o op, a, b uint64) bool {
	switch o {
	case '!':
		return b == 0
	case '<':
		return a < b
	case '>':
		return a > b
	case opLE:
		return a <= b
	case opGE:
		return a >= b
	case opEQ:
		return a == b
	case opNE:
		return a != b
	case opAnd:
		return a != 0 && b != 0
	case opOr:
		return a != 0 || b != 0
	}
	return false
}

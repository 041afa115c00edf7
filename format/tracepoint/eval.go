package tracepoint

// evaluator computes expressions over the raw data of one event.
type evaluator struct {
	raw []byte
	env *Env
	big bool // raw is big-endian
}

// num returns an expression's number. All numbers are unsigned and have 64 bits, as in libtraceevent, which does not
// extend signs: -1 in an int field is 0xffffffff.
func (e *evaluator) num(n *node) uint64 {
	switch n.kind {
	case nodeAtom:
		return n.val
	case nodeField:
		if n.field == nil {
			return 0
		}
		v, _ := readUint(e.raw, n.field.Offset, n.field.Size, e.big)
		return v
	case nodeCast:
		return e.num(n.args[0]) & n.val
	case nodeLongSize:
		return uint64(e.env.longSize())
	case nodeDynamicLen:
		_, length := n.field.span(e.raw, e.big)
		return uint64(length)
	case nodeDynamic: // in libtraceevent an address in perf's memory
		off, _ := n.field.span(e.raw, e.big)
		return uint64(off)
	case nodeOp:
		return e.operation(n)
	}
	return 0
}

func (e *evaluator) operation(n *node) uint64 {
	switch n.op {
	case '[':
		return e.index(n)
	case '?':
		branches := n.args[1]
		if e.num(n.args[0]) != 0 {
			return e.num(branches.args[0])
		}
		return e.num(branches.args[1])
	}
	return compute(n.op, e.num(n.args[0]), e.num(n.args[1]))
}

// index returns args[0][args[1]]. In a dynamic array the index counts bytes.
func (e *evaluator) index(n *node) uint64 {
	i := e.num(n.args[1])
	array, mask := n.args[0], uint64(1<<64-1)
	if array.kind == nodeCast {
		mask = pointedMask(array.text)
	}
	array = array.uncast()
	var off uint32 // wraps, so that small negative indexes work
	size := e.env.longSize()
	switch {
	case array.kind == nodeDynamic:
		o, _ := array.field.span(e.raw, e.big)
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
	v, _ := readUint(e.raw, int(off), size, e.big)
	return v & mask
}

// bytesOf returns the data of an array argument, from its start to the end of raw.
func (e *evaluator) bytesOf(n *node) []byte {
	switch {
	case n.kind == nodeDynamic:
		off, _ := n.field.span(e.raw, e.big)
		return cut(e.raw, off, len(e.raw))
	case n.kind == nodeField && n.field != nil:
		return cut(e.raw, n.field.Offset, len(e.raw))
	}
	return nil
}

// maskByte returns the byte of mask with bits 8*i to 8*i+7.
func (e *evaluator) maskByte(mask []byte, i int) byte {
	if e.big {
		i = len(mask) - 1 - i
	}
	return mask[i]
}

// pointedMask returns castMask of the type that a pointer type points to.
func pointedMask(typ string) uint64 {
	if len(typ) < 3 || typ[len(typ)-1] != '*' {
		return 1<<64 - 1
	}
	return castMask(typ[:len(typ)-2])
}

// compute returns a op b with C's unsigned long long. It returns 0 for ^, which libtraceevent cannot compute here, and
// for results that C leaves undefined.
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

package pcapfilter

import "golang.org/x/net/bpf"

// value is arithmetic on 32-bit numbers without sign.
type value struct {
	op          valueOp
	number      uint32
	left, right *value
	alu         bpf.ALUOp

	// of a field in a packet
	index     *value // from the beginning of the header
	off       uint32 // the header's position
	size      int
	transport bool  // off is IPv4's header, and index begins after it
	requires  *cond // the packet contains the header
}

type valueOp uint8

const (
	opNumber valueOp = iota
	opLength
	opField
	opALU
)

// scratchSlots is the number of words of a program's memory.
const scratchSlots = 16

// binaryOperators is the operators with the precedence in C, as far as libpcap keeps it: unlike in C, all bind
// tighter than comparisons.
var binaryOperators = map[string]struct {
	precedence int
	alu        bpf.ALUOp
}{
	"|": {1, bpf.ALUOpOr}, "^": {2, bpf.ALUOpXor}, "&": {3, bpf.ALUOpAnd},
	"<<": {4, bpf.ALUOpShiftLeft}, ">>": {4, bpf.ALUOpShiftRight},
	"+": {5, bpf.ALUOpAdd}, "-": {5, bpf.ALUOpSub},
	"*": {6, bpf.ALUOpMul}, "/": {6, bpf.ALUOpDiv}, "%": {6, bpf.ALUOpMod},
}

// arithmetic parses numbers with operators.
type arithmetic struct{ headers *headers }

// value parses operands and operators that bind tighter than a precedence.
func (a arithmetic) value(above int) *value {
	c := a.headers.cursor
	c.enter()
	defer c.leave()
	return a.after(a.factor(), above)
}

// after parses the operators, and their operands, that follow an operand.
func (a arithmetic) after(left *value, above int) *value {
	for {
		t := a.headers.cursor.peek()
		op, ok := binaryOperators[t.text]
		if t.kind != tokenOperator || !ok || op.precedence <= above {
			return left
		}
		a.headers.cursor.take()
		left = a.calculate(op.alu, left, a.value(op.precedence), t)
	}
}

// factor parses a number, a field, or arithmetic in parentheses.
func (a arithmetic) factor() *value {
	a.headers.cursor.enter()
	defer a.headers.cursor.leave()
	t := a.headers.cursor.take()
	switch t.kind {
	case tokenNumber:
		return &value{number: t.number}
	case tokenOperator:
		switch t.text {
		case "-":
			return a.calculate(bpf.ALUOpSub, &value{}, a.factor(), t)
		case "(":
			v := a.value(0)
			a.headers.cursor.expect(")")
			return v
		}
	case tokenWord:
		n, isConstant := constants[t.text]
		switch {
		case isConstant:
			return &value{number: n}
		case t.text == "len" || t.text == "length":
			return &value{op: opLength}
		case isProtocolWord(t.text) && a.headers.cursor.accept("["):
			return a.field(t)
		}
	}
	a.headers.cursor.unexpected(t)
	return &value{}
}

// field parses "[index:size]" of a protocol.
func (a arithmetic) field(proto token) *value {
	v := a.headers.header(proto)
	v.op, v.size, v.index = opField, 1, a.value(0)
	if a.headers.cursor.accept(":") {
		size := a.headers.cursor.take()
		if n := size.number; size.kind != tokenNumber || n != 1 && n != 2 && n != 4 {
			a.headers.cursor.fail(size, "a field has 1, 2 or 4 bytes")
		}
		v.size = int(size.number)
	}
	a.headers.cursor.expect("]")
	return v
}

// header returns a field at the beginning of a protocol's header.
func (h *headers) header(t token) *value {
	proto, payload := protocols[t.text], h.payload
	switch {
	case t.text == "ether" || t.text == "link":
		h.needEthernet(t)
		return &value{requires: always(true)}
	case proto.sap || t.text == "ah" || t.text == "esp":
		h.cursor.fail(t, "fields of %q cannot be read", t.text)
		return &value{requires: always(true)}
	case proto.etherType != 0:
		return &value{off: payload, requires: h.etherType(proto.etherType, t)}
	case !proto.ipv4:
		requires := and(h.etherType(etherIPv6, t), equal(payload+6, 1, proto.number, 0xff))
		return &value{off: payload + 40, requires: requires}
	}
	requires := and(and(h.etherType(etherIPv4, t), equal(payload+9, 1, proto.number, 0xff)), h.firstFragment())
	return &value{off: payload, transport: true, requires: requires}
}

// calculate returns left op right, calculated if both are numbers.
func (a arithmetic) calculate(op bpf.ALUOp, left, right *value, t token) *value {
	if right.op == opNumber {
		switch {
		case right.number == 0 && (op == bpf.ALUOpDiv || op == bpf.ALUOpMod):
			a.headers.cursor.fail(t, "division by zero")
			return &value{}
		case right.number > 31 && (op == bpf.ALUOpShiftLeft || op == bpf.ALUOpShiftRight):
			a.headers.cursor.fail(t, "a shift by more than 31 bits")
			return &value{}
		case left.op == opNumber:
			return &value{number: fold(op, left.number, right.number)}
		}
	}
	return &value{op: opALU, alu: op, left: left, right: right}
}

func fold(op bpf.ALUOp, a, b uint32) uint32 {
	switch op {
	case bpf.ALUOpAdd:
		return a + b
	case bpf.ALUOpSub:
		return a - b
	case bpf.ALUOpMul:
		return a * b
	case bpf.ALUOpDiv:
		return a / b
	case bpf.ALUOpMod:
		return a % b
	case bpf.ALUOpAnd:
		return a & b
	case bpf.ALUOpOr:
		return a | b
	case bpf.ALUOpXor:
		return a ^ b
	case bpf.ALUOpShiftLeft:
		return a << b
	}
	return a >> b
}

var comparisons = map[string]bpf.JumpTest{"=": bpf.JumpEqual, "==": bpf.JumpEqual, "!=": bpf.JumpNotEqual,
	"<": bpf.JumpLessThan, "<=": bpf.JumpLessOrEqual, ">": bpf.JumpGreaterThan, ">=": bpf.JumpGreaterOrEqual}

// compare returns the condition that both operands can be read, and the comparison is true.
func (a arithmetic) compare(op string, left, right *value, t token) *cond {
	c := test(nil, comparisons[op], right.number)
	ok := true
	if right.op == opNumber {
		ok = left.code(&c.load, 0)
	} else {
		c.byX = true
		ok = left.codePair(right, &c.load, 0)
	}
	if !ok {
		return a.headers.cursor.fail(t, "the arithmetic is too complex: it requires more than %d temporary numbers",
			scratchSlots)
	}
	return and(and(left.required(), right.required()), c)
}

// required returns the condition that all headers exist whose fields are read.
func (v *value) required() *cond {
	switch v.op {
	case opField:
		return and(v.index.required(), v.requires)
	case opALU:
		return and(v.left.required(), v.right.required())
	}
	return always(true)
}

// code appends the code that loads a value into A. It uses the memory from slot on, and reports
// whether it is enough.
func (v *value) code(to *[]bpf.Instruction, slot int) bool {
	switch v.op {
	case opNumber:
		*to = append(*to, bpf.LoadConstant{Dst: bpf.RegA, Val: v.number})
	case opLength:
		*to = append(*to, bpf.LoadExtension{Num: bpf.ExtLen})
	case opField:
		return v.fieldCode(to, slot)
	case opALU:
		if v.right.op == opNumber {
			ok := v.left.code(to, slot)
			*to = append(*to, bpf.ALUOpConstant{Op: v.alu, Val: v.right.number})
			return ok
		}
		ok := v.left.codePair(v.right, to, slot)
		*to = append(*to, bpf.ALUOpX{Op: v.alu})
		return ok
	}
	return true
}

// codePair appends the code that loads a value into A and another one into X.
func (v *value) codePair(x *value, to *[]bpf.Instruction, slot int) bool {
	if slot >= scratchSlots || !v.code(to, slot) {
		return false
	}
	*to = append(*to, bpf.StoreScratch{Src: bpf.RegA, N: slot})
	ok := x.code(to, slot+1)
	*to = append(*to, bpf.TAX{}, bpf.LoadScratch{Dst: bpf.RegA, N: slot})
	return ok
}

func (v *value) fieldCode(to *[]bpf.Instruction, slot int) bool {
	const largest = 1 << 16 // of positions in instructions
	if v.index.op == opNumber && v.index.number < largest {
		off := v.off + v.index.number
		if v.transport {
			*to = append(*to, bpf.LoadMemShift{Off: v.off}, bpf.LoadIndirect{Off: off, Size: v.size})
		} else {
			*to = append(*to, bpf.LoadAbsolute{Off: off, Size: v.size})
		}
		return true
	}
	ok := v.index.code(to, slot)
	if v.transport {
		*to = append(*to, bpf.LoadMemShift{Off: v.off}, bpf.ALUOpX{Op: bpf.ALUOpAdd})
	}
	*to = append(*to, bpf.TAX{}, bpf.LoadIndirect{Off: v.off, Size: v.size})
	return ok
}

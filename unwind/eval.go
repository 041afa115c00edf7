package unwind

import "gperf/internal/dwarf"

// Bounds of an expression's evaluation: those that compilers write have ten
// operations.
const (
	maxOps   = 1000
	maxStack = 64
)

// evaluator runs DWARF expressions (DWARF 5, 2.5) over registers and memory.
type evaluator struct {
	regs  *Regs
	mem   Memory
	stack [maxStack]uint64
	n     int
	why   Reason // why it failed, if it did
}

// run returns the value of expression e, which begins with the given values on
// the stack.
func (v *evaluator) run(e []byte, initial ...uint64) (uint64, bool) {
	v.why = NoRule
	v.n = copy(v.stack[:], initial)
	c := dwarf.Cursor{B: e}
	for ops := 0; c.Left() > 0; ops++ {
		if ops >= maxOps || !v.op(&c) || c.Bad {
			return 0, false
		}
	}
	if v.n == 0 {
		return 0, false
	}
	return v.stack[v.n-1], true
}

func (v *evaluator) push(x uint64) bool {
	if v.n >= maxStack {
		return false
	}
	v.stack[v.n] = x
	v.n++
	return true
}

// pop returns the top of the stack, 0 and false below its bottom.
func (v *evaluator) pop() (uint64, bool) {
	if v.n == 0 {
		return 0, false
	}
	v.n--
	return v.stack[v.n], true
}

// pick pushes the i-th entry from the top.
func (v *evaluator) pick(i int) bool {
	return i < v.n && v.push(v.stack[v.n-1-i])
}

func (v *evaluator) op(c *dwarf.Cursor) bool {
	op := c.U8()
	switch {
	case op >= opLit0 && op <= opLit31:
		return v.push(uint64(op - opLit0))
	case op >= opBreg0 && op <= opBreg31:
		return v.reg(uint64(op-opBreg0), c.SLEB())
	}
	switch op {
	case opNop:
		return true
	case opAddr, opConst8u, opConst8s:
		return v.push(c.U64())
	case opConst1u:
		return v.push(uint64(c.U8()))
	case opConst1s:
		return v.push(uint64(int8(c.U8())))
	case opConst2u:
		return v.push(uint64(c.U16()))
	case opConst2s:
		return v.push(uint64(int16(c.U16())))
	case opConst4u:
		return v.push(uint64(c.U32()))
	case opConst4s:
		return v.push(uint64(int32(c.U32())))
	case opConstu:
		return v.push(c.ULEB())
	case opConsts:
		return v.push(uint64(c.SLEB()))
	case opBregx:
		n := c.ULEB()
		return v.reg(n, c.SLEB())
	case opDup:
		return v.pick(0)
	case opOver:
		return v.pick(1)
	case opPick:
		return v.pick(int(c.U8()))
	case opDrop:
		_, ok := v.pop()
		return ok
	case opSkip:
		return jump(c, int16(c.U16()))
	case opBra:
		by := int16(c.U16())
		x, ok := v.pop()
		return ok && (x == 0 || jump(c, by))
	}
	return v.onStack(op, c)
}

// onStack runs the operations that take from the stack what they need.
func (v *evaluator) onStack(op uint8, c *dwarf.Cursor) bool {
	b, ok := v.pop()
	if !ok {
		return false
	}
	switch op {
	case opDeref:
		return v.deref(b, 8)
	case opDerefSize:
		return v.deref(b, int(c.U8()))
	case opPlusUconst:
		return v.push(b + c.ULEB())
	case opAbs:
		if int64(b) < 0 {
			b = -b
		}
		return v.push(b)
	case opNeg:
		return v.push(-b)
	case opNot:
		return v.push(^b)
	}
	a, ok := v.pop()
	if !ok {
		return false
	}
	switch op {
	case opSwap:
		return v.push(b) && v.push(a)
	case opRot:
		x, ok := v.pop()
		return ok && v.push(b) && v.push(x) && v.push(a)
	}
	r, ok := arith(op, a, b)
	return ok && v.push(r)
}

// arith is a op b.
func arith(op uint8, a, b uint64) (uint64, bool) {
	truth := func(t bool) (uint64, bool) {
		if t {
			return 1, true
		}
		return 0, true
	}
	switch op {
	case opAnd:
		return a & b, true
	case opOr:
		return a | b, true
	case opXor:
		return a ^ b, true
	case opPlus:
		return a + b, true
	case opMinus:
		return a - b, true
	case opMul:
		return a * b, true
	case opDiv:
		if b == 0 {
			return 0, false
		}
		return uint64(int64(a) / int64(b)), true
	case opMod:
		if b == 0 {
			return 0, false
		}
		return a % b, true
	case opShl:
		return a << b, true
	case opShr:
		return a >> b, true
	case opShra:
		return uint64(int64(a) >> b), true
	case opEq:
		return truth(a == b)
	case opNe:
		return truth(a != b)
	case opLt:
		return truth(int64(a) < int64(b))
	case opLe:
		return truth(int64(a) <= int64(b))
	case opGt:
		return truth(int64(a) > int64(b))
	case opGe:
		return truth(int64(a) >= int64(b))
	}
	return 0, false
}

// reg pushes a register plus an offset.
func (v *evaluator) reg(n uint64, off int64) bool {
	x, ok := v.regs.Get(int(min(n, maxRegs)))
	return ok && v.push(x+uint64(off))
}

// deref pushes size bytes of memory at an address.
func (v *evaluator) deref(addr uint64, size int) bool {
	if size < 1 || size > 8 {
		return false
	}
	x, ok := v.mem.Word(addr)
	if !ok {
		v.why = Unreadable
		return false
	}
	return v.push(x & (1<<(8*size) - 1))
}

// jump moves the cursor.
func jump(c *dwarf.Cursor, by int16) bool {
	to := c.Pos + int(by)
	if to < 0 || to > len(c.B) {
		return false
	}
	c.Pos = to
	return true
}

package unwind

import "gperf/internal/dwarf"

// Limits of an evaluation. Expressions of compilers have about ten operations.
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
	why   Reason // why the evaluation failed
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
	case op >= dwarf.OpLit0 && op <= dwarf.OpLit31:
		return v.push(uint64(op - dwarf.OpLit0))
	case op >= dwarf.OpBreg0 && op <= dwarf.OpBreg31:
		return v.reg(uint64(op-dwarf.OpBreg0), c.SLEB())
	}
	switch op {
	case dwarf.OpNop:
		return true
	case dwarf.OpAddr, dwarf.OpConst8u, dwarf.OpConst8s:
		return v.push(c.U64())
	case dwarf.OpConst1u:
		return v.push(uint64(c.U8()))
	case dwarf.OpConst1s:
		return v.push(uint64(int8(c.U8())))
	case dwarf.OpConst2u:
		return v.push(uint64(c.U16()))
	case dwarf.OpConst2s:
		return v.push(uint64(int16(c.U16())))
	case dwarf.OpConst4u:
		return v.push(uint64(c.U32()))
	case dwarf.OpConst4s:
		return v.push(uint64(int32(c.U32())))
	case dwarf.OpConstu:
		return v.push(c.ULEB())
	case dwarf.OpConsts:
		return v.push(uint64(c.SLEB()))
	case dwarf.OpBregx:
		n := c.ULEB()
		return v.reg(n, c.SLEB())
	case dwarf.OpDup:
		return v.pick(0)
	case dwarf.OpOver:
		return v.pick(1)
	case dwarf.OpPick:
		return v.pick(int(c.U8()))
	case dwarf.OpDrop:
		_, ok := v.pop()
		return ok
	case dwarf.OpSkip:
		return jump(c, int16(c.U16()))
	case dwarf.OpBra:
		by := int16(c.U16())
		x, ok := v.pop()
		return ok && (x == 0 || jump(c, by))
	}
	return v.onStack(op, c)
}

// onStack runs the operations whose operands are on the stack.
func (v *evaluator) onStack(op uint8, c *dwarf.Cursor) bool {
	b, ok := v.pop()
	if !ok {
		return false
	}
	switch op {
	case dwarf.OpDeref:
		return v.deref(b, 8)
	case dwarf.OpDerefSize:
		return v.deref(b, int(c.U8()))
	case dwarf.OpPlusUconst:
		return v.push(b + c.ULEB())
	case dwarf.OpAbs:
		if int64(b) < 0 {
			b = -b
		}
		return v.push(b)
	case dwarf.OpNeg:
		return v.push(-b)
	case dwarf.OpNot:
		return v.push(^b)
	}
	a, ok := v.pop()
	if !ok {
		return false
	}
	switch op {
	case dwarf.OpSwap:
		return v.push(b) && v.push(a)
	case dwarf.OpRot:
		x, ok := v.pop()
		return ok && v.push(b) && v.push(x) && v.push(a)
	}
	r, ok := arith(op, a, b)
	return ok && v.push(r)
}

// arith returns a op b; ok is false if op is unknown or divides by zero.
func arith(op uint8, a, b uint64) (uint64, bool) {
	truth := func(t bool) (uint64, bool) {
		if t {
			return 1, true
		}
		return 0, true
	}
	switch op {
	case dwarf.OpAnd:
		return a & b, true
	case dwarf.OpOr:
		return a | b, true
	case dwarf.OpXor:
		return a ^ b, true
	case dwarf.OpPlus:
		return a + b, true
	case dwarf.OpMinus:
		return a - b, true
	case dwarf.OpMul:
		return a * b, true
	case dwarf.OpDiv:
		if b == 0 {
			return 0, false
		}
		return uint64(int64(a) / int64(b)), true
	case dwarf.OpMod:
		if b == 0 {
			return 0, false
		}
		return a % b, true
	case dwarf.OpShl:
		return a << b, true
	case dwarf.OpShr:
		return a >> b, true
	case dwarf.OpShra:
		return uint64(int64(a) >> b), true
	case dwarf.OpEq:
		return truth(a == b)
	case dwarf.OpNe:
		return truth(a != b)
	case dwarf.OpLt:
		return truth(int64(a) < int64(b))
	case dwarf.OpLe:
		return truth(int64(a) <= int64(b))
	case dwarf.OpGt:
		return truth(int64(a) > int64(b))
	case dwarf.OpGe:
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

// jump moves the cursor by a number of bytes.
func jump(c *dwarf.Cursor, by int16) bool {
	to := c.Pos + int(by)
	if to < 0 || to > len(c.B) {
		return false
	}
	c.Pos = to
	return true
}

package vars

import (
	"errors"
	"fmt"

	"gperf/internal/dwarf"
)

// Operations of location expressions (DWARF 5, 7.7.1).
const (
	opAddr          = 0x03
	opDeref         = 0x06
	opConst1u       = 0x08
	opConst1s       = 0x09
	opConst2u       = 0x0a
	opConst2s       = 0x0b
	opConst4u       = 0x0c
	opConst4s       = 0x0d
	opConst8u       = 0x0e
	opConst8s       = 0x0f
	opConstu        = 0x10
	opConsts        = 0x11
	opMinus         = 0x1c
	opPlus          = 0x22
	opPlusUconst    = 0x23
	opLit0          = 0x30
	opReg0          = 0x50
	opBreg0         = 0x70
	opRegx          = 0x90
	opFbreg         = 0x91
	opBregx         = 0x92
	opPiece         = 0x93
	opNop           = 0x96
	opFormTLS       = 0x9b
	opCallFrameCFA  = 0x9c
	opBitPiece      = 0x9d
	opImplicitValue = 0x9e
	opStackValue    = 0x9f
	opImplicitPtr   = 0xa0
	opAddrx         = 0xa1
	opEntryValue    = 0xa3
	opGNUTLS        = 0xe0
	opGNUImplicit   = 0xf2
	opGNUEntryValue = 0xf3
	opGNUAddrIndex  = 0xfb
)

var (
	errOut      = errors.New("it has been optimized out")
	errComputed = errors.New("it has no location: probes cannot compute it as the debug information describes")
	errTLS      = errors.New("it is thread-local, which probes cannot read")
	errEntry    = errors.New("it has no location: only its value at the function's entry is known")
	errDamaged  = errors.New("its location in the debug information is damaged")
)

// operand is an element of an expression's stack: base + off.
type operand struct {
	base  string // a fetcharg; "" for a constant
	off   int64
	vaddr bool // off is an address of the program
}

// frame is the context of location expressions.
type frame struct {
	machine  *Machine
	big      bool // numbers are big-endian
	addrSize int
	entry    bool // pc is the function's first instruction
	cfa      func() (operand, error)
	base     func() (operand, error)            // DW_AT_frame_base
	addrx    func(index uint64) (uint64, error) // .debug_addr
}

// maxDepth limits nested entry values, and operands.
const maxDepth = 64

// locate evaluates a location expression.
func (f *frame) locate(expr []byte) (Where, error) { return f.located(expr, maxDepth) }

func (f *frame) located(expr []byte, depth int) (Where, error) {
	if depth == 0 {
		return Where{}, errDamaged
	}
	e := evaluation{frame: f, c: dwarf.Cursor{B: expr, Big: f.big}, depth: depth}
	for e.c.Left() > 0 {
		err := e.step(e.c.U8())
		if e.c.Bad || len(e.stack) > maxDepth {
			return Where{}, errDamaged
		}
		if err == nil {
			continue
		}
		if !e.skipToPiece() {
			return Where{}, err
		}
		e.pieces[len(e.pieces)-1].Err = err
	}
	if e.pieces != nil {
		return Where{Pieces: e.pieces}, nil
	}
	return e.where()
}

// evaluation is the state of evaluating an expression.
type evaluation struct {
	*frame
	c      dwarf.Cursor
	stack  []operand
	value  *Where // set once the result is known not to be an address on the stack
	pieces []Piece
	depth  int
}

// skipToPiece skips a part that cannot be located, if it is a piece.
func (e *evaluation) skipToPiece() bool {
	for e.c.Left() > 1 {
		if op := e.c.B[e.c.Pos]; op != opPiece && op != opStackValue {
			return false
		}
		if op := e.c.U8(); op == opPiece {
			e.addPiece(Where{}, nil)
			return !e.c.Bad
		}
	}
	return false
}

func (e *evaluation) addPiece(w Where, err error) {
	e.pieces = append(e.pieces, Piece{w, int64(e.c.ULEB()), err})
	e.stack, e.value = nil, nil
}

// where returns the result.
func (e *evaluation) where() (Where, error) {
	switch {
	case e.value != nil:
		return *e.value, nil
	case len(e.stack) == 0:
		return Where{}, errOut
	}
	top := e.stack[len(e.stack)-1]
	if top.base == "" && !top.vaddr {
		return Where{}, errComputed
	}
	return Where{Base: top.base, Mem: true, Off: top.off}, nil
}

func (e *evaluation) push(o operand) error {
	e.stack = append(e.stack, o)
	return nil
}

func (e *evaluation) constant(v int64) error { return e.push(operand{off: v}) }

func (e *evaluation) inRegister(n uint64) error {
	name, err := e.machine.register(n)
	e.value = &Where{Base: name}
	return err
}

func (e *evaluation) aroundRegister(n uint64, off int64) error {
	name, err := e.machine.register(n)
	e.stack = append(e.stack, operand{base: name, off: off})
	return err
}

func (e *evaluation) pop() (operand, error) {
	if len(e.stack) == 0 {
		return operand{}, errDamaged
	}
	top := e.stack[len(e.stack)-1]
	e.stack = e.stack[:len(e.stack)-1]
	return top, nil
}

func (e *evaluation) step(op byte) error {
	c := &e.c
	switch {
	case op >= opLit0 && op < opLit0+32:
		return e.constant(int64(op - opLit0))
	case op >= opReg0 && op < opReg0+32:
		return e.inRegister(uint64(op - opReg0))
	case op >= opBreg0 && op < opBreg0+32:
		return e.aroundRegister(uint64(op-opBreg0), c.SLEB())
	case op >= opConst1u && op <= opConst8s:
		return e.constantOf(op)
	}
	switch op {
	case opNop:
		return nil
	case opConstu:
		return e.constant(int64(c.ULEB()))
	case opConsts:
		return e.constant(c.SLEB())
	case opRegx:
		return e.inRegister(c.ULEB())
	case opBregx:
		n := c.ULEB()
		return e.aroundRegister(n, c.SLEB())
	case opAddr:
		return e.push(operand{off: int64(c.Uint(e.addrSize)), vaddr: true})
	case opAddrx, opGNUAddrIndex:
		vaddr, err := e.addrx(c.ULEB())
		e.stack = append(e.stack, operand{off: int64(vaddr), vaddr: true})
		return err
	case opFbreg:
		return e.behind(e.base, c.SLEB())
	case opCallFrameCFA:
		return e.behind(e.cfa, 0)
	case opPlusUconst, opPlus, opMinus:
		return e.add(op)
	case opDeref:
		return e.deref()
	case opStackValue:
		return e.stackValue()
	case opImplicitValue:
		return e.implicit(c.Bytes(c.ULEB()))
	case opEntryValue, opGNUEntryValue:
		return e.atEntry(c.Bytes(c.ULEB()))
	case opPiece:
		w, err := e.where()
		e.addPiece(w, err)
		return nil
	case opImplicitPtr, opGNUImplicit:
		return errComputed
	case opFormTLS, opGNUTLS:
		return errTLS
	}
	return errComputed
}

// constantOf reads DW_OP_const1u to const8s, alternately unsigned and signed.
func (e *evaluation) constantOf(op byte) error {
	size := 1 << ((op - opConst1u) / 2)
	if (op-opConst1u)%2 == 1 {
		return e.constant(e.c.Int(size))
	}
	return e.constant(int64(e.c.Uint(size)))
}

func (e *evaluation) behind(from func() (operand, error), off int64) error {
	o, err := from()
	o.off += off
	e.stack = append(e.stack, o)
	return err
}

// add supports sums with at most one non-constant operand.
func (e *evaluation) add(op byte) error {
	b := operand{}
	var err error
	if op == opPlusUconst {
		b.off = int64(e.c.ULEB())
	} else if b, err = e.pop(); err != nil {
		return err
	}
	a, err := e.pop()
	if err != nil {
		return err
	}
	number := func(o operand) bool { return o.base == "" && !o.vaddr }
	switch {
	case op == opMinus && number(b):
		a.off -= b.off
		return e.push(a)
	case op == opMinus:
		return errComputed
	case number(b):
		a.off += b.off
		return e.push(a)
	case number(a):
		b.off += a.off
		return e.push(b)
	}
	return errComputed
}

func (e *evaluation) deref() error {
	o, err := e.pop()
	if err != nil {
		return err
	}
	if o.base == "" {
		return errComputed
	}
	return e.push(operand{base: fmt.Sprintf("%+d(%s)", o.off, o.base)})
}

// stackValue marks the top of the stack as the value itself.
func (e *evaluation) stackValue() error {
	o, err := e.pop()
	switch {
	case err != nil:
		return err
	case o.base == "" && !o.vaddr:
		e.value = &Where{Base: fmt.Sprintf("\\%d", o.off)}
	case o.base != "" && o.off == 0:
		e.value = &Where{Base: o.base}
	default:
		return errComputed
	}
	return nil
}

// implicit sets a constant value.
func (e *evaluation) implicit(b []byte) error {
	switch len(b) {
	case 1, 2, 4, 8:
		c := dwarf.Cursor{B: b, Big: e.big}
		e.value = &Where{Base: fmt.Sprintf("\\%d", c.Int(len(b)))}
		return nil
	}
	return errComputed
}

// atEntry evaluates a register's value at the function's entry, which is valid at the first
// instruction only.
func (e *evaluation) atEntry(expr []byte) error {
	if !e.entry {
		return errEntry
	}
	w, err := e.located(expr, e.depth-1)
	if err != nil {
		return err
	}
	if w.Mem || w.Pieces != nil {
		return errComputed
	}
	return e.push(operand{base: w.Base})
}

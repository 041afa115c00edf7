package args

import (
	"errors"
	"fmt"

	"gperf/internal/dwarf"
)

var (
	errOut      = errors.New("it has been optimized out")
	errComputed = errors.New("it has no location: probes cannot compute it as the debug information describes")
	errTLS      = errors.New("it is thread-local, which probes cannot read")
	errEntry    = errors.New("it has no location: only its value at the function's entry is known")
	errDamaged  = errors.New("its location in the debug information is damaged")
)

// term is an element of an expression's stack: base + off.
type term struct {
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
	cfa      func() (term, error)
	base     func() (term, error) // DW_AT_frame_base
	addrs    dwarf.Table          // .debug_addr
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
	frame  *frame
	c      dwarf.Cursor
	stack  []term
	value  *Where // set once the result is known not to be an address on the stack
	pieces []Piece
	depth  int
}

// skipToPiece skips a part that cannot be located, if it is a piece.
func (e *evaluation) skipToPiece() bool {
	for e.c.Left() > 1 {
		if op := e.c.B[e.c.Pos]; op != dwarf.OpPiece && op != dwarf.OpStackValue {
			return false
		}
		if op := e.c.U8(); op == dwarf.OpPiece {
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

func (e *evaluation) push(o term) error {
	e.stack = append(e.stack, o)
	return nil
}

func (e *evaluation) constant(v int64) error { return e.push(term{off: v}) }

func (e *evaluation) inRegister(n uint64) error {
	name, err := e.frame.machine.register(n)
	e.value = &Where{Base: name}
	return err
}

func (e *evaluation) aroundRegister(n uint64, off int64) error {
	name, err := e.frame.machine.register(n)
	e.stack = append(e.stack, term{base: name, off: off})
	return err
}

func (e *evaluation) pop() (term, error) {
	if len(e.stack) == 0 {
		return term{}, errDamaged
	}
	top := e.stack[len(e.stack)-1]
	e.stack = e.stack[:len(e.stack)-1]
	return top, nil
}

func (e *evaluation) step(op byte) error {
	c := &e.c
	switch {
	case op >= dwarf.OpLit0 && op < dwarf.OpLit0+32:
		return e.constant(int64(op - dwarf.OpLit0))
	case op >= dwarf.OpReg0 && op < dwarf.OpReg0+32:
		return e.inRegister(uint64(op - dwarf.OpReg0))
	case op >= dwarf.OpBreg0 && op < dwarf.OpBreg0+32:
		return e.aroundRegister(uint64(op-dwarf.OpBreg0), c.SLEB())
	case op >= dwarf.OpConst1u && op <= dwarf.OpConst8s:
		return e.constantOf(op)
	}
	switch op {
	case dwarf.OpNop:
		return nil
	case dwarf.OpConstu:
		return e.constant(int64(c.ULEB()))
	case dwarf.OpConsts:
		return e.constant(c.SLEB())
	case dwarf.OpRegx:
		return e.inRegister(c.ULEB())
	case dwarf.OpBregx:
		n := c.ULEB()
		return e.aroundRegister(n, c.SLEB())
	case dwarf.OpAddr:
		return e.push(term{off: int64(c.Uint(e.frame.addrSize)), vaddr: true})
	case dwarf.OpAddrx, dwarf.OpGNUAddrIndex:
		vaddr, ok := e.frame.addrs.At(c.ULEB())
		if !ok {
			return errDamaged
		}
		return e.push(term{off: int64(vaddr), vaddr: true})
	case dwarf.OpFbreg:
		return e.from(e.frame.base, c.SLEB())
	case dwarf.OpCallFrameCFA:
		return e.from(e.frame.cfa, 0)
	case dwarf.OpPlusUconst, dwarf.OpPlus, dwarf.OpMinus:
		return e.add(op)
	case dwarf.OpDeref:
		return e.deref()
	case dwarf.OpStackValue:
		return e.stackValue()
	case dwarf.OpImplicitValue:
		return e.implicit(c.Bytes(c.ULEB()))
	case dwarf.OpEntryValue, dwarf.OpGNUEntryValue:
		return e.atEntry(c.Bytes(c.ULEB()))
	case dwarf.OpPiece:
		w, err := e.where()
		e.addPiece(w, err)
		return nil
	case dwarf.OpImplicitPointer, dwarf.OpGNUImplicitPointer:
		return errComputed
	case dwarf.OpFormTLSAddress, dwarf.OpGNUPushTLSAddress:
		return errTLS
	}
	return errComputed
}

// constantOf reads DW_OP_const1u to const8s, alternately unsigned and signed.
func (e *evaluation) constantOf(op byte) error {
	size := 1 << ((op - dwarf.OpConst1u) / 2)
	if (op-dwarf.OpConst1u)%2 == 1 {
		return e.constant(e.c.Int(size))
	}
	return e.constant(int64(e.c.Uint(size)))
}

// from pushes an address at an offset from another.
func (e *evaluation) from(origin func() (term, error), off int64) error {
	o, err := origin()
	o.off += off
	e.stack = append(e.stack, o)
	return err
}

// add supports sums with at most one non-constant term.
func (e *evaluation) add(op byte) error {
	b := term{}
	var err error
	if op == dwarf.OpPlusUconst {
		b.off = int64(e.c.ULEB())
	} else if b, err = e.pop(); err != nil {
		return err
	}
	a, err := e.pop()
	if err != nil {
		return err
	}
	number := func(o term) bool { return o.base == "" && !o.vaddr }
	switch {
	case op == dwarf.OpMinus && number(b):
		a.off -= b.off
		return e.push(a)
	case op == dwarf.OpMinus:
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
	return e.push(term{base: fmt.Sprintf("%+d(%s)", o.off, o.base)})
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
		c := dwarf.Cursor{B: b, Big: e.frame.big}
		e.value = &Where{Base: fmt.Sprintf("\\%d", c.Int(len(b)))}
		return nil
	}
	return errComputed
}

// atEntry evaluates a register's value at the function's entry, which is valid at the first
// instruction only.
func (e *evaluation) atEntry(expr []byte) error {
	if !e.frame.entry {
		return errEntry
	}
	w, err := e.frame.located(expr, e.depth-1)
	if err != nil {
		return err
	}
	if w.Mem || w.Pieces != nil {
		return errComputed
	}
	return e.push(term{base: w.Base})
}

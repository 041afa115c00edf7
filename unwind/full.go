package unwind

import (
	"bytes"
	"maps"
)

// maxSteps limits the rows that an Unwinder caches.
const maxSteps = 1 << 14

type stepKey struct {
	o     *Object
	vaddr uint64
}

// step is a full row in compact form: it has only the registers that change.
type step struct {
	cfa    RegRule
	cfaE   []byte // its expression
	regs   []stepReg
	ra     RegRule
	raE    []byte
	raCol  int
	signal bool
}

type stepReg struct {
	n    int
	rule RegRule
	expr []byte
}

// row returns the step of the row that covers vaddr, or nil.
func (u *Unwinder) row(o *Object, vaddr uint64) *step {
	key := stepKey{o, vaddr}
	if s, ok := u.steps[key]; ok {
		return s
	}
	if u.steps == nil || len(u.steps) >= maxSteps {
		u.steps = map[stepKey]*step{}
	}
	s := newStep(o.full(), vaddr)
	u.steps[key] = s
	return s
}

// Forget drops the rows of objects that no walk uses any more, and with them the objects.
func (u *Unwinder) Forget(gone map[*Object]bool) {
	maps.DeleteFunc(u.steps, func(k stepKey, _ *step) bool { return gone[k.o] })
}

func newStep(f *CFI, vaddr uint64) *step {
	if f == nil {
		return nil
	}
	r, ok := f.Row(vaddr)
	if !ok || r.CFA.Kind == Unspecified {
		return nil
	}
	expr := func(rule RegRule) []byte {
		if rule.Kind == Expression || rule.Kind == ValExpression {
			return bytes.Clone(r.Expr(rule)) // else the row would keep the section
		}
		return nil
	}
	s := &step{cfa: r.CFA, cfaE: expr(r.CFA), ra: r.Regs[r.RA], raE: expr(r.Regs[r.RA]), raCol: r.RA, signal: r.Signal}
	for n, rule := range r.Regs[:walkRegs] {
		if n >= f.abi.general {
			break
		}
		if rule.Kind != Unspecified && rule.Kind != SameValue {
			s.regs = append(s.regs, stepReg{n, rule, expr(rule)})
		}
	}
	return s
}

// byRow steps by full CFI. f is the framing of the frame if there is no CFI.
func (w *walk) byRow(o *Object, vaddr uint64, f framing) (outcome, Reason) {
	s := w.u.row(o, vaddr)
	if s == nil {
		return w.uncovered(f, NoRule) // on arm64, the procedure call standard requires a frame record
	}
	e := rules{regs: &w.regs, mem: w.mem, eval: &w.u.eval}
	cfa, why := e.value(s.cfa, s.cfaE, 0, 0)
	scratch := why != EndOfStack && w.regs.abi.isScratch(s.cfa)
	if scratch {
		cfa, why = w.last.v[s.cfa.Reg]+uint64(s.cfa.Off), EndOfStack
	}
	if why != EndOfStack {
		return stop, why
	}
	next := Regs{abi: w.regs.abi, v: w.regs.v, known: w.regs.known & w.regs.abi.saved}
	if s.signal {
		next.known = w.regs.known // the CFI describes all registers that change
	}
	next.setSP(cfa)
	for i := range s.regs {
		r := &s.regs[i]
		v, why := e.value(r.rule, r.expr, cfa, r.n)
		next.known &^= 1 << r.n
		if why == EndOfStack {
			next.Set(r.n, v)
		}
	}
	if s.ra.Kind == Undefined {
		return stop, EndOfStack
	}
	ra, why := e.returnAddress(s, cfa)
	switch {
	case why != EndOfStack:
		return stop, why
	case ra == 0:
		return stop, ZeroReturn
	}
	if scratch && (cfa <= w.regs.SP() || w.space.Mapping(ra) == nil) {
		return stop, NoRule
	}
	if w.regs.abi.lr >= 0 && !s.signal { // the callee may have overwritten it
		next.known &^= 1 << w.regs.abi.lr
	}
	next.setIP(w.regs.abi.strip(ra))
	w.regs = next
	if s.signal {
		return interrupted, 0
	}
	return called, 0
}

// isScratch reports whether a rule refers to a register of x86-64 that functions need not preserve. In a frame that has
// called others, CFI does this only if the functions called there preserve it.
func (a *abi) isScratch(r RegRule) bool {
	return a == &x86ABI && r.Kind == Register && r.Reg < x86RIP && (a.saved|1<<x86RSP)>>r.Reg&1 == 0
}

// rules evaluates the rules of registers of full CFI.
type rules struct {
	regs *Regs // of the callee
	mem  Memory
	eval *evaluator
}

// returnAddress returns the caller's ip. The reason is EndOfStack if there is no error.
func (e *rules) returnAddress(s *step, cfa uint64) (ra uint64, why Reason) {
	switch s.ra.Kind {
	case Unspecified, SameValue:
		if e.regs.abi.lr < 0 {
			return 0, NoRule
		}
		// In a leaf function it is in the link register.
		lr, ok := e.regs.Get(s.raCol)
		if !ok {
			return 0, NoRule
		}
		return lr, EndOfStack
	}
	return e.value(s.ra, s.raE, cfa, s.raCol)
}

// value returns the value of a register by its rule. The reason is EndOfStack if there is no error.
func (e *rules) value(r RegRule, expr []byte, cfa uint64, n int) (uint64, Reason) {
	switch r.Kind {
	case Offset:
		return e.word(cfa + uint64(r.Off))
	case ValOffset:
		return cfa + uint64(r.Off), EndOfStack
	case Register:
		if v, ok := e.regs.Get(int(r.Reg)); ok {
			return v + uint64(r.Off), EndOfStack
		}
	case SameValue:
		if v, ok := e.regs.Get(n); ok {
			return v, EndOfStack
		}
	case Expression, ValExpression:
		e.eval.regs, e.eval.mem = e.regs, e.mem
		v, ok := e.eval.run(expr, cfa)
		if !ok {
			return 0, e.eval.why
		}
		if r.Kind == Expression {
			return e.word(v)
		}
		return v, EndOfStack
	}
	return 0, NoRule
}

func (e *rules) word(addr uint64) (uint64, Reason) {
	v, ok := e.mem.Word(addr)
	if !ok {
		return 0, Unreadable
	}
	return v, EndOfStack
}

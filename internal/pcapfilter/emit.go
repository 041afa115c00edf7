package pcapfilter

import "golang.org/x/net/bpf"

// cond is a condition: a constant, a test of a loaded number, or other conditions joined.
type cond struct {
	op          condOp
	left, right *cond // "not" uses left only

	load []bpf.Instruction // loads A, and X for a test of both
	jump bpf.JumpTest
	val  uint32 // compared with A
	byX  bool   // X is compared with A
}

type condOp uint8

const (
	isFalse condOp = iota
	isTrue
	isTest
	isNot
	isAnd
	isOr
)

func always(b bool) *cond {
	if b {
		return &cond{op: isTrue}
	}
	return &cond{op: isFalse}
}

func test(load []bpf.Instruction, jump bpf.JumpTest, val uint32) *cond {
	return &cond{op: isTest, load: load, jump: jump, val: val}
}

// and joins two conditions. It keeps the left condition unless that is constant, because the left one's loads may
// be after the packet's end.
func and(left, right *cond) *cond {
	switch {
	case left.op == isFalse || right.op == isTrue:
		return left
	case left.op == isTrue:
		return right
	}
	return &cond{op: isAnd, left: left, right: right}
}

func or(left, right *cond) *cond {
	switch {
	case left.op == isTrue || right.op == isFalse:
		return left
	case left.op == isFalse:
		return right
	}
	return &cond{op: isOr, left: left, right: right}
}

func not(c *cond) *cond {
	switch c.op {
	case isTrue, isFalse:
		return always(c.op == isFalse)
	case isNot:
		return c.left
	}
	return &cond{op: isNot, left: c}
}

func field(off uint32, size int) []bpf.Instruction {
	return []bpf.Instruction{bpf.LoadAbsolute{Off: off, Size: size}}
}

// equal tests whether the bits of a field in a mask are equal to val.
func equal(off uint32, size int, val, mask uint32) *cond {
	if mask == 0 {
		return always(true)
	}
	load := field(off, size)
	if mask != uint32(1<<(8*size)-1) {
		load = append(load, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask})
	}
	return test(load, bpf.JumpEqual, val&mask)
}

// label is the number of a place in the code.
type label int

// step is an instruction, a jump to a label, or a conditional jump to two labels.
type step struct {
	ins     bpf.Instruction
	test    *cond // of a conditional jump
	yes, no label // a jump uses yes only
	farYes  bool  // the jump to yes is too long for 8 bits
	farNo   bool
	index   int // of the first instruction
	elided  bool
}

// emitter makes the code of conditions. All jumps are forward.
type emitter struct {
	steps []step
	at    []int // by label: the number of the step that it precedes
}

// emit returns the program of a condition.
func emit(c *cond) []bpf.Instruction {
	var e emitter
	yes, no := e.newLabel(), e.newLabel()
	e.cond(c, yes, no)
	e.place(yes)
	e.add(bpf.RetConstant{Val: accepted})
	e.place(no)
	e.add(bpf.RetConstant{Val: 0})
	e.layOut()
	return e.assemble()
}

func (e *emitter) newLabel() label {
	e.at = append(e.at, 0)
	return label(len(e.at) - 1)
}

func (e *emitter) place(l label) { e.at[l] = len(e.steps) }

func (e *emitter) add(code ...bpf.Instruction) {
	for _, ins := range code {
		e.steps = append(e.steps, step{ins: ins})
	}
}

// cond adds code that jumps to yes if a condition is true, else to no.
func (e *emitter) cond(c *cond, yes, no label) {
	switch c.op {
	case isTrue:
		e.steps = append(e.steps, step{yes: yes})
	case isFalse:
		e.steps = append(e.steps, step{yes: no})
	case isTest:
		e.add(c.load...)
		e.steps = append(e.steps, step{test: c, yes: yes, no: no})
	case isNot:
		e.cond(c.left, no, yes)
	case isAnd:
		right := e.newLabel()
		e.cond(c.left, right, no)
		e.place(right)
		e.cond(c.right, yes, no)
	case isOr:
		right := e.newLabel()
		e.cond(c.left, yes, right)
		e.place(right)
		e.cond(c.right, yes, no)
	}
}

// size returns the number of a step's instructions. An unconditional jump follows a conditional
// one for each target that is too far for it.
func (s *step) size() int {
	switch {
	case s.elided:
		return 0
	case s.farYes && s.farNo:
		return 3
	case s.farYes || s.farNo:
		return 2
	}
	return 1
}

// layOut assigns the positions. Instructions for long jumps make other jumps longer.
func (e *emitter) layOut() {
	for i := range e.steps {
		s := &e.steps[i]
		s.elided = s.ins == nil && s.test == nil && e.at[s.yes] == i+1
	}
	for changed := true; changed; {
		changed = false
		index := 0
		for i := range e.steps {
			e.steps[i].index = index
			index += e.steps[i].size()
		}
		for i := range e.steps {
			s := &e.steps[i]
			if s.test == nil {
				continue
			}
			farYes := s.farYes || e.target(s.yes)-s.index > 255
			farNo := s.farNo || e.target(s.no)-s.index > 255
			if farYes != s.farYes || farNo != s.farNo {
				s.farYes, s.farNo, changed = farYes, farNo, true
			}
		}
	}
}

func (e *emitter) target(l label) int { return e.steps[e.at[l]].index }

func (e *emitter) assemble() []bpf.Instruction {
	var prog []bpf.Instruction
	jump := func(l label) { prog = append(prog, bpf.Jump{Skip: uint32(e.target(l) - len(prog) - 1)}) }
	for i := range e.steps {
		s := &e.steps[i]
		switch {
		case s.elided:
		case s.ins != nil:
			prog = append(prog, s.ins)
		case s.test == nil:
			jump(s.yes)
		default:
			yes, no := e.target(s.yes)-s.index-1, e.target(s.no)-s.index-1
			if s.farYes {
				yes = 0
			}
			if s.farNo {
				no = s.size() - 2
			}
			prog = append(prog, s.test.conditional(uint8(yes), uint8(no)))
			if s.farYes {
				jump(s.yes)
			}
			if s.farNo {
				jump(s.no)
			}
		}
	}
	return prog
}

func (c *cond) conditional(yes, no uint8) bpf.Instruction {
	if c.byX {
		return bpf.JumpIfX{Cond: c.jump, SkipTrue: yes, SkipFalse: no}
	}
	return bpf.JumpIf{Cond: c.jump, Val: c.val, SkipTrue: yes, SkipFalse: no}
}

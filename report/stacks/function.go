package stacks

import (
	"iter"
	"slices"

	"gperf/internal/session"
)

// function is the function of a frame, or one that is inlined into it.
type function struct {
	name, raw string // as shown, and as the symbol table has it
	file      string // "" if unknown
	line      int    // 0 if unknown
	start     int    // line of its declaration, 0 if unknown
	inlined   bool
}

// stackOf yields the frames of a stack, innermost first: up to MaxStack frames of
// the callchain, or without one the sampled frame.
func (c *Set) stackOf(t *tally) iter.Seq[session.ChainFrame] {
	return func(yield func(session.ChainFrame) bool) {
		if t.leaf != nil {
			yield(session.ChainFrame{Frame: t.leaf, Caller: t.chain.Called})
			return
		}
		chain := t.chain.Cut(c.MaxStack)
		for i := range chain.Len() {
			f, caller := chain.Frame(i)
			if !yield(session.ChainFrame{Frame: f, Caller: caller}) {
				return
			}
		}
	}
}

// lookAhead looks up the functions of all frames once, on all CPUs. Without it they
// would be looked up on first use, one after the other.
func (c *Set) lookAhead() {
	session.LookUpCalls(func(yield func(session.ChainFrame) bool) {
		for i := range c.tallies {
			for f := range c.stackOf(&c.tallies[i]) {
				if !yield(f) {
					return
				}
			}
		}
	})
}

// functions returns the functions of a frame, innermost first, or none if it has
// no name. The outermost has its name from the symbol table, unless that is the
// function after a call that never returns.
func functions(f session.ChainFrame, inline bool) (list []function) {
	sym := f.Frame.Sym()
	for _, call := range f.Calls() {
		list = append(list, function{name: call.Function, raw: call.Function, file: call.File, line: call.Line,
			start: call.StartLine, inlined: call.Inlined})
	}
	if len(list) == 0 && sym != nil {
		return []function{{name: sym.Name, raw: sym.Raw}}
	}
	if len(list) == 0 {
		return nil
	}
	if own := &list[len(list)-1]; sym != nil && (!f.Caller || f.Frame.Off() > 0 || own.name == "") {
		own.name, own.raw = sym.Name, sym.Raw
	}
	if !inline {
		list = list[len(list)-1:]
	}
	return slices.DeleteFunc(list, func(f function) bool { return f.name == "" })
}

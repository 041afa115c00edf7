package report

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

// called is a frame of a stack. caller says that its address is a return address.
type called struct {
	frame  *session.Frame
	caller bool
}

// stackOf yields the frames of a stack, innermost first: up to MaxStack frames of
// the callchain, or without one the sampled frame.
func (c *Stacks) stackOf(t *tally) iter.Seq[called] {
	return func(yield func(called) bool) {
		if t.leaf != nil {
			yield(called{t.leaf, t.chain.Called})
			return
		}
		chain := t.chain.Cut(c.MaxStack)
		for i := range chain.Len() {
			f, caller := chain.Frame(i)
			if !yield(called{f, caller}) {
				return
			}
		}
	}
}

// lookAhead looks up the functions of all frames once, on all CPUs. Without it they
// would be looked up on first use, one after the other.
func (c *Stacks) lookAhead() {
	lookAhead(func(yield func(called) bool) {
		for i := range c.tallies {
			for f := range c.stackOf(&c.tallies[i]) {
				if !yield(f) {
					return
				}
			}
		}
	})
}

func lookAhead(frames iter.Seq[called]) {
	known := map[called]bool{}
	var list []called
	for f := range frames {
		if !known[f] {
			known[f] = true
			list = append(list, f)
		}
	}
	inParallel(len(list), func(i int) { list[i].frame.Calls(list[i].caller) })
}

// functions returns the functions of a frame, innermost first, or none if it has
// no name. The outermost has its name from the symbol table, unless that is the
// function after a call that never returns.
func (c called) functions(inline bool) (list []function) {
	sym := c.frame.Sym()
	calls := c.frame.Calls(c.caller)
	for _, call := range calls {
		list = append(list, function{name: call.Function, raw: call.Function, file: call.File, line: call.Line, start: call.StartLine, inlined: call.Inlined})
	}
	if len(list) == 0 && sym != nil {
		return []function{{name: sym.Name, raw: sym.Raw}}
	}
	if len(list) == 0 {
		return nil
	}
	if own := &list[len(list)-1]; sym != nil && (!c.caller || c.frame.Off() > 0 || own.name == "") {
		own.name, own.raw = sym.Name, sym.Raw
	}
	if !inline {
		list = list[len(list)-1:]
	}
	return slices.DeleteFunc(list, func(f function) bool { return f.name == "" })
}

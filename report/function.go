package report

import (
	"iter"
	"slices"

	"gperf/symbolize/replay"
)

// function is a function that a frame is in: its own, or one that was inlined
// into it.
type function struct {
	name, raw string // as shown, and as the symbol table has it
	file      string // "" where it is not known
	line      int    // likewise 0
	start     int    // where it is declared, likewise
	inlined   bool
}

// called is a frame of a stack. caller tells that its address is one that a call
// returns to.
type called struct {
	frame  *replay.Frame
	caller bool
}

// stackOf yields the frames of a stack, innermost first: at most as many as count
// of its callchain, or without one where the sample was taken.
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

// lookAhead looks up what the frames of stacks are in, each once and with all CPUs.
// Otherwise they would be when they are asked for, one after the other.
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

// functions returns the functions that a frame is in, innermost first; none where
// it has no name. Its own has the name that the symbol table gives it, unless that
// is what lies behind a call that never returns.
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

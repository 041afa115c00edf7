package export

import (
	"iter"

	"gperf/internal/session"
	"gperf/symbolize"
)

// stackOf yields the frames of a stack, innermost first: up to MaxStack frames of the callchain, or without one the
// sampled frame. The stack of a waker comes before the stack of the wait, as if the wait called it: a flame graph
// shows who woke each waiting stack.
func (c *StackSet) stackOf(t *tally) iter.Seq[*session.Frame] {
	return func(yield func(*session.Frame) bool) {
		if by := t.Of.waker; by != nil {
			for f := range by.StackKey().Stack(c.MaxStack) {
				if !yield(f) {
					return
				}
			}
			if !yield(c.wakers.of(by)) {
				return
			}
		}
		t.Stack(c.MaxStack)(yield)
	}
}

// wakerFrames are the frames between the stacks of a wait and the waker, by their names.
type wakerFrames map[string]*session.Frame

func (w wakerFrames) of(by *session.Waker) *session.Frame {
	name := by.Text()
	f := w[name]
	if f == nil {
		f = session.NamedFrame(-1, 0, false, nil, &symbolize.Symbol{Name: name})
		w[name] = f
	}
	return f
}

// allFrames yields the frames of all stacks.
func allFrames(c *StackSet) iter.Seq[*session.Frame] {
	return func(yield func(*session.Frame) bool) {
		for f := range session.FramesOfStacks(allStacks(c), c.MaxStack) {
			if !yield(f) {
				return
			}
		}
	}
}

// allStacks yields the stacks of all samples and wakers.
func allStacks(c *StackSet) iter.Seq[session.StackKey] {
	return func(yield func(session.StackKey) bool) {
		for _, t := range c.tallies.List {
			if by := t.Of.waker; by != nil && !yield(by.StackKey()) || !yield(t.StackKey) {
				return
			}
		}
	}
}

package table

import (
	"gperf/internal/intern"
	"gperf/internal/session"
)

// Tallies sums samples up by stack, and by what else distinguishes them: their subject, such as an event and a
// command. The memory is bounded by the distinct stacks, which have few subjects.
type Tallies[S, V any] struct {
	List []*Tally[S, V] // in the order of first samples

	index intern.Table
	free  []Tally[S, V]
}

// Tally is the sum of the samples of one stack of a subject. Equal stacks may have several, as equal callchains may
// have several keys.
type Tally[S, V any] struct {
	Of *S // the caller makes one for equal subjects
	session.StackKey
	Sum V
}

// At returns the tally of a stack of a subject, new if there is none, for the caller to add to. number is the
// subject's.
func (t *Tallies[S, V]) At(of *S, number uint32, stack session.StackKey) (_ *Tally[S, V], added bool) {
	i, added := t.index.Add(stack.Hash(number), func(i int32) bool {
		return t.List[i].Of == of && t.List[i].StackKey == stack
	})
	if added {
		if len(t.free) == 0 {
			t.free = make([]Tally[S, V], min(max(16, len(t.List)), 1024))
		}
		own := &t.free[0]
		own.Of, own.StackKey, t.free = of, stack, t.free[1:]
		t.List = append(t.List, own)
	}
	return t.List[i], added
}

// Close frees what only At needs. The caller must not call At afterwards.
func (t *Tallies[S, V]) Close() { t.index, t.free = intern.Table{}, nil }

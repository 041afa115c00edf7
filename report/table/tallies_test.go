package table

import (
	"testing"

	"gperf/internal/session"
)

// TestTallies: each stack of each subject has one tally, at the same place in memory from the first sample on.
func TestTallies(t *testing.T) {
	var l Tallies[string, int]
	subjects := []string{"a", "b", "c"}
	frames := make([]*session.Frame, 5000)
	for i := range frames {
		frames[i] = session.NamedFrame(i, uint64(i), false, nil, nil)
	}
	var known []*Tally[string, int]
	for round := range 3 {
		for i, f := range frames {
			of := i % len(subjects)
			for j := range 2 {
				of := (of + j) % len(subjects)
				got, added := l.At(&subjects[of], uint32(of), session.StackKey{Leaf: f})
				if added != (round == 0) {
					t.Fatalf("round %d: the stack of frame %d is new: %v", round, i, added)
				}
				if added {
					known = append(known, got)
				} else if got != known[2*i+j] || got.Of != &subjects[of] || got.Leaf != f {
					t.Fatalf("round %d: the tally of frame %d is that of %s, %v", round, i, *got.Of, got.Leaf)
				}
				got.Sum++
			}
		}
	}
	if len(l.List) != 2*len(frames) {
		t.Fatalf("%d tallies", len(l.List))
	}
	for i, is := range l.List {
		if is != known[i] || is.Sum != 3 {
			t.Fatalf("tally %d: %+v", i, is)
		}
	}
}

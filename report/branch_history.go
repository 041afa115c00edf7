// This file leaves out the iterations of loops, and sums up the branches that the CPU recorded at one place of
// callchains, as perf report --branch-history does.

package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gperf/format/fields"
)

// hop is one end of a branch in a callchain.
type hop struct {
	Flags      uint64 // the bit fields of struct perf_branch_entry, the first lowest
	From, To   uint64
	Target     bool   // the frame is the branch's target, not its source
	Iterations uint64 // of the loop that the branch ends, which were left out
	Cycles     uint64 // of the iteration that was left out last
}

// withoutLoops replaces the iterations of loops by their last one, as perf does: it finds a branch again by a hash of
// its source, and does not see a loop whose hash equals another branch's.
func withoutLoops(edges []hop) []hop {
	const buckets, none = 127, -1
	var first [buckets]int
	for i := range first {
		first[i] = none
	}
	for i := 0; i < len(edges); i++ {
		b := hashOf(edges[i].From) % buckets
		start := first[b]
		if start == none {
			first[b] = i
			continue
		}
		n := i - start
		if edges[start].From != edges[i].From || !repeats(edges, start, i) {
			continue
		}
		n = min(n, len(edges)-i)
		if i+n < len(edges) {
			next := &edges[i+n]
			next.Iterations++
			next.Cycles = 0
			for _, e := range edges[i : i+n] {
				next.Cycles += cyclesOf(e.Flags)
			}
		}
		edges = slices.Delete(edges, i, i+n)
	}
	return edges
}

// repeats reports whether the branches from i on are those from start on to i.
func repeats(edges []hop, start, i int) bool {
	for j := start; j < i && i+j-start < len(edges); j++ {
		if edges[j].From != edges[i+j-start].From {
			return false
		}
	}
	return true
}

// hashOf returns the 7 bits by which perf distinguishes branches: the kernel's hash_64.
func hashOf(ip uint64) int {
	const golden, bits = 0x61c8864680b583eb, 7
	return int(ip * golden >> (64 - bits))
}

// hopSum sums up the ends of branches at one place of callchains.
type hopSum struct {
	Branches, Predicted, Aborts, Cycles uint64
	iterations, iterationCycles         uint64
	again                               uint64 // sources, without the first one
	kinds                               kinds
	target, seen                        bool // of the last one
}

// Add adds a frame of n samples; p is nil for one of a callchain.
func (s *hopSum) Add(p *hop, n uint64) {
	again := n
	if !s.seen {
		s.seen = true
		again--
	}
	if p == nil {
		return
	}
	s.Branches += n
	s.target = p.Target
	if p.Target {
		if p.Flags&branchPredicted != 0 {
			s.Predicted += n
		}
		if p.Flags&branchAbort != 0 {
			s.Aborts += n
		}
		s.kinds.add(p)
		return
	}
	s.Cycles += n * cyclesOf(p.Flags)
	s.iterations += n * p.Iterations
	s.iterationCycles += n * p.Cycles
	s.again += again
}

// AddTotals adds the figures that columns show.
func (s *hopSum) AddTotals(o *hopSum) {
	s.Branches += o.Branches
	s.Predicted += o.Predicted
	s.Aborts += o.Aborts
	s.Cycles += o.Cycles
}

// noBranches is the text after frames of callchains.
const noBranches = " (calltrace)"

// Append appends the figures in brackets, as perf does.
func (s *hopSum) Append(b []byte) []byte {
	if s.Branches == 0 {
		return append(b, noBranches...)
	}
	var words []string
	percent := func(name string, n uint64) {
		words = append(words, fmt.Sprintf("%s:%.1f%%", name, float32(float64(n)*100/float64(s.Branches))))
	}
	number := func(name string, n uint64) { words = append(words, name+":"+strconv.FormatUint(n, 10)) }
	if s.target {
		words = s.kinds.words()
		if s.Predicted < s.Branches {
			percent("predicted", s.Predicted)
		}
		if float64(s.Aborts)*100/float64(s.Branches) >= 0.1 {
			percent("abort", s.Aborts)
		}
	} else {
		if n := s.Cycles / s.Branches; n > 0 {
			number("cycles", n)
		}
		if s.again > 0 && s.iterations >= s.again {
			number("iter", s.iterations/s.again)
			number("avg_cycles", s.iterationCycles/s.iterations)
		}
	}
	if len(words) == 0 {
		return b
	}
	return append(append(append(b, " ("...), strings.Join(words, " ")...), ')')
}

// kinds counts the kinds of branches, for the CPUs that record them.
type kinds struct {
	forward, backward, cross4K, cross2M bool   // of conditional branches, of all
	names                               []bool // by kind
}

func (k *kinds) add(p *hop) {
	kind := fields.BranchKind(p.Flags)
	if kind == 0 || p.From == 0 {
		return
	}
	if k.names == nil {
		k.names = make([]bool, len(fields.BranchKinds))
	}
	k.names[kind] = true
	if kind == fields.Conditional {
		k.forward, k.backward = k.forward || p.To > p.From, k.backward || p.To <= p.From
	}
	crosses := func(area uint64) bool { return p.From/area != p.To/area }
	switch {
	case crosses(2 << 20):
		k.cross2M = true
	case crosses(4 << 10):
		k.cross4K = true
	}
}

// words returns the names of the kinds, in perf's order.
func (k *kinds) words() (words []string) {
	add := func(is bool, name string) {
		if is {
			words = append(words, name)
		}
	}
	add(k.forward, "COND_FWD")
	add(k.backward, "COND_BWD")
	for kind, is := range k.names {
		add(is && kind != fields.Conditional, fields.BranchKinds[kind])
	}
	add(k.cross4K, "CROSS_4K")
	add(k.cross2M, "CROSS_2M")
	return words
}

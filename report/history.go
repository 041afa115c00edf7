package report

import (
	"encoding/binary"
	"slices"
	"strconv"

	"gperf/format"
	"gperf/internal/session"
	"gperf/internal/text"
)

// Branches as frames of callchains, as perf report --branch-history shows them.

const branchHistorySort = "srcline,symbol,dso,callchain_branch_predicted,callchain_branch_abort," +
	"callchain_branch_cycles,ipc_null"

// SetBranchHistory adds the branches of samples to the callchains, and shows callchains by address. It also
// chooses other default keys.
func (o *Options) SetBranchHistory() {
	o.Graph.Branches, o.Graph.ByAddress = true, true
	o.history = true
}

// history is a callchain with branches, the innermost frame first.
type history struct {
	frames []*session.Frame
	hops   []*hop // of each frame; nil: a frame of the callchain
	id     []byte // equal for equal frames and hops
}

// hasHistory reports whether the callchains of an event get branches.
func (g *CallGraph) hasHistory(a *format.Attr) bool {
	return g.Branches && a.SampleType&format.SampleBranchStack != 0
}

// maxBranches is the number of branches from which on perf treats a sample's branch stack as damaged.
const maxBranches = 127

// newHistory returns the callchain of a sample after the branches, as many as --max-stack allows.
func (c *counter) newHistory(s *session.Sample) *history {
	a := &c.file.Attrs[s.Event]
	stack := s.Branch(a)
	h := &history{}
	if s.HasLBRChain(a) {
		h.addCalls(s, stack, c.opts.Graph.Order)
	} else {
		c.addHistory(h, s, stack)
	}
	h.id = h.identity()
	return h
}

// addCalls adds a callchain of --call-graph lbr, which consists of branches: the sampled address, and the sources of
// the calls. As in perf, --max-stack does not limit it. In graphs that begin with the callee, perf counts them all as
// targets of the newest call.
func (h *history) addCalls(s *session.Sample, stack format.Branches, order Order) {
	chain := s.Chain
	for i := range chain.Len() {
		h.frames = append(h.frames, chain.Frame(i))
		var p *hop
		if at := i - chain.Kernel.Len(); at >= 0 && stack.Len() > 0 {
			p = &hop{Flags: stack.Flags(max(at-1, 0)), From: stack.From(0), To: chain.Frame(i).IP}
			p.Target = p.From != 0 && (order != Caller || at == 0)
		}
		h.hops = append(h.hops, p)
	}
}

// addHistory adds the branches, and after them the callchain.
func (c *counter) addHistory(h *history, s *session.Sample, stack format.Branches) {
	order := c.opts.Graph.Order
	n := min(stack.Len(), c.opts.MaxStack)
	if stack.Len() > maxBranches {
		n = 0
	}
	edges, skipped := make([]hop, 0, n), 0
	for i := range n {
		if order == Caller {
			i = stack.Len() - 1 - i
		} else {
			skipped = overlap(s.Callchain, skipped, stack.From(i))
		}
		edges = append(edges, hop{Flags: stack.Flags(i), From: stack.From(i), To: stack.To(i)})
	}
	edges = withoutLoops(edges)
	for i := range edges {
		e := &edges[i]
		to := *e
		to.Target = e.From != 0 // perf counts the ends of unused entries alike
		h.frames = append(h.frames, c.session.Resolve(s, e.To), c.session.Resolve(s, e.From))
		h.hops = append(h.hops, &to, e)
	}
	for f := range c.callersOf(s, skipped, len(edges)) {
		h.frames, h.hops = append(h.frames, f), append(h.hops, nil)
	}
	if order == Caller {
		slices.Reverse(h.frames)
		slices.Reverse(h.hops)
	}
}

// overlap returns how many words of a callchain precede a branch's caller, which has the branch in its place: the
// return address is at most 8 bytes after the call.
func overlap(chain format.Words, skipped int, from uint64) int {
	if skipped >= chain.Len() {
		return skipped
	}
	if ip := chain.At(skipped); ip >= format.ContextMax || from < ip && from >= ip-8 {
		skipped++
	}
	return skipped
}

// callersOf yields the frames of a callchain, in the graph's order, that perf shows next to branches: not the first
// skipped words, which the branches replace, and not as many of the last ones as there are branches.
func (c *counter) callersOf(s *session.Sample, skipped, branches int) func(yield func(*session.Frame) bool) {
	return func(yield func(*session.Frame) bool) {
		n := s.Callchain.Len()
		if n == 0 { // perf then ignores stack copies, too
			return
		}
		frames := s.Chain.Len()
		index := make([]int, n) // of frames, by word; -1: a mark
		k, shown := 0, 0
		for i := range n {
			index[i] = -1
			if s.Callchain.At(i) < format.ContextMax {
				index[i] = k
				k++
			}
		}
		for i := skipped; i < n-branches; i++ {
			j := i
			if c.opts.Graph.Order == Caller {
				j = n - 1 - i
			}
			at := index[j]
			if at < 0 || at >= frames {
				continue
			}
			if shown++; shown > c.opts.MaxStack || !yield(s.Chain.Frame(at)) {
				return
			}
		}
	}
}

// identity returns equal bytes for equal frames and branches.
func (h *history) identity() (b []byte) {
	for i, p := range h.hops {
		b = binary.LittleEndian.AppendUint64(b, uint64(h.frames[i].ID))
		if p == nil {
			b = append(b, 0)
			continue
		}
		kind := byte(1)
		if p.Target {
			kind = 2
		}
		b = append(b, kind)
		for _, n := range [...]uint64{p.Flags, p.From, p.To, p.Iterations, p.Cycles} {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
	}
	return b
}

// hopKeys show the branches of an entry's callchains. They distinguish no entries.
var hopKeys = []*SortKey{
	hopKey("callchain_branch_predicted", "Predicted", func(b []byte, s *hopSum) []byte {
		share := 0.0
		if s.Branches > 0 {
			share = float64(s.Predicted) * 100 / float64(s.Branches)
		}
		return append(strconv.AppendFloat(b, share, 'f', 1, 64), '%')
	}),
	hopKey("callchain_branch_abort", "Abort", func(b []byte, s *hopSum) []byte {
		return strconv.AppendUint(b, s.Aborts, 10)
	}),
	hopKey("callchain_branch_cycles", "Cycles", func(b []byte, s *hopSum) []byte {
		return strconv.AppendUint(b, s.Cycles/max(s.Branches, 1), 10)
	}),
}

func hopKey(name, head string, shown func([]byte, *hopSum) []byte) *SortKey {
	return &SortKey{Name: name, Head: head,
		cmp: func(*Hist, *Entry, *Entry) int { return 0 },
		append: func(_ *Hist, b []byte, e *Entry, width int) []byte {
			n := len(b)
			b = shown(b, &e.hops)
			return text.AppendBlanks(b, width-(len(b)-n))
		}}
}

// sumHops sums up the branches of a stack's callchain, from each frame on.
func (f *filler) sumHops(st *folded) {
	n := len(st.hops)
	f.tails = slices.Grow(f.tails[:0], n+1)[:n+1]
	f.tails[n] = hopSum{}
	for i := n - 1; i >= 0; i-- {
		s := hopSum{}
		s.Add(st.hops[i], st.Samples)
		s.AddTotals(&f.tails[i+1])
		f.tails[i] = s
	}
}

// hasChains reports whether callchains of an event's samples are shown.
func (o *Options) hasChains(a *format.Attr) bool {
	return o.Mode != ModeBranches && (a.SampleType&format.SampleCallchain != 0 || o.Graph.hasHistory(a))
}

// sumAt sums up the branches at frame n of callchains.
func (w *grower) sumAt(list []int32, n int) (sum hopSum) {
	for _, i := range list {
		c := w.entry[i]
		st := w.folds[c.stack]
		if at := int(c.from) + n; at < len(st.hops) {
			sum.Add(st.hops[at], st.Samples)
		}
	}
	return sum
}

// position is the kind of a place in a sample.
type position int

const (
	atSample position = iota // the instruction of the sample
	atFrame                  // a frame of the callchain
	atBranch                 // an end of a branch in the callchain
	positions
)

// inlines reports whether inlined calls appear as frames at a position.
func (p position) inlines(o *Options) bool { return p == atFrame && o.Inline }

// position returns the kind of frame i of the callchain.
func (st *folded) position(i int) position {
	if st.hops != nil && st.hops[i] != nil {
		return atBranch
	}
	return atFrame
}

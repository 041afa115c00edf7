package report

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gperf/internal/text"
)

// CallGraph selects how callchains are drawn. The zero value draws none.
type CallGraph struct {
	Mode    GraphMode
	Order   Order
	Value   Value
	Percent float64 // omit branches with a lower percentage
	Limit   int     // maximum of branches at a fork; 0: no limit
	// ByAddress merges frames with equal addresses, not of equal functions, and shows lines.
	ByAddress bool
	// Branches adds the branches of samples to the callchains.
	Branches bool
}

// DefaultCallGraph is perf's default.
var DefaultCallGraph = CallGraph{Mode: GraphTree, Percent: 0.5}

// GraphMode is the form of a call graph.
type GraphMode int

const (
	GraphNone    GraphMode = iota
	GraphTree              // percentages of the total
	GraphFractal           // percentages of the caller
	GraphFlat              // a list of callchains
	GraphFolded            // a line for each callchain
)

// Order selects the first frame of a callchain.
type Order int

const (
	OrderDefault Order = iota // Caller if callers include the samples of callees, else Callee
	Caller                    // with the outermost frame
	Callee                    // with the innermost one
)

// Value selects the figure at a branch.
type Value int

const (
	valuePercent Value = iota
	valuePeriod
	valueCount
)

// Set reads the value of perf's -g: comma-separated words, which may be shortened.
// The first number is the percentage, the second the limit.
func (g *CallGraph) Set(arg string) error {
	*g = DefaultCallGraph
	numbers := 0
	for word := range strings.SplitSeq(arg, ",") {
		if word == "" {
			continue
		}
		if strings.HasPrefix("none", word) {
			g.Mode = GraphNone
			return nil
		}
		if known, err := g.setWord(word); known || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		var err error
		switch numbers {
		case 0:
			g.Percent, err = strconv.ParseFloat(word, 64)
		default:
			g.Limit, err = strconv.Atoi(word)
		}
		if err != nil || g.Percent < 0 || g.Limit < 0 {
			return fmt.Errorf("%q is not graph, flat, fractal, folded, none, caller, callee, function, address, "+
				"branch, percent, period, count or a number", word)
		}
		numbers++
	}
	return nil
}

// graphWords lists the words in the order in which a shortened word is compared.
var graphWords = []struct {
	word string
	set  func(*CallGraph)
}{
	{"graph", func(g *CallGraph) { g.Mode = GraphTree }},
	{"flat", func(g *CallGraph) { g.Mode = GraphFlat }},
	{"fractal", func(g *CallGraph) { g.Mode = GraphFractal }},
	{"folded", func(g *CallGraph) { g.Mode = GraphFolded }},
	{"caller", func(g *CallGraph) { g.Order = Caller }},
	{"callee", func(g *CallGraph) { g.Order = Callee }},
	{"function", func(g *CallGraph) { g.ByAddress = false }},
	{"address", func(g *CallGraph) { g.ByAddress = true }},
	{"branch", func(g *CallGraph) { g.Branches = true }},
	{"percent", func(g *CallGraph) { g.Value = valuePercent }},
	{"period", func(g *CallGraph) { g.Value = valuePeriod }},
	{"count", func(g *CallGraph) { g.Value = valueCount }},
}

func (g *CallGraph) setWord(word string) (known bool, err error) {
	for _, w := range graphWords {
		if strings.HasPrefix(w.word, word) {
			w.set(g)
			return true, nil
		}
	}
	if word == "srcline" {
		return false, errors.New("frames cannot be merged by srcline yet, only by function and address")
	}
	return false, nil
}

// drawing appends call graphs of one histogram.
type drawing struct {
	hist   *Hist
	g      *CallGraph
	total  uint64 // period
	inline bool   // callchains include inlined calls
	counts bool   // show the figures of branches
	byName bool   // omit the first frame of a single graph: the entry shows it
	sep    string // between folded frames
	look   text.Style
}

// drawing returns how the call graphs of the histogram are drawn.
func (h *Hist) drawing() drawing {
	return drawing{
		hist:   h,
		g:      &h.opts.Graph,
		total:  h.all.Period,
		inline: h.opts.Inline,
		counts: h.opts.counts,
		byName: h.layout.byName,
		sep:    cmp.Or(h.opts.Separator, ";"),
		look:   h.opts.Look,
	}
}

const graphMargin = "            "

// append appends the graph of e; percentages are of whole.
func (d *drawing) append(b []byte, e *Entry, whole uint64) []byte {
	if len(e.calls) == 0 {
		return b
	}
	root := grow(d.hist, e.calls)
	switch d.g.Mode {
	case GraphFlat:
		return d.appendFlat(b, flat(root, d.hist.minHits))
	case GraphFolded:
		return d.appendFolded(b, flat(root, d.hist.minHits))
	}
	n := len(b)
	margin := graphMargin
	total := d.total
	if d.g.Mode == GraphFractal {
		total = whole
	}
	if len(root.children) == 1 && root.children[0].sum() == whole {
		root = root.children[0]
		var drawn bool
		if b, drawn = d.appendLine(b, root); drawn {
			margin += "   "
		}
	}
	b = d.appendForks(b, root.children, total, margin, 1, pipes(0).with(0))
	if len(b) > n {
		b = append(b, '\n')
	}
	return b
}

// appendLine appends the frames of the only root of a graph.
func (d *drawing) appendLine(b []byte, root *branch) (_ []byte, drawn bool) {
	frames, skipped := root.frames, 0
	if d.byName {
		frames, skipped = frames[1:], 1
	}
	if d.g.Limit > 0 {
		frames = frames[:min(len(frames), d.g.Limit)]
	}
	for i := range frames {
		b = append(b, graphMargin...)
		if i == 0 {
			b = append(append(append(b, "|\n"...), graphMargin...), "---"...)
		} else {
			b = append(b, "   "...)
		}
		b = append(d.appendCropped(b, root, skipped+i), '\n')
	}
	return b, len(frames) > 0
}

// pipes is the set of depths at which another branch follows. It is as wide as
// perf's, where depth 32 is depth 0 again.
type pipes uint32

func (p pipes) with(depth int) pipes    { return p | 1<<(depth&31) }
func (p pipes) without(depth int) pipes { return p &^ (1 << (depth & 31)) }

// append appends the lines at the depths before depth.
func (p pipes) append(b []byte, depth int, gap string) []byte {
	for i := range depth {
		b = append(append(b, p.mark(i)), gap...)
	}
	return b
}

func (p pipes) mark(depth int) byte {
	if p.with(depth) == p {
		return '|'
	}
	return ' '
}

const graphGap = "          "

// appendForks appends the branches of a fork at a depth, from 1 on.
func (d *drawing) appendForks(b []byte, forks []*branch, total uint64, margin string, depth int, p pipes) []byte {
	remaining, rest := total, uint64(0)
	if len(forks) > 0 {
		rest = forks[0].parent.moreBelow
	}
	for i, f := range forks {
		remaining -= f.sum()
		rest -= f.sumSamples()
		below := p
		if i == len(forks)-1 && (d.g.Mode != GraphFractal || remaining == 0) {
			below = p.without(depth - 1)
		}
		b = append(p.append(append(b, margin...), depth, graphGap), '\n')
		for j := range f.frames {
			b = append(b, margin...)
			if j == 0 {
				b = d.appendFork(b, depth, below, &f.calls, total)
			} else {
				b = below.append(b, depth, graphGap)
			}
			b = append(d.appendCropped(b, f, j), '\n')
		}
		whole := total
		if d.g.Mode == GraphFractal {
			whole = f.below
		}
		b = d.appendForks(b, f.children, whole, margin, depth+1, below.with(depth))
		if i+1 == d.g.Limit {
			break
		}
	}
	if d.g.Mode == GraphFractal && remaining != 0 && remaining != total &&
		(d.g.Value != valueCount || int64(rest) > 0) {
		b = d.appendFork(append(b, margin...), depth, p.without(depth-1), &calls{hits: remaining, samples: rest}, total)
		b = append(b, "[...]"...)
		if d.counts { // as perf does: it is no branch
			b = append(b, noBranches...)
		}
		b = append(b, '\n')
	}
	return b
}

// appendFork appends the text before the first frame of a branch.
func (d *drawing) appendFork(b []byte, depth int, p pipes, c *calls, total uint64) []byte {
	b = append(p.append(b, depth-1, graphGap), p.mark(depth-1))
	return append(d.appendValue(append(b, "--"...), c, total), "--"...)
}

func (d *drawing) appendValue(b []byte, c *calls, total uint64) []byte {
	hits, n := c.sum(), c.sumSamples()
	if d.g.Mode == GraphFolded {
		hits, n = c.hits, c.samples
	}
	switch d.g.Value {
	case valuePeriod:
		return strconv.AppendUint(b, hits, 10)
	case valueCount:
		return strconv.AppendUint(b, n, 10)
	}
	percent := 0.0
	if total != 0 {
		percent = float64(hits) * 100 / float64(total)
	}
	start := len(b)
	return d.look.Percent(append(strconv.AppendFloat(b, percent, 'f', 2, 64), '%'), start, percent)
}

func (d *drawing) appendFlat(b []byte, list []*branch) []byte {
	for i, br := range list {
		b = append(b, "           "...)
		b = append(d.appendValue(b, &br.calls, d.total), '\n')
		for _, pl := range br.path() {
			b = append(b, "                "...)
			start := len(b)
			b = append(d.look.Crop(d.appendFrame(b, pl), start), '\n')
		}
		b = append(b, '\n')
		if i+1 == d.g.Limit {
			break
		}
	}
	return b
}

func (d *drawing) appendFolded(b []byte, list []*branch) []byte {
	for i, br := range list {
		b = append(d.appendValue(b, &br.calls, d.total), ' ')
		for j, pl := range br.path() {
			if j > 0 {
				b = append(b, d.sep...)
			}
			b = d.appendFrame(b, pl)
		}
		b = append(b, '\n')
		if i+1 == d.g.Limit {
			break
		}
	}
	return b
}

// path returns the frames from the root to the last one of b.
func (b *branch) path() []*place {
	if b.parent == nil {
		return nil
	}
	return append(b.parent.path(), b.frames...)
}

// appendCropped appends frame i of a branch at the end of a line, cropped to the window.
func (d *drawing) appendCropped(b []byte, br *branch, i int) []byte {
	start := len(b)
	b = d.appendFrame(b, br.frames[i])
	if d.counts {
		b = br.hops[i].Append(b)
	}
	return d.look.Crop(b, start)
}

// appendFrame appends the function of a frame, with the line if the graph shows addresses, or the address.
func (d *drawing) appendFrame(b []byte, pl *place) []byte {
	f := pl.frame
	switch {
	case f.Sym() != nil:
		b = append(b, f.Sym().Name...)
		if d.g.ByAddress {
			b = append(append(b, ' '), d.hist.places.lineInChain(pl, callAt(pl, d.inline))...)
		}
		return pl.appendMark(b)
	case f.IP != 0:
		b = append(b, "0x"...)
	}
	return strconv.AppendUint(b, f.IP, 16)
}

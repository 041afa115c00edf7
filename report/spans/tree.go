package spans

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/session"
)

// TreeOptions limit a tree.
type TreeOptions struct {
	MaxDepth int    // levels of nested spans, 0 for all
	Min      uint64 // omit spans that are shorter, in ns
	Keep     Keep
}

// Tree writes the spans of each thread, nested by time, as ftrace's function_graph prints calls: duration,
// self time (without the time of nested spans) and name. Memory grows with the number of spans,
// as the longest one arrives last.
func Tree(w io.Writer, s *session.Session, opts TreeOptions) (format.Skipped, error) {
	d, err := newDecoder(s.File)
	if err != nil {
		return format.Skipped{}, err
	}
	if !slices.ContainsFunc(d.events, func(e *spanEvent) bool { return e != nil && e.start != nil }) {
		return format.Skipped{}, errNoStarts
	}
	type spansOf struct {
		comm  string
		spans []span
	}
	threads := map[int32]*spansOf{}
	var tids []int32 // in the order of first spans
	skipped, err := d.walk(s, opts.Keep, func(one *session.Sample, p *span) {
		if p.event.start == nil {
			return
		}
		t := threads[one.TID]
		if t == nil {
			t = &spansOf{}
			threads[one.TID] = t
			tids = append(tids, one.TID)
		}
		if t.comm == "" || !strings.HasPrefix(one.Comm, ":") { // unknown after the thread's exit
			t.comm = one.Comm
		}
		t.spans = append(t.spans, *p)
	})
	if err != nil {
		return skipped, err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "#    DURATION         SELF  |  CALLS\n")
	for _, tid := range tids {
		roots := nest(threads[tid].spans)
		if !slices.ContainsFunc(roots, func(n *node) bool { return n.span.duration >= opts.Min }) {
			continue
		}
		fmt.Fprintf(out, "\n# %s (%d)\n", threads[tid].comm, tid)
		t := treeWriter{Writer: out, TreeOptions: opts, name: d.name}
		t.write(roots)
	}
	return skipped, out.Flush()
}

// node is a span with the spans within it.
type node struct {
	span     *span
	self     uint64 // ns
	children []*node
}

func (s *span) end() uint64 { return s.start + s.duration }

// nest returns the outermost spans of a thread. Of spans with equal times, the one that was recorded
// last contains the others. A span that ends after another one that began before is not within it.
func nest(list []span) (roots []*node) {
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end(), a.end()))
	})
	var open []*node
	for i := range list {
		n := &node{span: &list[i], self: list[i].duration}
		for len(open) > 0 && open[len(open)-1].span.end() < n.span.end() {
			open = open[:len(open)-1]
		}
		for len(open) > 0 && open[len(open)-1].span.end() <= n.span.start && n.span.duration > 0 {
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			roots = append(roots, n)
		} else {
			parent := open[len(open)-1]
			parent.children = append(parent.children, n)
			parent.self -= min(n.span.duration, parent.self)
		}
		open = append(open, n)
	}
	return roots
}

// treeWriter writes the tree of a thread.
type treeWriter struct {
	io.Writer
	TreeOptions
	name func(*span) string
}

// write writes the nodes and those below them, of any depth.
func (t *treeWriter) write(roots []*node) {
	type step struct {
		*node
		depth  int
		closes bool
	}
	var todo []step
	push := func(nodes []*node, depth int) {
		for _, n := range slices.Backward(nodes) {
			if n.span.duration >= t.Min && (t.MaxDepth == 0 || depth < t.MaxDepth) {
				todo = append(todo, step{n, depth, false})
			}
		}
	}
	push(roots, 0)
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		indent := strings.Repeat("  ", min(at.depth, maxIndent))
		if at.closes {
			fmt.Fprintf(t, "%26s|  %s}\n", "", indent)
			continue
		}
		all := len(todo)
		todo = append(todo, step{at.node, at.depth, true})
		push(at.children, at.depth+1)
		mark := "() {"
		if len(todo) == all+1 { // nothing within it is shown
			todo, mark = todo[:all], "();"
		}
		fmt.Fprintf(t, "%12s %12s |  %s%s%s\n", micros(at.span.duration), micros(at.self), indent,
			t.name(at.span), mark)
	}
}

// maxIndent limits the indentation of damaged recordings.
const maxIndent = 100

// micros returns a duration in microseconds, as ftrace prints it.
func micros(ns uint64) string { return fmt.Sprintf("%d.%03d us", ns/1000, ns%1000) }

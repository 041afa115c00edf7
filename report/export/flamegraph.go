package export

import (
	"bufio"
	"cmp"
	_ "embed"
	"encoding/json"
	"html"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"gperf/internal/intern"
	"gperf/internal/session"
)

// flamePage is the page without title and data.
//
//go:embed flamegraph.html
var flamePage string

// maxFlame is the limit of frames per event, which a browser still draws smoothly.
// The narrowest frames are omitted.
const maxFlame = 200_000

// maxFlameLines is how many source lines the page lists for a frame.
const maxFlameLines = 5

// FlameGraph writes an HTML page that draws the stacks of each event. The widths of
// frames are the sums of periods that Text shows. The page is self-contained: it
// needs no network. With a baseline, the colours show which functions grew (red) and shrank
// (blue) by more than the noise of the counts of samples; the widths come from the other
// recordings, or, at the press of a button, of the baseline. Samples of CPUs without work (Idle)
// get no width until the user presses a button. Without samples it returns
// ErrNoSamples.
func (c *StackSet) FlameGraph(w io.Writer) error {
	if len(c.tallies) == 0 {
		return ErrNoSamples
	}
	page := c.flames()
	title, rest, _ := strings.Cut(flamePage, "{{title}}")
	middle, end, _ := strings.Cut(rest, "{{data}}")
	out := bufio.NewWriterSize(w, 1<<16)
	out.WriteString(title + html.EscapeString(page.Title) + middle)
	// The encoder writes <, > and & so that they end no script.
	if err := json.NewEncoder(out).Encode(page); err != nil {
		return err
	}
	out.WriteString(end)
	return out.Flush()
}

// flames is the data of the page's script.
type flames struct {
	Title  string        `json:"title"`
	About  []string      `json:"about"`
	Began  string        `json:"began,omitempty"`
	Millis float64       `json:"millis"` // how long was recorded
	DSOs   []string      `json:"dsos"`
	Names  []string      `json:"names"` // of functions, threads and unnamed addresses
	NameOf []nameOf      `json:"functions"`
	Lines  []string      `json:"lines"` // file:line
	Events []*flameEvent `json:"events"`

	strings map[string]int32 // in Names
	dsos    map[string]int32
	names   map[nameOf]int32
	lines   map[string]int32
	paths   map[string]string // of DSOs: equal for the same DSO in several recordings
	frames  map[*session.Frame][]flameFunction
}

// nameOf distinguishes functions: indices in Names and DSOs, and the kind.
type nameOf [3]int32

// Kinds of frames, each with a colour.
const (
	flameThread = iota
	flameUser
	flameKernel
	flameInlined
	flameJIT
	flameUnknown // an address without a name
	flameIdle    // the thread of samples of CPUs without work, see Set.Idle
)

// flameEvent is the tree of an event's stacks. The lists contain an entry for each
// frame: callers before callees, bigger before smaller ones.
type flameEvent struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Depths   []int32  `json:"depths"`
	Frames   []int32  `json:"frames"` // indices in flames.NameOf
	Totals   []uint64 `json:"totals"`
	Selves   []uint64 `json:"selves"`            // the parts of Totals that belong to no callee
	Samples  []uint64 `json:"samples"`           // of Totals
	Bases    []uint64 `json:"bases,omitempty"`   // totals of the baseline, not scaled
	Counted  []uint64 `json:"counted,omitempty"` // samples of Bases
	Lines    []uint64 `json:"lines"`             // frame, index in flames.Lines, part of Totals, in turn
	Left     int      `json:"left"`              // omitted frames
	Narrower uint64   `json:"narrower"`
}

// flames makes the trees of all events.
func (c *StackSet) flames() *flames {
	p := &flames{strings: map[string]int32{}, dsos: map[string]int32{}, names: map[nameOf]int32{},
		lines: map[string]int32{}, frames: map[*session.Frame][]flameFunction{}}
	if c.differs() {
		p.paths = session.SharedPaths(slices.Concat(c.dsos.base, c.dsos.others),
			session.Renamed(c.dsos.base, c.dsos.others))
	}
	p.describe(c)
	session.LookUpCalls(allFrames(c))
	trees := make([]*flameTree, len(c.events))
	for i := range c.tallies {
		t := &c.tallies[i]
		if trees[t.event] == nil {
			e := &c.events[t.event]
			trees[t.event] = newFlameTree(p, e.total+e.base.total == 0)
		}
		trees[t.event].add(c, t)
	}
	for i, tree := range trees {
		if tree == nil {
			continue
		}
		e := tree.event(c.differs())
		e.Name, e.Unit = c.events[i].name, c.events[i].unit
		p.Events = append(p.Events, e)
	}
	return p
}

func (p *flames) describe(c *StackSet) {
	var sides []string
	for _, files := range [][]facts{c.bases, c.files} {
		var lines []string
		for _, f := range files[:min(len(files), maxAbout)] {
			lines = append(lines, f.cmdline)
		}
		for _, line := range comments(files) {
			if !slices.Contains(p.About, line) {
				p.About = append(p.About, line)
			}
		}
		lines = slices.Compact(slices.DeleteFunc(lines, func(s string) bool { return s == "" }))
		if len(lines) > 0 {
			sides = append(sides, strings.Join(lines, " + "))
		}
	}
	p.Title = cmp.Or(strings.Join(slices.Compact(sides), " → "), "flame graph")
	p.Millis = float64(c.lasted) / float64(time.Millisecond)
	if !c.began.IsZero() {
		p.Began = c.began.UTC().Format("2006-01-02 15:04:05 UTC")
	}
}

// flameTree is a tree of frames while stacks are added to it. Frame 0 is below
// all threads.
type flameTree struct {
	page     *flames
	bySample bool // there are no periods
	nodes    []flameNode
	index    map[flameEdge]int32
	lines    map[flameLine]uint64
}

type flameNode struct {
	parent, function     int32
	total, self, samples uint64
	base, counted        uint64 // total and samples of the baseline
}

type flameEdge struct{ parent, function int32 }

type flameLine struct{ node, line int32 }

func newFlameTree(p *flames, bySample bool) *flameTree {
	return &flameTree{page: p, bySample: bySample,
		nodes: []flameNode{{parent: -1, function: p.function("all", "", flameThread)}},
		index: map[flameEdge]int32{}, lines: map[flameLine]uint64{}}
}

// add adds a stack. Totals are made of selves later.
func (t *flameTree) add(c *StackSet, s *tally) {
	weight := s.period
	if t.bySample {
		weight = s.samples
	}
	at := int32(0)
	for _, v := range s.group.Values {
		at = t.child(at, t.page.function(v.Key+"="+v.Text, "", flameThread))
	}
	if s.idle {
		at = t.child(at, t.page.function(s.comm+" (idle)", "", flameIdle))
	} else {
		at = t.child(at, t.page.function(s.comm, "", flameThread))
	}
	for _, f := range slices.Backward(slices.Collect(c.stackOf(s))) {
		for _, fn := range t.page.functionsOf(f, !c.NoInline) {
			at = t.child(at, fn.id)
			if fn.line >= 0 && !s.base {
				t.lines[flameLine{at, fn.line}] += weight
			}
		}
	}
	if s.base {
		t.nodes[at].base += weight
		t.nodes[at].counted += s.samples
		return
	}
	t.nodes[at].self += weight
	t.nodes[at].samples += s.samples
}

func (t *flameTree) child(parent, function int32) int32 {
	e := flameEdge{parent, function}
	i, ok := t.index[e]
	if !ok {
		i = int32(len(t.nodes))
		t.index[e] = i
		t.nodes = append(t.nodes, flameNode{parent: parent, function: function})
	}
	return i
}

// flameFunction is a function of flames.NameOf and a line of flames.Lines, -1 for
// none.
type flameFunction struct{ id, line int32 }

// functionsOf returns the functions of a frame, outermost first.
func (p *flames) functionsOf(f *session.Frame, inline bool) []flameFunction {
	list, ok := p.frames[f]
	if !ok {
		list = p.newFunctionsOf(f, inline)
		p.frames[f] = list
	}
	return list
}

func (p *flames) newFunctionsOf(f *session.Frame, inline bool) (list []flameFunction) {
	for _, fn := range slices.Backward(f.Functions(inline)) {
		kind := int32(flameUser)
		switch {
		case fn.Inlined:
			kind = flameInlined
		case f.Kernel:
			kind = flameKernel
		case f.Kind() == session.KindJIT, f.Kind() == session.KindRuntime:
			kind = flameJIT
		}
		line := int32(-1)
		if fn.Line > 0 {
			line = intern.Index(p.lines, &p.Lines, fn.File+":"+strconv.Itoa(fn.Line))
		}
		list = append(list, flameFunction{p.function(fn.Name, p.dso(f), kind), line})
	}
	if list == nil {
		list = []flameFunction{{p.function(f.Label(), p.dso(f), flameUnknown), -1}}
	}
	return list
}

// dso returns the name of a frame's DSO.
func (p *flames) dso(f *session.Frame) string { return cmp.Or(p.paths[f.DSO()], f.DSO()) }

// function returns the index of a function in NameOf.
func (p *flames) function(name, dso string, kind int32) int32 {
	of := nameOf{intern.Index(p.strings, &p.Names, name), intern.Index(p.dsos, &p.DSOs, dso), kind}
	return intern.Index(p.names, &p.NameOf, of)
}

// event returns the tree as it is written.
func (t *flameTree) event(differs bool) *flameEvent {
	for i := len(t.nodes) - 1; i >= 0; i-- { // callers precede callees
		n := &t.nodes[i]
		n.total += n.self
		if n.parent >= 0 {
			t.nodes[n.parent].total += n.total
			t.nodes[n.parent].samples += n.samples
			t.nodes[n.parent].base += n.base
			t.nodes[n.parent].counted += n.counted
		}
	}
	e := &flameEvent{Narrower: t.narrowest()}
	at := t.write(e, t.callees(e))
	t.writeLines(e, at)
	if differs {
		t.writeBases(e, at)
	}
	return e
}

// width returns the total of a frame, or the baseline's total, scaled, if it is larger.
func (t *flameTree) width(n *flameNode) uint64 {
	return max(n.total, scaled(n.base, t.nodes[0].base, t.nodes[0].total))
}

// narrowest returns the total below which frames are omitted, 0 for none.
func (t *flameTree) narrowest() uint64 {
	if len(t.nodes) <= maxFlame {
		return 0
	}
	totals := make([]uint64, len(t.nodes))
	for i := range t.nodes {
		totals[i] = t.width(&t.nodes[i])
	}
	slices.SortFunc(totals, func(a, b uint64) int { return cmp.Compare(b, a) })
	return totals[maxFlame] + 1
}

// callees returns the callees of each frame, in reverse order.
func (t *flameTree) callees(e *flameEvent) [][]int32 {
	callees := make([][]int32, len(t.nodes))
	for i := range t.nodes {
		n := &t.nodes[i]
		switch {
		case t.width(n) < e.Narrower:
			e.Left++
		case n.parent >= 0:
			callees[n.parent] = append(callees[n.parent], int32(i))
		}
	}
	for _, list := range callees {
		slices.SortFunc(list, func(a, b int32) int {
			m, n := &t.nodes[a], &t.nodes[b]
			return cmp.Or(cmp.Compare(m.total, n.total), cmp.Compare(m.base, n.base),
				strings.Compare(t.name(n), t.name(m)), cmp.Compare(n.function, m.function))
		})
	}
	return callees
}

func (t *flameTree) name(n *flameNode) string { return t.page.Names[t.page.NameOf[n.function][0]] }

// write writes the frames, and returns the entry of each one, -1 for none.
func (t *flameTree) write(e *flameEvent, callees [][]int32) []int32 {
	at := make([]int32, len(t.nodes))
	for i := range at {
		at[i] = -1
	}
	for todo := []int32{0}; len(todo) > 0; {
		i := todo[len(todo)-1]
		n := &t.nodes[i]
		todo = append(todo[:len(todo)-1], callees[i]...)
		depth := int32(0)
		if n.parent >= 0 {
			depth = e.Depths[at[n.parent]] + 1
		}
		at[i] = int32(len(e.Frames))
		e.Depths, e.Frames = append(e.Depths, depth), append(e.Frames, n.function)
		e.Totals, e.Selves, e.Samples = append(e.Totals, n.total), append(e.Selves, n.self),
			append(e.Samples, n.samples)
	}
	return at
}

// writeBases writes the totals of the baseline.
func (t *flameTree) writeBases(e *flameEvent, at []int32) {
	e.Bases, e.Counted = make([]uint64, len(e.Totals)), make([]uint64, len(e.Totals))
	for i := range t.nodes {
		if at[i] >= 0 {
			e.Bases[at[i]], e.Counted[at[i]] = t.nodes[i].base, t.nodes[i].counted
		}
	}
}

// writeLines writes the lines with the largest part of each frame.
func (t *flameTree) writeLines(e *flameEvent, at []int32) {
	type lineOf struct {
		flameLine
		total uint64
	}
	var list []lineOf
	for l, total := range t.lines {
		if at[l.node] >= 0 {
			list = append(list, lineOf{flameLine{at[l.node], l.line}, total})
		}
	}
	slices.SortFunc(list, func(a, b lineOf) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(b.total, a.total), cmp.Compare(a.line, b.line))
	})
	rank := 0
	for i, l := range list {
		if rank++; i == 0 || list[i-1].node != l.node {
			rank = 0
		}
		if rank < maxFlameLines {
			e.Lines = append(e.Lines, uint64(l.node), uint64(l.line), l.total)
		}
	}
}

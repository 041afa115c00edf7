package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gperf/internal/text"
)

// A hierarchy groups entries by the first key, each group by the second, and so on
// (perf report --hierarchy). The leaves are the entries of the plain report.

// node is an entry of a hierarchy.
type node struct {
	entry *Entry // with the sums of those below
	keys  []*SortKey
	depth int
	below []*node // none below a leaf
}

// indent is the indentation of a level, in blanks.
const indent = 3

// setLevels finds which keys make which level: words of --sort that braces hold
// together make one.
func (l *layout) setLevels(p *keyParser, words string) {
	group, open := -1, false
	for _, word := range strings.FieldsFunc(spread(words), func(r rune) bool { return strings.ContainsRune(", ", r) }) {
		switch word {
		case "{", "}":
			open = word == "{"
			group = -1
			continue
		}
		for _, k := range l.shownAs(p.parse(word)) {
			if group < 0 {
				l.levels = append(l.levels, nil)
				group = len(l.levels) - 1
			}
			l.levels[group] = append(l.levels[group], k)
			if !open {
				group = -1
			}
		}
	}
}

// spread separates braces by blanks.
func spread(words string) string {
	return strings.NewReplacer("{", ",{,", "}", ",},").Replace(words)
}

// shownAs returns the columns of the keys that are no figures.
func (l *layout) shownAs(keys []*SortKey) (list []*SortKey) {
	for _, k := range keys {
		i := slices.IndexFunc(l.columns, func(c *SortKey) bool {
			return c.Name == k.Name && (c.field == nil) == (k.field == nil) &&
				(c.field == nil || c.field.format == k.field.format)
		})
		if i >= 0 && l.columns[i].figureOf == nil && !slices.ContainsFunc(l.levels, func(level []*SortKey) bool {
			return slices.Contains(level, l.columns[i])
		}) {
			list = append(list, l.columns[i])
		}
	}
	return list
}

// sumOf returns the first entry with the figures of all. As in perf, Children
// is not a sum: it is the first entry's own.
func sumOf(list []*Entry) *Entry {
	sum := *list[0]
	sum.Self, sum.calls = Stat{}, nil
	sum.group = make([]*Entry, len(list[0].group))
	for _, e := range list {
		sum.Self.add(&e.Self)
		sum.calls = append(sum.calls, e.calls...)
		for i, m := range e.group {
			switch {
			case m == nil:
			case sum.group[i] == nil:
				c := *m
				c.Children = c.Self
				sum.group[i] = &c
			default:
				sum.group[i].Self.add(&m.Self)
			}
		}
	}
	sum.Children = list[0].Self
	return &sum
}

// hierarchyWriter writes the hierarchy of an event.
type hierarchyWriter struct {
	blocks *blockWriter
	levels [][]*SortKey
	sep    string // between columns, blanks where they are aligned
	text   []byte
}

// writeHierarchy writes the block of an event as a hierarchy.
func (w *blockWriter) writeHierarchy() error {
	hw := hierarchyWriter{blocks: w, sep: cmp.Or(w.hist.opts.Separator, "  ")}
	hw.setLevels()
	if !w.hist.opts.Quiet {
		w.w.Write(w.appendTitle(nil))
		hw.head()
	}
	if len(hw.levels) > 0 {
		hw.all(hw.nodes(w.hist.list, 0))
	}
	_, err := w.w.WriteString("\n\n")
	return err
}

// setLevels sets the levels of the event, without fields of other events.
func (hw *hierarchyWriter) setLevels() {
	for _, level := range hw.blocks.hist.layout.levels {
		level = slices.DeleteFunc(slices.Clone(level), func(k *SortKey) bool { return !k.shown(hw.blocks.hist.event) })
		if len(level) > 0 {
			hw.levels = append(hw.levels, level)
		}
	}
}

// nodes makes the hierarchy of entries from a level down. The entries are in perf's order,
// in which entries with equal keys of a level adjoin.
func (hw *hierarchyWriter) nodes(list []*Entry, depth int) (nodes []*node) {
	keys := hw.levels[depth]
	for len(list) > 0 {
		n := 1
		for n < len(list) && hw.compareBy(keys, list[0], list[n]) == 0 {
			n++
		}
		nd := &node{entry: sumOf(list[:n]), keys: keys, depth: depth}
		if depth+1 < len(hw.levels) {
			nd.below, nd.entry.calls, nd.entry.depth = hw.nodes(list[:n], depth+1), nil, 0
		}
		nodes, list = append(nodes, nd), list[n:]
	}
	return order(nodes, func(there, new *node) bool { return hw.blocks.hist.compareResult(new.entry, there.entry) > 0 })
}

func (hw *hierarchyWriter) compareBy(keys []*SortKey, a, b *Entry) int {
	for _, k := range keys {
		if c := k.cmp(hw.blocks.hist, a, b); c != 0 {
			return c
		}
	}
	return 0
}

// figureIndexes are the places of the figures among the columns.
func (hw *hierarchyWriter) figureIndexes() (list []int) {
	for i, k := range hw.blocks.hist.layout.columns {
		if k.figureOf != nil && k.shown(hw.blocks.hist.event) {
			list = append(list, i)
		}
	}
	return list
}

// margin returns how wide the indentation of the last level is, with this many levels
// more. It is 0 where columns are not aligned.
func (hw *hierarchyWriter) margin(more int) int {
	if hw.blocks.hist.opts.Separator != "" {
		return 0
	}
	if hw.blocks.hist.layout.hiddenLevel {
		more++
	}
	return max(len(hw.levels)-1+more, 0) * indent
}

func (hw *hierarchyWriter) head() {
	margin := hw.margin(0)
	fmt.Fprintf(hw.blocks.w, "# %*s", margin, "")
	dots := strings.Repeat(".", margin)
	for n, i := range hw.figureIndexes() {
		if n > 0 {
			dots += strings.ReplaceAll(hw.sep, " ", ".")
		}
		dots += strings.Repeat(".", hw.blocks.widths[i])
		head := hw.blocks.hist.layout.columns[i].Head
		fmt.Fprintf(hw.blocks.w, "%s%s", appendRight(nil, head, hw.blocks.widths[i]), hw.sep)
	}
	var heads []string
	width := 0
	for depth, level := range hw.levels {
		var names []string
		below := depth*indent + len(level) - 1
		for _, k := range level {
			names = append(names, strings.TrimSpace(k.Head))
			below += hw.blocks.widths[slices.Index(hw.blocks.hist.layout.columns, k)]
		}
		heads = append(heads, strings.Join(names, "+"))
		width = max(width, below)
	}
	head := strings.Join(heads, " / ")
	fmt.Fprintf(hw.blocks.w, "%s\n# %s%s%s\n#\n", head, dots, hw.sep, strings.Repeat(".", max(width, len(head))))
}

// all writes nodes and descendants.
func (hw *hierarchyWriter) all(nodes []*node) {
	for _, nd := range nodes {
		if hw.blocks.hist.visible(nd.entry.shown(hw.blocks.hist.opts)) {
			hw.one(nd)
		}
		hw.all(nd.below)
	}
}

func (hw *hierarchyWriter) one(nd *node) {
	b := text.AppendBlanks(hw.text[:0], nd.depth*indent)
	for n, i := range hw.figureIndexes() {
		if n > 0 || hw.blocks.hist.opts.Separator == "" {
			b = append(b, hw.sep...)
		}
		start := len(b)
		b = hw.blocks.appendFigures(b, nd.entry, hw.blocks.hist.layout.columns[i], hw.blocks.widths[i])
		b = text.AppendBlanks(b, hw.blocks.widths[i]-hw.blocks.columns(b[start:]))
	}
	b = text.AppendBlanks(b, hw.margin(0))
	names := len(b)
	for _, k := range nd.keys {
		column := slices.Index(hw.blocks.hist.layout.columns, k)
		line := k.append(hw.blocks.hist, nil, nd.entry, hw.blocks.widths[column])
		b = append(append(b, hw.sep...), strings.TrimLeft(string(line), " ")...)
	}
	b = append(hw.blocks.hist.opts.Look.Crop(b, names), '\n')
	if nd.below == nil && hw.blocks.hist.chains {
		b = hw.blocks.graphs.append(b, nd.entry, nd.entry.shown(hw.blocks.hist.opts))
	}
	hist := hw.blocks.hist
	visible := func(c *node) bool { return hist.visible(c.entry.shown(hist.opts)) }
	if nd.below != nil && !slices.ContainsFunc(nd.below, visible) {
		b = text.AppendBlanks(b, hw.margin(1+nd.depth))
		b = fmt.Appendf(b, "%*sno entry >= %.2f%%\n", hw.figuresWidth()+4, "", hw.blocks.hist.opts.PercentLimit)
	}
	hw.blocks.w.Write(b)
	hw.text = b
}

// figuresWidth returns the width of all figures with separators.
func (hw *hierarchyWriter) figuresWidth() int {
	n := -2
	for _, i := range hw.figureIndexes() {
		n += hw.blocks.widths[i] + 2
	}
	return n
}

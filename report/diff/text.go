package diff

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gperf/internal/text"
)

// figure is a column of numbers.
type figure struct {
	head  string
	width int
	text  func(*row) string // "" if there is none
	// percent decides the colour of the text; nil: no colour.
	percent func(*row) float64
}

var heads = [...]struct {
	head  string
	width int
}{DeltaAbs: {"Delta Abs", 9}, Delta: {"Delta", 7}, Ratio: {"Ratio", 14}, Weighted: {"Weighted diff", 14}}

// figures returns the columns of numbers: with more than two sides, each with a number.
func (t *table) figures() (list []figure) {
	base := sideFigures{t: t}
	base.addBaseline()
	list = base.list
	for i := range t.totals[1:] {
		s := sideFigures{t: t, i: i + 1}
		s.addResult()
		list = append(list, s.list...)
	}
	return list
}

// sideFigures makes the columns of numbers of a side.
type sideFigures struct {
	t    *table
	i    int // the side
	list []figure
}

func (s *sideFigures) addBaseline() {
	t := s.t
	s.add("Baseline", 8, s.baseline).percent = func(r *row) float64 { return share(r.counts[0], t.shown) }
	if t.opts.Periods {
		s.add("Base period", 14, func(r *row) string { return fmt.Sprint(r.period(0)) })
	}
}

func (s *sideFigures) addResult() {
	t, h := s.t, &heads[s.t.opts.Compute]
	result := s.add(h.head, h.width, s.result)
	if t.opts.Compute == DeltaAbs || t.opts.Compute == Delta {
		result.percent = func(r *row) float64 { return t.result(r, s.i) }
	}
	if t.opts.Formula {
		s.add("Formula", 70, s.formula)
	}
	if t.opts.Noise {
		s.add("Margin", 7, s.margin)
		s.add("p", 6, func(r *row) string { return r.noise[s.i].probability() })
		s.add("Verdict", 7, func(r *row) string { return r.noise[s.i].verdict() })
	}
	if t.opts.Periods {
		s.add("Period", 14, s.period)
	}
}

// add adds a column. The result is valid until the next one.
func (s *sideFigures) add(name string, width int, text func(*row) string) *figure {
	head := s.head(name)
	s.list = append(s.list, figure{head: head, width: max(width, len(head)), text: text})
	return &s.list[len(s.list)-1]
}

// head returns the heading of a column: with more than two sides, it includes the number.
func (s *sideFigures) head(name string) string {
	if len(s.t.totals) > 2 {
		return fmt.Sprintf("%s/%d", name, s.i)
	}
	return name
}

func (s *sideFigures) baseline(r *row) string {
	t := s.t
	if !r.in(0) || meanPeriod(t.shown) == 0 {
		return ""
	}
	text := fmt.Sprintf("%.2f", share(r.counts[0], t.shown))
	if t.opts.Separator == "" {
		text += "%"
	}
	return text
}

func (s *sideFigures) result(r *row) string {
	t := s.t
	switch v := t.result(r, s.i); {
	case !t.has(r, s.i):
		return ""
	case !t.shows(r, s.i):
		return "N/A"
	case t.opts.Compute == Ratio:
		return s.left(fmt.Sprintf("%14.6f", v))
	case t.opts.Compute == Weighted && v == 0:
		return ""
	case t.opts.Compute == Weighted:
		return s.left(fmt.Sprintf("%14d", int64(v)))
	default:
		return fmt.Sprintf("%+.2f%%", v)
	}
}

// left pads a result to the width of the column, which a recording's number may widen.
func (s *sideFigures) left(text string) string {
	if len(s.t.totals) > 2 {
		return fmt.Sprintf("%-*s", len(s.head(heads[s.t.opts.Compute].head)), text)
	}
	return text
}

func (s *sideFigures) formula(r *row) string {
	t, new, old := s.t, r.period(s.i), r.period(0)
	switch {
	case !t.has(r, s.i):
		return ""
	case t.opts.Compute == Ratio:
		return fmt.Sprintf("%d / %d", new, old)
	case t.opts.Compute == Weighted:
		return fmt.Sprintf("(%d * %d) - (%d * %d)", new, t.opts.Weights[1], old, t.opts.Weights[0])
	}
	return fmt.Sprintf("(%d * 100 / %d) - (%d * 100 / %d)", new, meanPeriod(t.totals[s.i]), old, meanPeriod(t.shown))
}

// margin returns the margin of a difference, "" for a ratio.
func (s *sideFigures) margin(r *row) string {
	switch s.t.opts.Compute {
	case Ratio:
		return ""
	case Weighted:
		return fmt.Sprintf("%.0f", r.noise[s.i].margin)
	}
	return fmt.Sprintf("%.2f%%", r.noise[s.i].margin)
}

func (s *sideFigures) period(r *row) string {
	if !r.in(s.i) {
		return ""
	}
	return fmt.Sprint(r.period(s.i))
}

// printer writes a table as text.
type printer struct {
	t       *table
	figures []figure
	widths  []int // of the columns of names
	line    []byte
}

func newPrinter(t *table) *printer {
	p := &printer{t: t, figures: t.figures(), widths: slices.Clone(t.widths)}
	p.fit()
	return p
}

// fit reduces the widths of the columns of names to the window.
func (p *printer) fit() {
	t := p.t
	if t.opts.Look.Width == 0 || t.opts.Separator != "" {
		return
	}
	room, minimums := t.opts.Look.Width-2*(len(p.figures)+len(t.columns)), make([]int, len(p.widths))
	for _, f := range p.figures {
		room -= f.width
	}
	for i, c := range t.columns {
		minimums[i] = max(len(c.Head), 10)
	}
	text.Fit(p.widths, minimums, room)
}

// row appends a row to line.
func (p *printer) row(r *row) {
	for i, f := range p.figures {
		p.separate(i)
		start := len(p.line)
		shown := f.text(r)
		p.right(shown, f.width)
		if f.percent != nil && shown != "" {
			p.line = p.t.opts.Look.Percent(p.line, start, f.percent(r))
		}
	}
	for i := range r.columns {
		p.separate(i + len(p.figures))
		p.name(r, i)
	}
	p.line = append(p.line, '\n')
}

// name appends column i of names, whose text may be too long for the window.
func (p *printer) name(r *row, i int) {
	whole := p.t.widths[i]
	n := len(p.line)
	p.line = r.columns[i].Append(p.line, r.first, whole)
	columns := len(p.line) - n
	if p.widths[i] < whole {
		shown := text.Function(strings.TrimRight(string(p.line[n:]), " "), p.widths[i])
		p.line = append(p.line[:n], shown...)
		columns = utf8.RuneCountInString(shown)
	}
	if i < len(p.t.columns)-1 {
		p.line = text.AppendBlanks(p.line, p.widths[i]-columns)
	}
}

// separate begins column i of a line.
func (p *printer) separate(i int) {
	switch sep := p.t.opts.Separator; {
	case sep == "":
		p.line = append(p.line, "  "...)
	case i > 0:
		p.line = append(p.line, sep...)
	}
}

// right appends a figure: aligned right, or left with a separator, as perf does.
func (p *printer) right(shown string, width int) {
	if p.t.opts.Separator != "" {
		p.line = text.AppendBlanks(append(p.line, shown...), width-len(shown))
		return
	}
	p.line = append(text.AppendBlanks(p.line, width-len(shown)), shown...)
}

// writeHead writes the lines before the rows.
func (p *printer) writeHead(w *bufio.Writer, sides [][]string) {
	t := p.t
	fmt.Fprintf(w, "# Event '%s'\n#\n", t.of.name)
	if t.opts.Verbose || len(slices.Concat(sides...)) > 2 {
		writePaths(w, sides)
	}
	head, dots := []byte("# "), []byte("# ")
	for i := range len(p.figures) + len(t.columns) {
		if i > 0 {
			sep := cmp.Or(t.opts.Separator, "  ")
			head, dots = append(head, sep...), append(dots, sep...)
		}
		if i < len(p.figures) {
			head = append(text.AppendBlanks(head, p.figures[i].width-len(p.figures[i].head)), p.figures[i].head...)
			dots = append(dots, strings.Repeat(".", p.figures[i].width)...)
			continue
		}
		c, width := t.columns[i-len(p.figures)], p.widths[i-len(p.figures)]
		head = text.AppendBlanks(append(head, c.Head...), width-len(c.Head))
		dots = append(dots, strings.Repeat(".", width)...)
	}
	w.Write(append(head, '\n'))
	if t.opts.Separator == "" {
		w.Write(append(dots, "\n#\n"...))
	}
}

func writePaths(w *bufio.Writer, sides [][]string) {
	fmt.Fprint(w, "# Data files:\n")
	for i, side := range sides {
		mark := ""
		if i == 0 {
			mark = "(Baseline)"
		}
		for _, path := range side {
			fmt.Fprintf(w, "#  [%d] %s %s\n", i, path, mark)
		}
	}
	fmt.Fprint(w, "#\n")
}

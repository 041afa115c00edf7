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
	for i := range t.totals {
		add := func(name string, width int, text func(*row) string) {
			head := t.head(name, i)
			list = append(list, figure{head: head, width: max(width, len(head)), text: text})
		}
		periods, name := func(r *row) string { return fmt.Sprint(r.period(i)) }, "Period"
		if i == 0 {
			name = "Base period"
			add("Baseline", 8, t.baseline)
			list[len(list)-1].percent = func(r *row) float64 { return share(r.counts[0], t.shown) }
		} else {
			h := &heads[t.opts.Compute]
			add(h.head, h.width, func(r *row) string { return t.resultText(r, i) })
			if t.opts.Compute == DeltaAbs || t.opts.Compute == Delta {
				list[len(list)-1].percent = func(r *row) float64 { return t.result(r, i) }
			}
			if t.opts.Formula {
				add("Formula", 70, func(r *row) string { return t.formula(r, i) })
			}
			if t.opts.Noise {
				add("Margin", 7, func(r *row) string { return t.marginText(r, i) })
				add("p", 6, func(r *row) string { return r.noise[i].probability() })
				add("Verdict", 7, func(r *row) string { return r.noise[i].verdict() })
			}
			periods = func(r *row) string {
				if !r.in(i) {
					return ""
				}
				return fmt.Sprint(r.period(i))
			}
		}
		if t.opts.Periods {
			add(name, 14, periods)
		}
	}
	return list
}

func (t *table) baseline(r *row) string {
	if !r.in(0) || meanPeriod(t.shown) == 0 {
		return ""
	}
	text := fmt.Sprintf("%.2f", share(r.counts[0], t.shown))
	if t.opts.Separator == "" {
		text += "%"
	}
	return text
}

func (t *table) resultText(r *row, i int) string {
	switch v := t.result(r, i); {
	case !t.has(r, i):
		return ""
	case !t.shows(r, i):
		return "N/A"
	case t.opts.Compute == Ratio:
		return t.left(fmt.Sprintf("%14.6f", v), i)
	case t.opts.Compute == Weighted && v == 0:
		return ""
	case t.opts.Compute == Weighted:
		return t.left(fmt.Sprintf("%14d", int64(v)), i)
	default:
		return fmt.Sprintf("%+.2f%%", v)
	}
}

// left pads a result to the width of the column, which a recording's number may widen.
func (t *table) left(text string, i int) string {
	if len(t.totals) > 2 {
		return fmt.Sprintf("%-*s", len(t.head(heads[t.opts.Compute].head, i)), text)
	}
	return text
}

// head returns the heading of a column: with more than two sides, it includes the number.
func (t *table) head(name string, i int) string {
	if len(t.totals) > 2 {
		return fmt.Sprintf("%s/%d", name, i)
	}
	return name
}

func (t *table) formula(r *row, i int) string {
	new, old := r.period(i), r.period(0)
	switch {
	case !t.has(r, i):
		return ""
	case t.opts.Compute == Ratio:
		return fmt.Sprintf("%d / %d", new, old)
	case t.opts.Compute == Weighted:
		return fmt.Sprintf("(%d * %d) - (%d * %d)", new, t.opts.Weights[1], old, t.opts.Weights[0])
	}
	return fmt.Sprintf("(%d * 100 / %d) - (%d * 100 / %d)", new, meanPeriod(t.totals[i]), old, meanPeriod(t.shown))
}

func (t *table) write(w *bufio.Writer, sides [][]string) {
	if t.opts.Noise {
		t.estimate()
	}
	t.sort()
	if t.opts.BaselineOnly {
		t.keepBaseline()
	}
	for _, r := range t.rows {
		for i, width := range r.widths {
			t.widths[i] = max(t.widths[i], width)
		}
	}
	figures := t.figures()
	whole := slices.Clone(t.widths)
	fit(t, figures)
	if !t.opts.Quiet {
		t.writeHead(w, sides, figures)
	}
	var b []byte
	for _, r := range t.rows {
		b = b[:0]
		for i, f := range figures {
			b = t.separate(b, i)
			start := len(b)
			shown := f.text(r)
			b = t.right(b, shown, f.width)
			if f.percent != nil && shown != "" {
				b = t.opts.Look.Percent(b, start, f.percent(r))
			}
		}
		for i, c := range r.columns {
			b = t.separate(b, i+len(figures))
			n := len(b)
			b = c.Append(b, r.first, whole[i])
			columns := len(b) - n
			if t.widths[i] < whole[i] {
				shown := text.Function(strings.TrimRight(string(b[n:]), " "), t.widths[i])
				b = append(b[:n], shown...)
				columns = utf8.RuneCountInString(shown)
			}
			if i < len(t.columns)-1 {
				b = text.AppendBlanks(b, t.widths[i]-columns)
			}
		}
		w.Write(append(b, '\n'))
	}
}

// fit reduces the widths of the columns of names to the window.
func fit(t *table, figures []figure) {
	if t.opts.Look.Width == 0 || t.opts.Separator != "" {
		return
	}
	room, minimums := t.opts.Look.Width-2*(len(figures)+len(t.columns)), make([]int, len(t.widths))
	for _, f := range figures {
		room -= f.width
	}
	for i, c := range t.columns {
		minimums[i] = max(len(c.Head), 10)
	}
	text.Fit(t.widths, minimums, room)
}

// separate begins column i of a line.
func (t *table) separate(b []byte, i int) []byte {
	switch {
	case t.opts.Separator == "":
		return append(b, "  "...)
	case i > 0:
		return append(b, t.opts.Separator...)
	}
	return b
}

// right appends a figure: aligned right, or left with a separator, as perf does.
func (t *table) right(b []byte, shown string, width int) []byte {
	if t.opts.Separator != "" {
		return text.AppendBlanks(append(b, shown...), width-len(shown))
	}
	return append(text.AppendBlanks(b, width-len(shown)), shown...)
}

// writeHead writes what precedes the rows.
func (t *table) writeHead(w *bufio.Writer, sides [][]string, figures []figure) {
	fmt.Fprintf(w, "# Event '%s'\n#\n", t.of.name)
	if t.opts.Verbose || len(slices.Concat(sides...)) > 2 {
		writePaths(w, sides)
	}
	head, dots := []byte("# "), []byte("# ")
	for i := range len(figures) + len(t.columns) {
		if i > 0 {
			sep := cmp.Or(t.opts.Separator, "  ")
			head, dots = append(head, sep...), append(dots, sep...)
		}
		if i < len(figures) {
			head = append(text.AppendBlanks(head, figures[i].width-len(figures[i].head)), figures[i].head...)
			dots = append(dots, strings.Repeat(".", figures[i].width)...)
			continue
		}
		c, width := t.columns[i-len(figures)], t.widths[i-len(figures)]
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

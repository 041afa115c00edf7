// Package diff answers "what changed between recordings?": it joins the histograms of two or
// more recordings by the names of functions and DSOs, and prints them as `perf diff` does.
package diff

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/column"
	"gperf/internal/session"
	"gperf/report"
)

// Options select what is compared. The zero value shows the same as perf.
type Options struct {
	report.Options
	Compute      Compute
	Weights      [2]int64 // of Weighted: for the baseline and for the others
	By           int      // recording whose result sorts the rows; 0: the baseline
	BaselineOnly bool     // omit rows that the baseline does not have
	Periods      bool     // columns with the periods
	Formula      bool     // a column with the numbers of which the result is made
}

// Compute is how the figures of a row are compared.
type Compute int

const (
	DeltaAbs Compute = iota // difference of percentages, the largest first in either direction
	Delta                   // difference of percentages, the largest growth first
	Ratio                   // of the periods
	Weighted                // difference of the periods, each multiplied by its weight
)

// Input is a recording to compare.
type Input struct {
	Path    string
	Session *session.Session
}

// attr returns the attr of a histogram's event.
func (in *Input) attr(h *report.Hist) *format.Attr { return &in.Session.File.Attrs[h.Index()] }

// sameEvent reports whether the events of two recordings are the same, whatever their modifiers
// are. The numbers of tracepoints differ between kernels, and those of PMUs between machines.
func sameEvent(a, b *format.Attr) bool {
	return a.Type == b.Type && a.Config == b.Config && a.Type <= format.TypeRaw && a.Type != format.TypeTracepoint
}

// DefaultSort is the keys without --sort.
const DefaultSort = "dso,symbol"

// Text compares recordings with the first one, event by event.
func Text(w io.Writer, inputs []Input, opts Options) (skipped []format.Skipped, err error) {
	opts.Options.NoChildren, opts.Options.Groups = true, report.GroupsApart
	opts.Graph.Mode = report.GraphNone
	opts.Sort = cmp.Or(opts.Sort, DefaultSort)
	byInput := make([][]*report.Hist, len(inputs))
	for i, in := range inputs {
		hists, s, err := report.Histograms(in.Session, opts.Options)
		if err != nil {
			return skipped, fmt.Errorf("%s: %w", in.Path, err)
		}
		byInput[i], skipped = hists, append(skipped, s)
	}
	out := bufio.NewWriter(w)
	for i, base := range byInput[0] {
		if i > 0 && !opts.Quiet {
			out.WriteByte('\n')
		}
		t := newTable(&opts, base, len(inputs))
		for i := range inputs {
			for _, h := range byInput[i] {
				if sameEvent(inputs[0].attr(base), inputs[i].attr(h)) || h.Event == base.Event {
					t.add(i, h)
					break
				}
			}
		}
		t.write(out, inputs)
	}
	return skipped, out.Flush()
}

// table is the rows of one event.
type table struct {
	*Options
	event   string
	columns []report.Column // of the baseline
	totals  []uint64        // periods by recording
	shown   uint64          // the baseline's total in the column of its percentages
	byKey   map[string]*row
	rows    []*row
	widths  []int // of columns
}

// row is an entry of each recording with the same key.
type row struct {
	first   *report.Entry
	columns []report.Column // of first's recording
	values  []string        // by column
	widths  []int           // by column, of its entries
	periods []uint64        // by recording
	in      []bool          // by recording
}

func newTable(o *Options, base *report.Hist, inputs int) *table {
	t := &table{Options: o, event: base.Event, columns: base.Columns(), totals: make([]uint64, inputs),
		byKey: map[string]*row{}}
	for _, c := range t.columns {
		t.widths = append(t.widths, c.Min)
	}
	return t
}

// add adds the histogram of recording i.
func (t *table) add(i int, h *report.Hist) {
	if t.totals[i] = h.Total.Period; i == 0 {
		t.shown = t.totals[i]
	}
	columns := h.Columns()
	var key strings.Builder
	for _, e := range h.Kept() {
		key.Reset()
		values := make([]string, len(columns))
		for j, c := range columns {
			values[j] = c.Value(e)
			key.WriteString(values[j])
			key.WriteByte(0)
		}
		r := t.byKey[key.String()]
		if r == nil {
			r = &row{first: e, columns: columns, values: values, widths: make([]int, len(columns)),
				periods: make([]uint64, len(t.totals)), in: make([]bool, len(t.totals))}
			t.byKey[key.String()] = r
			t.rows = append(t.rows, r)
		}
		for j, c := range columns {
			r.widths[j] = max(r.widths[j], c.Width(e))
		}
		r.in[i] = true
		r.periods[i] += e.Self.Period
	}
}

// percent returns the share of a row in recording i.
func (t *table) percent(r *row, i int) float64 {
	if t.totals[i] == 0 {
		return 0
	}
	return 100 * float64(r.periods[i]) / float64(t.totals[i])
}

// result compares recording i with the baseline. As in perf, the ratio of a row without a
// baseline is its period: N/A is printed, but rows are sorted by it.
func (t *table) result(r *row, i int) float64 {
	switch t.Compute {
	case Ratio:
		return float64(r.periods[i]) / float64(max(r.periods[0], 1))
	case Weighted:
		return float64(int64(r.periods[i])*t.Weights[1] - int64(r.periods[0])*t.Weights[0])
	}
	return t.percent(r, i) - t.percent(r, 0)
}

// shows reports whether a row has a result for recording i: differences of percentages
// need no baseline.
func (t *table) shows(r *row, i int) bool {
	return r.in[i] && (r.in[0] || t.Compute == DeltaAbs || t.Compute == Delta)
}

// first orders a row that has something before one that has not. It returns 0 if both have.
func first(a, b bool) (order int, both bool) {
	switch {
	case a == b:
		return 0, a
	case a:
		return -1, false
	}
	return 1, false
}

// compare orders rows by their results for recording i; those that it does not have come
// last.
func (t *table) compare(a, b *row, i int) int {
	if order, both := first(a.in[i], b.in[i]); !both {
		return order
	}
	x, y := t.result(a, i), t.result(b, i)
	if t.Compute == DeltaAbs {
		x, y = math.Abs(x), math.Abs(y)
	}
	return cmp.Compare(y, x)
}

// compareShown is compare, but rows without a shown result come before those that the
// recording does not have.
func (t *table) compareShown(a, b *row, i int) int {
	if a.in[i] && b.in[i] {
		if order, both := first(t.shows(a, i), t.shows(b, i)); !both {
			return order
		}
	}
	return t.compare(a, b, i)
}

// sort sorts the rows by the result of recording By, the baseline, the other results and the
// keys, in this order.
func (t *table) sort() {
	slices.SortStableFunc(t.rows, func(a, b *row) int {
		if t.By > 0 {
			if c := t.compareShown(a, b, t.By); c != 0 {
				return c
			}
		}
		if c := cmp.Compare(t.percent(b, 0), t.percent(a, 0)); c != 0 {
			return c
		}
		for i := 1; i < len(t.totals); i++ {
			if c := t.compare(a, b, i); c != 0 {
				return c
			}
		}
		return slices.CompareFunc(a.values, b.values, compareValues)
	})
}

// compareValues orders the values of a column: what has no name comes last.
func compareValues(a, b string) int {
	if order, both := first(a != "", b != ""); !both {
		return order
	}
	return strings.Compare(a, b)
}

// keepBaseline keeps the rows of the baseline that another recording has, too, and makes their
// sum the baseline's total, as perf does.
func (t *table) keepBaseline() {
	t.rows = slices.DeleteFunc(t.rows, func(r *row) bool { return !r.in[0] || !slices.Contains(r.in[1:], true) })
	t.shown = 0
	for _, r := range t.rows {
		t.shown += r.periods[0]
	}
}

// figure is a column of numbers.
type figure struct {
	head  string
	width int
	text  func(*row) string // "" if there is none
}

var heads = [...]struct {
	head  string
	width int
}{DeltaAbs: {"Delta Abs", 9}, Delta: {"Delta", 7}, Ratio: {"Ratio", 14}, Weighted: {"Weighted diff", 14}}

// figures returns the columns of numbers: with several recordings, each with its number.
func (t *table) figures() (list []figure) {
	for i := range t.totals {
		add := func(name string, width int, text func(*row) string) {
			head := t.head(name, i)
			list = append(list, figure{head, max(width, len(head)), text})
		}
		periods, name := func(r *row) string { return fmt.Sprint(r.periods[i]) }, "Period"
		if i == 0 {
			name = "Base period"
			add("Baseline", 8, t.baseline)
		} else {
			add(heads[t.Compute].head, heads[t.Compute].width, func(r *row) string { return t.resultText(r, i) })
			if t.Formula {
				add("Formula", 70, func(r *row) string { return t.formula(r, i) })
			}
			periods = func(r *row) string {
				if !r.in[i] {
					return ""
				}
				return fmt.Sprint(r.periods[i])
			}
		}
		if t.Periods {
			add(name, 14, periods)
		}
	}
	return list
}

func (t *table) baseline(r *row) string {
	if !r.in[0] || t.shown == 0 {
		return ""
	}
	text := fmt.Sprintf("%.2f", 100*float64(r.periods[0])/float64(t.shown))
	if t.Separator == "" {
		text += "%"
	}
	return text
}

func (t *table) resultText(r *row, i int) string {
	switch v := t.result(r, i); {
	case !r.in[i]:
		return ""
	case !t.shows(r, i):
		return "N/A"
	case t.Compute == Ratio:
		return t.left(fmt.Sprintf("%14.6f", v), i)
	case t.Compute == Weighted:
		return t.left(fmt.Sprintf("%14d", int64(v)), i)
	default:
		return fmt.Sprintf("%+.2f%%", v)
	}
}

// left pads a result to the width of its column, which a recording's number may widen.
func (t *table) left(text string, i int) string {
	if len(t.totals) > 2 {
		return fmt.Sprintf("%-*s", len(t.head(heads[t.Compute].head, i)), text)
	}
	return text
}

// head returns the heading of a column: with more than two recordings, it has the number.
func (t *table) head(name string, i int) string {
	if len(t.totals) > 2 {
		return fmt.Sprintf("%s/%d", name, i)
	}
	return name
}

func (t *table) formula(r *row, i int) string {
	new, old := r.periods[i], r.periods[0]
	switch {
	case !r.in[i]:
		return ""
	case t.Compute == Ratio:
		return fmt.Sprintf("%d / %d", new, old)
	case t.Compute == Weighted:
		return fmt.Sprintf("(%d * %d) - (%d * %d)", new, t.Weights[1], old, t.Weights[0])
	}
	return fmt.Sprintf("(%d * 100 / %d) - (%d * 100 / %d)", new, t.totals[i], old, t.totals[0])
}

func (t *table) write(w *bufio.Writer, inputs []Input) {
	t.sort()
	if t.BaselineOnly {
		t.keepBaseline()
	}
	for _, r := range t.rows {
		for i, width := range r.widths {
			t.widths[i] = max(t.widths[i], width)
		}
	}
	figures := t.figures()
	if !t.Quiet {
		t.writeHead(w, inputs, figures)
	}
	var b []byte
	for _, r := range t.rows {
		b = b[:0]
		for i, f := range figures {
			b = t.separate(b, i)
			b = t.right(b, f.text(r), f.width)
		}
		for i, c := range r.columns {
			b = t.separate(b, i+len(figures))
			n := len(b)
			b = c.Append(b, r.first, t.widths[i])
			if i < len(t.columns)-1 {
				b = column.AppendBlanks(b, t.widths[i]-(len(b)-n))
			}
		}
		w.Write(append(b, '\n'))
	}
}

// separate begins column i of a line.
func (t *table) separate(b []byte, i int) []byte {
	switch {
	case t.Separator == "":
		return append(b, "  "...)
	case i > 0:
		return append(b, t.Separator...)
	}
	return b
}

// right appends a figure: aligned right, or left with a separator, as perf does.
func (t *table) right(b []byte, text string, width int) []byte {
	if t.Separator != "" {
		return column.AppendBlanks(append(b, text...), width-len(text))
	}
	return append(column.AppendBlanks(b, width-len(text)), text...)
}

// writeHead writes what precedes the rows.
func (t *table) writeHead(w *bufio.Writer, inputs []Input, figures []figure) {
	fmt.Fprintf(w, "# Event '%s'\n#\n", t.event)
	if t.Verbose || len(inputs) > 2 {
		fmt.Fprint(w, "# Data files:\n")
		for i, in := range inputs {
			mark := ""
			if i == 0 {
				mark = "(Baseline)"
			}
			fmt.Fprintf(w, "#  [%d] %s %s\n", i, in.Path, mark)
		}
		fmt.Fprint(w, "#\n")
	}
	head, dots := []byte("# "), []byte("# ")
	for i := range len(figures) + len(t.columns) {
		if i > 0 {
			sep := cmp.Or(t.Separator, "  ")
			head, dots = append(head, sep...), append(dots, sep...)
		}
		if i < len(figures) {
			head = append(column.AppendBlanks(head, figures[i].width-len(figures[i].head)), figures[i].head...)
			dots = append(dots, strings.Repeat(".", figures[i].width)...)
			continue
		}
		c, width := t.columns[i-len(figures)], t.widths[i-len(figures)]
		head = column.AppendBlanks(append(head, c.Head...), width-len(c.Head))
		dots = append(dots, strings.Repeat(".", width)...)
	}
	w.Write(append(head, '\n'))
	if t.Separator == "" {
		w.Write(append(dots, "\n#\n"...))
	}
}

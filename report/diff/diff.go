// Package diff joins the histograms of two or more recordings by the names of functions, and the names or build IDs
// of DSOs, and prints them as `perf diff` does.
package diff

import (
	"bufio"
	"cmp"
	"io"
	"math"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/session"
	"gperf/report"
)

// Options configure a comparison. The zero value shows the same as perf.
type Options struct {
	report.Options
	Compute      Compute
	Weights      [2]int64 // of Weighted: for the baseline and for the others
	By           int      // side whose result sorts the rows; 0: the baseline
	BaselineOnly bool     // omit rows that the baseline lacks
	Periods      bool     // columns with the periods
	Formula      bool     // a column with the numbers that make up the result
	Noise        bool     // columns that distinguish changes from noise, and changes before noise
}

// Compute is how the figures of a row are compared.
type Compute int

const (
	DeltaAbs Compute = iota // difference of percentages, the largest first in either direction
	Delta                   // difference of percentages, the largest growth first
	Ratio                   // of the periods
	Weighted                // difference of the periods, each multiplied by the weight
)

// DefaultSort is the keys without --sort.
const DefaultSort = "dso,symbol"

// Comparison compares sides with the first one, the baseline, event by event. A side is one or more recordings of the
// same; the figures are means. The memory is bounded by the distinct rows, and by two numbers for each row and
// recording.
type Comparison struct {
	opts     Options
	sides    [][]string // paths of recordings
	baseline []*session.DSO
	tables   []*table
	notices  []string
}

// New begins a comparison of the recordings at these paths.
func New(sides [][]string, opts Options) *Comparison {
	opts.Empty, opts.NoChildren, opts.Groups, opts.Branches = true, true, report.GroupsApart, report.BranchesOff
	opts.Graph.Mode = report.GraphNone
	opts.Sort = cmp.Or(opts.Sort, DefaultSort)
	return &Comparison{opts: opts, sides: sides}
}

// Histograms reads a recording. Several goroutines may read different ones. The result counts the skipped parts.
func (c *Comparison) Histograms(s *session.Session) ([]*report.Hist, format.Skipped, error) {
	return report.Histograms(s, c.opts.Options)
}

// Add adds the histograms of recording j of side i, in this order: the baseline's come first. It uses the
// session for the last time.
func (c *Comparison) Add(i, j int, s *session.Session, hists []*report.Hist) {
	own := make([]event, len(hists))
	for k, h := range hists {
		own[k] = event{h.Event, s.File.Attrs[h.Index()], h.Total.Samples}
	}
	var renamed map[string]string
	if i == 0 {
		c.baseline = append(c.baseline, s.DSOs()...)
		c.addTables(hists, own)
	} else {
		renamed = session.Renamed(c.baseline, s.DSOs())
	}
	pairs := c.pair(own)
	for n, k := range pairs {
		if k >= 0 {
			c.tables[n].add(i, j, hists[k], renamed)
		}
	}
	c.note(c.sides[i][j], own, pairs)
	for _, h := range hists {
		h.Detach()
	}
}

// Write writes the tables.
func (c *Comparison) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	for n, t := range c.tables {
		if n > 0 && !c.opts.Quiet {
			out.WriteByte('\n')
		}
		t.write(out, c.sides)
	}
	return out.Flush()
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
	p := newPrinter(t)
	if !t.opts.Quiet {
		p.writeHead(w, sides)
	}
	for _, r := range t.rows {
		p.line = p.line[:0]
		p.row(r)
		w.Write(p.line)
	}
}

// table is the rows of one event.
type table struct {
	opts    *Options
	of      event
	columns []report.Column // of the baseline
	totals  [][]count       // by side and recording
	shown   []count         // the baseline's totals in the column of percentages
	byKey   map[string]*row
	rows    []*row
	widths  []int // of columns
}

// count is the samples of an entry in one recording.
type count struct{ samples, period uint64 }

// row is an entry of each recording with the same key.
type row struct {
	first   *report.Entry
	columns []report.Column // of first's recording
	values  []string        // by column
	widths  []int           // by column, of the column's entries
	counts  [][]count       // by side and recording
	noise   []noise         // by side, without Noise nil
}

// zeroCounts returns a count for each element of a list by side and recording.
func zeroCounts[T any](sides [][]T) [][]count {
	list := make([][]count, len(sides))
	for i, side := range sides {
		list[i] = make([]count, len(side))
	}
	return list
}

func newTable(o *Options, base *report.Hist, of event, sides [][]string) *table {
	t := &table{opts: o, of: of, columns: base.Columns(), totals: zeroCounts(sides),
		byKey: map[string]*row{}}
	t.shown = t.totals[0]
	for _, c := range t.columns {
		t.widths = append(t.widths, c.Min)
	}
	return t
}

// add adds the histogram of recording j of side i. DSOs are called as in the baseline.
func (t *table) add(i, j int, h *report.Hist, renamed map[string]string) {
	t.totals[i][j] = count{h.Total.Samples, h.Total.Period}
	columns := h.Columns()
	var key strings.Builder
	for _, e := range h.Kept() {
		key.Reset()
		values := make([]string, len(columns))
		for k, c := range columns {
			if values[k] = c.Value(e); c.DSO() {
				name := strings.TrimSpace(values[k])
				values[k] = cmp.Or(renamed[name], name)
			}
			key.WriteString(values[k])
			key.WriteByte(0)
		}
		r := t.byKey[key.String()]
		if r == nil {
			r = &row{first: h.DetachedEntry(e), columns: columns, values: values, widths: make([]int, len(columns)),
				counts: zeroCounts(t.totals)}
			t.byKey[key.String()] = r
			t.rows = append(t.rows, r)
		}
		for k, c := range columns {
			r.widths[k] = max(r.widths[k], c.Width(e))
		}
		r.counts[i][j].samples += e.Self.Samples
		r.counts[i][j].period += e.Self.Period
	}
}

// in reports whether a recording of side i contains the row.
func (r *row) in(i int) bool {
	return slices.ContainsFunc(r.counts[i], func(c count) bool { return c.samples > 0 })
}

// period returns the mean of the row's periods in side i.
func (r *row) period(i int) uint64 { return meanPeriod(r.counts[i]) }

func meanPeriod(list []count) (sum uint64) {
	for _, c := range list {
		sum += c.period
	}
	return sum / uint64(len(list))
}

// share returns the mean of the percentages that parts are of all.
func share(parts, all []count) (sum float64) {
	for i, part := range parts {
		if all[i].period > 0 {
			sum += 100 * float64(part.period) / float64(all[i].period)
		}
	}
	return sum / float64(len(parts))
}

// percent returns the share of a row in side i.
func (t *table) percent(r *row, i int) float64 { return share(r.counts[i], t.totals[i]) }

// result compares side i with the baseline. As in perf, the ratio of a row without a
// baseline is the period: N/A is printed, but rows are sorted by it.
func (t *table) result(r *row, i int) float64 {
	switch t.opts.Compute {
	case Ratio:
		return float64(r.period(i)) / float64(max(r.period(0), 1))
	case Weighted:
		return float64(int64(r.period(i))*t.opts.Weights[1] - int64(r.period(0))*t.opts.Weights[0])
	}
	return t.percent(r, i) - t.percent(r, 0)
}

// has reports whether a row is compared for side i. As in perf, a side without samples of the
// row gets no result, except with Noise, which compares absence, too.
func (t *table) has(r *row, i int) bool { return t.opts.Noise || r.in(i) }

// shows reports whether a row shows a result for side i: differences of percentages
// need no baseline.
func (t *table) shows(r *row, i int) bool {
	return t.has(r, i) && (r.in(0) || t.opts.Compute == DeltaAbs || t.opts.Compute == Delta)
}

// first orders a condition that holds before one that does not: 0 for equal ones, and whether both hold.
func first(a, b bool) (order int, both bool) {
	switch {
	case a == b:
		return 0, a
	case a:
		return -1, false
	}
	return 1, false
}

// compare orders rows by the results for side i; rows without a result come
// last.
func (t *table) compare(a, b *row, i int) int {
	if order, both := first(t.has(a, i), t.has(b, i)); !both {
		return order
	}
	x, y := t.result(a, i), t.result(b, i)
	if t.opts.Compute == DeltaAbs {
		x, y = math.Abs(x), math.Abs(y)
	}
	return cmp.Compare(y, x)
}

// compareShown is compare, but rows without a shown result come before those that the
// recording does not have.
func (t *table) compareShown(a, b *row, i int) int {
	if t.has(a, i) && t.has(b, i) {
		if order, both := first(t.shows(a, i), t.shows(b, i)); !both {
			return order
		}
	}
	return t.compare(a, b, i)
}

// sort sorts the rows by the result of side By, the baseline, the other results and the
// keys, in this order. With Noise, the rows that changed come first.
func (t *table) sort() {
	slices.SortStableFunc(t.rows, func(a, b *row) int {
		if t.opts.By > 0 {
			if t.opts.Noise {
				if order, _ := first(a.noise[t.opts.By].changed(), b.noise[t.opts.By].changed()); order != 0 {
					return order
				}
			}
			if c := t.compareShown(a, b, t.opts.By); c != 0 {
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

// compareValues orders the values of a column: entries without a name come last.
func compareValues(a, b string) int {
	if order, both := first(a != "", b != ""); !both {
		return order
	}
	return strings.Compare(a, b)
}

// keepBaseline keeps the rows of the baseline that another side contains, too, and makes the
// sum the baseline's total, as perf does.
func (t *table) keepBaseline() {
	t.rows = slices.DeleteFunc(t.rows, func(r *row) bool {
		others := false
		for i := 1; i < len(r.counts); i++ {
			others = others || r.in(i)
		}
		return !r.in(0) || !others
	})
	t.shown = make([]count, len(t.totals[0]))
	for _, r := range t.rows {
		for j, c := range r.counts[0] {
			t.shown[j].period += c.period
		}
	}
}

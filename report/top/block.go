package top

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gperf/internal/text"
	"gperf/report"
)

// Block is the samples of an interval.
type Block struct {
	Time   string // when the interval was shown, or its end in a past recording
	Length time.Duration
	Hists  []*report.Hist // of events with samples
	Lost   uint64         // records lost in the interval

	unit func(*report.Hist) string // of a histogram's periods, as session.EventUnit returns it
}

// Table is the table of an event, in lines without newlines.
type Table struct {
	Title, Head string
	Rows        []Row
	More        int // entries beyond Rows
}

// Row is a line of a table.
type Row struct {
	Text  string
	Share float64 // in percent, see shareAt
	Name  string  // the event and the values of the keys, without figures
	hist  *report.Hist
	entry *report.Entry
}

// The share in a row's text, with its percent sign.
const (
	shareAt  = 10 + 2
	shareEnd = shareAt + 7
)

// append appends a row's text as it looks.
func (r *Row) append(b []byte, l text.Style) []byte {
	start := len(b)
	b = l.Crop(append(b, r.Text...), start+shareEnd)
	rest := string(b[start+shareEnd:])
	return append(l.Percent(b[:start+shareEnd], start+shareAt, r.Share), rest...)
}

// Graph returns the callchains of a row, in lines; none without callchains.
func (r *Row) Graph() []string {
	b := r.hist.AppendGraph(nil, r.entry)
	var lines []string
	for line := range bytes.Lines(b) {
		if line = bytes.TrimRight(line, " \n"); len(line) > 0 {
			lines = append(lines, string(line))
		}
	}
	return lines
}

// Tables returns the tables, with at most entries rows each; 0: all. pick selects the rows by
// their text; nil: all.
func (b *Block) Tables(entries int, pick func(string) bool) (tables []Table) {
	for _, h := range b.Hists {
		tables = append(tables, b.table(h, entries, pick))
	}
	return tables
}

// Summary returns the line above the tables.
func (b *Block) Summary() string {
	text := fmt.Sprintf("%s, %v", b.Time, b.Length.Round(time.Millisecond))
	if len(b.Hists) == 0 {
		text += ", no events"
	}
	if b.Lost > 0 {
		text += fmt.Sprintf(", lost %d records", b.Lost)
	}
	return text
}

// units are the words for rates, in the title of a table and in the heading of its column.
var units = map[string]struct{ title, head string }{
	"count":       {"events/s", "events/s"},
	"bytes":       {"bytes/s", "bytes/s"},
	"nanoseconds": {"per second", "time/s"},
}

// table makes the table of an event. Its texts are made for the shown rows only.
func (b *Block) table(h *report.Hist, entries int, pick func(string) bool) Table {
	unit := b.unit(h)
	t := Table{Title: fmt.Sprintf("%s: %s %s", h.Event, rate(h.Total.Period, b.Length, unit), units[unit].title)}
	columns := h.Columns()
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = len(c.Head)
	}
	var kept []*report.Entry
	var texts [][]string
	for _, e := range h.Visible() {
		if entries > 0 && len(kept) == entries {
			t.More++
			continue
		}
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = c.Text(e)
		}
		if pick != nil && !pick(strings.Join(cells, " ")) {
			continue
		}
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
		kept, texts = append(kept, e), append(texts, cells)
	}
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = c.Head
	}
	t.Head = appendCells(fmt.Sprintf("%10s    share", units[unit].head), head, widths)
	for i, e := range kept {
		period := e.Shown(h)
		share := 100 * float64(period) / float64(max(h.Total.Period, 1))
		figures := fmt.Sprintf("%10s  %6.2f%%", rate(period, b.Length, unit), share)
		t.Rows = append(t.Rows, Row{appendCells(figures, texts[i], widths), share,
			h.Event + "\x00" + strings.Join(texts[i], "\x00"), h, e})
	}
	return t
}

// appendCells returns a line of cells, padded to the widths except the last one.
func appendCells(figures string, cells []string, widths []int) string {
	line := []byte(figures)
	for i, cell := range cells {
		line = append(append(line, "  "...), cell...)
		if i < len(cells)-1 {
			line = text.AppendBlanks(line, widths[i]-utf8.RuneCountInString(cell))
		}
	}
	return string(line)
}

// rate returns a period per second: small ones with a digit after the point, times with their unit.
func rate(n uint64, in time.Duration, unit string) string {
	perSecond := float64(n) / max(in.Seconds(), 1e-9)
	if unit == "nanoseconds" {
		switch {
		case perSecond >= 1e9:
			return fmt.Sprintf("%.3f s", perSecond/1e9)
		case perSecond >= 1e6:
			return fmt.Sprintf("%.3f ms", perSecond/1e6)
		}
		return fmt.Sprintf("%.3f us", perSecond/1e3)
	}
	if perSecond < 100 {
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return strconv.FormatFloat(perSecond, 'f', 0, 64)
}

// Append appends the block as text: the tables with at most entries rows each, and the
// callchains of each row, if recorded.
func (b *Block) Append(shown []byte, entries int, l text.Style) []byte {
	shown = fmt.Appendf(shown, "# %s\n", b.Summary())
	for _, t := range b.Tables(entries, nil) {
		shown = fmt.Appendf(shown, "# %s\n# %s\n", t.Title, t.Head[2:])
		for i := range t.Rows {
			shown = append(t.Rows[i].append(shown, l), '\n')
			for _, line := range t.Rows[i].Graph() {
				shown = append(append(shown, line...), '\n')
			}
		}
		if t.More > 0 {
			shown = fmt.Appendf(shown, "# and %d more\n", t.More)
		}
	}
	return append(shown, '\n')
}

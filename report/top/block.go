package top

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"gperf/internal/session"
	"gperf/internal/text"
	"gperf/report"
)

// Blocks makes a block of text of each interval: the tables of all events.
type Blocks struct {
	live    *report.Live
	entries int // of a table, 0: all
	look    text.Style
	unit    func(*report.Hist) string // of a histogram's periods, as session.EventUnit returns it
	print   func(block []byte) error
}

// NewBlocks returns a Counter of a session that passes the blocks to print. Tables have at most entries rows; 0: all.
// Errors are those of report.NewLive.
func NewBlocks(s *session.Session, o report.Options, entries int, print func(block []byte) error) (*Blocks, error) {
	live, err := report.NewLive(s, o)
	unit := func(h *report.Hist) string { return session.EventUnit(s.File, h.Index(), o.Weight) }
	return &Blocks{live: live, entries: entries, look: o.Look, unit: unit, print: print}, err
}

// Count implements Counter.
func (b *Blocks) Count(s *session.Sample) { b.live.Count(s) }

// Stacks implements Counter.
func (b *Blocks) Stacks() int { return b.live.Stacks() }

// Show implements Counter.
func (b *Blocks) Show(i Interval) error {
	hists := b.live.Histograms()
	shown := fmt.Appendf(nil, "# %s", i.Summary())
	if len(hists) == 0 {
		shown = append(shown, ", no events"...)
	}
	shown = append(shown, '\n')
	for _, h := range hists {
		t := newTable(h, i.Length, b.unit(h), b.entries)
		shown = t.append(shown, b.look)
	}
	return b.print(append(shown, '\n'))
}

// Summary returns the time and length of an interval, and the number of lost records.
func (i *Interval) Summary() string {
	text := fmt.Sprintf("%s, %v", i.Time, i.Length.Round(time.Millisecond))
	if i.Lost > 0 {
		text += fmt.Sprintf(", lost %d records", i.Lost)
	}
	return text
}

// table is the table of an event, in lines without newlines.
type table struct {
	title, head string
	rows        []row
	more        int // entries beyond rows
	hist        *report.Hist
}

// row is a line of a table.
type row struct {
	text  string
	share float64 // in percent, see shareAt
	entry *report.Entry
}

// The share in a row's text, with its percent sign.
const (
	shareAt  = 10 + 2
	shareEnd = shareAt + 7
)

// append appends the table with the callchains of each row, if recorded.
func (t *table) append(b []byte, l text.Style) []byte {
	b = fmt.Appendf(b, "# %s\n# %s\n", t.title, t.head[2:])
	for i := range t.rows {
		b = append(t.rows[i].append(b, l), '\n')
		for line := range bytes.Lines(t.hist.AppendGraph(nil, t.rows[i].entry)) {
			if line = bytes.TrimRight(line, " \n"); len(line) > 0 {
				b = append(append(b, line...), '\n')
			}
		}
	}
	if t.more > 0 {
		b = fmt.Appendf(b, "# and %d more\n", t.more)
	}
	return b
}

// append appends a row's text as it looks.
func (r *row) append(b []byte, l text.Style) []byte {
	start := len(b)
	b = l.Crop(append(b, r.text...), start+shareEnd)
	rest := string(b[start+shareEnd:])
	return append(l.Percent(b[:start+shareEnd], start+shareAt, r.share), rest...)
}

// units are the words for rates, in the title of a table and in the heading of its column.
var units = map[string]struct{ title, head string }{
	"count":       {"events/s", "events/s"},
	"bytes":       {"bytes/s", "bytes/s"},
	"nanoseconds": {"per second", "time/s"},
}

// RateHead returns the heading of a column with rates of this unit.
func RateHead(unit string) string { return units[unit].head }

// RateTitle returns a period per second with its unit.
func RateTitle(n uint64, in time.Duration, unit string) string {
	return Rate(n, in, unit) + " " + units[unit].title
}

// newTable makes the table of an event. Its texts are made for the shown rows only.
func newTable(h *report.Hist, length time.Duration, unit string, entries int) table {
	t := table{title: h.Event + ": " + RateTitle(h.Total.Period, length, unit), hist: h}
	columns := h.Columns()
	head, widths := make([]string, len(columns)), make([]int, len(columns))
	for i, c := range columns {
		head[i], widths[i] = c.Head, len(c.Head)
	}
	kept := h.Visible()
	if entries > 0 && len(kept) > entries {
		kept, t.more = kept[:entries], len(kept)-entries
	}
	var texts [][]string
	for _, e := range kept {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = c.Text(e)
			widths[i] = max(widths[i], utf8.RuneCountInString(cells[i]))
		}
		texts = append(texts, cells)
	}
	t.head = appendCells(fmt.Sprintf("%10s    share", RateHead(unit)), head, widths)
	for i, e := range kept {
		period := e.Shown(h)
		share := 100 * float64(period) / float64(max(h.Total.Period, 1))
		figures := fmt.Sprintf("%10s  %6.2f%%", Rate(period, length, unit), share)
		t.rows = append(t.rows, row{appendCells(figures, texts[i], widths), share, e})
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

// Rate returns a period per second: small ones with a digit after the point, times with their unit.
func Rate(n uint64, in time.Duration, unit string) string {
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

package report

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/internal/session"
)

// CSV writes the entries that Text shows as comma-separated values (RFC 4180), or separated by Options.Separator: a row
// with the names of the columns, then a row for each entry. The columns are the same as in Text, with the number of
// samples and the sum of the periods, and for callers the sum of the periods of callees. Shares are percentages
// without a sign, and not rounded. Bytes that are not UTF-8 become U+FFFD. Recordings with several events get a column
// Event, and empty values in columns of others.
func CSV(w io.Writer, s *session.Session, opts Options) (format.Skipped, error) {
	opts.ForCSV()
	hists, skipped, err := Histograms(s, opts)
	if err != nil {
		return skipped, err
	}
	return skipped, writeCSV(w, hists, &opts)
}

// ForCSV sets the columns of CSV.
func (o *Options) ForCSV() {
	o.Graph.Mode, o.Groups, o.Samples, o.Period, o.csv = GraphNone, GroupsApart, true, true, true
}

func writeCSV(w io.Writer, hists []*Hist, opts *Options) error {
	if len(hists) == 0 {
		return ErrNoSamples
	}
	t := &csvTable{Writer: csv.NewWriter(w), events: len(hists) > 1}
	if opts.Separator != "" {
		t.Comma = rune(opts.Separator[0])
	}
	for _, h := range hists {
		for _, k := range h.layout.columns {
			t.children = t.children || k.Name == "overhead_children"
			if name := k.csvName(); k.shown(h.event) && !slices.Contains(t.columns, name) {
				t.columns = append(t.columns, name)
			}
		}
	}
	t.Write(t.head())
	for _, h := range hists {
		own := t.columnsOf(h)
		for _, e := range h.Visible() {
			t.Write(t.row(h, own, e))
		}
	}
	t.Flush()
	return t.Error()
}

// csvTable writes histograms as one table.
type csvTable struct {
	*csv.Writer
	columns  []string // names: events may share a column, which each of them makes in its own way
	events   bool     // there are several
	children bool     // callers include the samples of callees
}

// csvName returns the name of a column.
func (k *SortKey) csvName() string {
	if k.Name == "latency_children" { // its Head is also the head of the column latency
		return "Latency children"
	}
	return strings.TrimSpace(k.Head)
}

// columnsOf returns the histogram's own keys of the table's columns, nil for columns that only other events have.
func (t *csvTable) columnsOf(h *Hist) []*SortKey {
	own := make([]*SortKey, len(t.columns))
	for _, k := range h.layout.columns {
		if k.shown(h.event) {
			own[slices.Index(t.columns, k.csvName())] = k
		}
	}
	return own
}

func (t *csvTable) head() (row []string) {
	if t.events {
		row = append(row, "Event")
	}
	row = append(row, t.columns...)
	if t.children {
		row = append(row, "Children period")
	}
	return row
}

func (t *csvTable) row(h *Hist, own []*SortKey, e *Entry) (row []string) {
	if t.events {
		row = append(row, h.Event)
	}
	for _, k := range own {
		text := ""
		switch {
		case k == nil:
		case k.figureOf != nil:
			text = k.figureText(h, e)
		default:
			text = Column{k.Head, max(k.min, len(k.Head)), h, k}.Text(e)
		}
		row = append(row, strings.ToValidUTF8(text, "\ufffd"))
	}
	if t.children {
		row = append(row, strconv.FormatUint(e.Children.Period, 10))
	}
	return row
}

// figureText returns a figure of an entry as a number.
func (k *SortKey) figureText(h *Hist, e *Entry) string {
	percent := func(part, all uint64) string {
		if all == 0 {
			return "0"
		}
		return strconv.FormatFloat(100*float64(part)/float64(all), 'f', -1, 64)
	}
	switch k.Name {
	case "overhead":
		return percent(e.Self.Period, h.Total.Period)
	case "overhead_children":
		return percent(e.Children.Period, h.Total.Period)
	case "overhead_sys":
		return percent(e.Self.Kernel, h.Total.Period)
	case "overhead_us":
		return percent(e.Self.User, h.Total.Period)
	case "latency":
		return percent(e.Self.Latency, h.Total.Latency)
	case "latency_children":
		return percent(e.Children.Latency, h.Total.Latency)
	case "sample":
		return strconv.FormatUint(e.Self.Samples, 10)
	}
	return strconv.FormatUint(e.Self.Period, 10)
}

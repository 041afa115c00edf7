package tui

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gdamore/tcell/v2"

	"gperf/internal/session"
	"gperf/report"
	"gperf/report/annotate"
	"gperf/report/table"
	"gperf/report/top"
)

// Top is the view of gperf top: it shows each interval of a recording in place of the one before. All methods are for
// the goroutine that reads the recording, except Run and Quit.
type Top struct {
	browser   *Browser
	recording Recording
	loader    table.Loader // as in new intervals
	filter    report.Filter

	interval *table.Loader
	input    *table.Input
	hidden   []table.Sum // of the samples that the filter leaves out, by event

	work    chan func() // functions that need the files of the recording
	stopped chan struct{}
}

// live is the state of a Browser that shows intervals.
type live struct {
	newest atomic.Pointer[interval]
	shown  *interval // nil: none yet
	frozen bool
	ended  atomic.Bool // no interval follows
}

// interval is an interval with its samples.
type interval struct {
	top.Interval
	table  *table.Table
	hidden []table.Sum
}

// NewTop returns the view of a recording on an initialized screen. The filter's samples alone are shown; percentages
// are of all. An error may be a *key.KeyError.
func NewTop(screen tcell.Screen, o Options, r Recording, filter report.Filter, weight string) (*Top, error) {
	o.Usual = report.EventKeys(r.Session.File, true)
	t := &Top{recording: r, filter: filter, loader: r.loader(&o), work: make(chan func()),
		stopped: make(chan struct{})}
	t.loader.Weight = weight
	if err := t.begin(); err != nil {
		return nil, err
	}
	o.Table = t.interval.Table()
	t.browser = New(screen, o)
	t.browser.live = new(live)
	t.browser.opts.Code = t.code
	return t, nil
}

// begin begins an interval.
func (t *Top) begin() (err error) {
	next := t.loader
	t.interval = &next
	t.input, err = table.NewInput(t.interval, table.Source{Session: t.recording.Session})
	t.hidden = make([]table.Sum, len(t.recording.Session.File.Attrs))
	return err
}

// Run shows the view until the user quits, or Quit is called. It must have a goroutine of its own.
func (t *Top) Run() {
	defer close(t.stopped)
	t.browser.Run()
}

// Quit ends Run.
func (t *Top) Quit() { t.browser.later(func() func() { return func() { t.browser.quit = true } }) }

// Wait waits for the end of Run.
func (t *Top) Wait() {
	for {
		select {
		case f := <-t.work:
			f()
		case <-t.stopped:
			return
		}
	}
}

// Count implements top.Counter.
func (t *Top) Count(s *session.Sample) {
	if t.filter.Selects(s) {
		t.input.Count(s)
		return
	}
	t.hidden[t.input.Event(s.Event)].Add(table.Sum{Weight: s.Period, Samples: 1})
}

// Stacks implements top.Counter.
func (t *Top) Stacks() int { return t.input.Stacks() }

// Show implements top.Counter.
func (t *Top) Show(i top.Interval) error {
	t.browser.live.newest.Store(&interval{i, t.interval.Table(), t.hidden})
	t.browser.screen.PostEvent(tcell.NewEventInterrupt(nil)) // if there is no room, other events show the interval
	return t.begin()
}

// Work runs the functions of the view that need the recording's files.
func (t *Top) Work() {
	for {
		select {
		case f := <-t.work:
			f()
		default:
			return
		}
	}
}

// End says that no interval follows. Without any interval there is nothing to look at, and Run ends.
func (t *Top) End() {
	if t.browser.live.newest.Load() == nil {
		t.Quit()
	}
	t.browser.live.ended.Store(true)
	t.browser.screen.PostEvent(tcell.NewEventInterrupt(nil))
}

// code returns the lines of a function, for Options.Code.
func (t *Top) code(function int32, at map[table.Spot]table.Sum) (lines []annotate.Line, err error) {
	origin, done := t.browser.entries().table.Origins[function], make(chan struct{})
	t.work <- func() {
		lines, err = t.recording.code(origin, at)
		close(done)
	}
	<-done
	return lines, err
}

// advance shows the newest interval, unless the user has stopped the list or looks at another page.
func (b *Browser) advance() {
	if b.live == nil || b.live.frozen || len(b.pages) > 1 {
		return
	}
	if newest := b.live.newest.Load(); newest != b.live.shown {
		b.live.shown = newest
		l := b.entries()
		p := placeOf(l)
		l.use(newest.table, newest.hidden)
		l.count()
		p.restore(l)
	}
}

func freeze(l *list) {
	l.browser.live.frozen = !l.browser.live.frozen
}

// title returns the first line.
func (v *live) title(l *list) string {
	if v.shown == nil {
		return " gperf top: waiting for samples"
	}
	e := &l.table.Events[l.event]
	rate := top.RateTitle(l.counted.All.Weight, v.shown.Length, e.Unit)
	parts := []string{" " + v.shown.Summary(), e.Name + ": " + rate}
	if others := otherEvents(l.table, l.event); others > 0 {
		parts = append(parts, fmt.Sprintf("Tab: %s more", plural(others, "event")))
	}
	switch {
	case v.frozen:
		parts = append(parts, "FROZEN")
	case v.ended.Load():
		parts = append(parts, "the recording has ended")
	}
	return strings.Join(parts, "  ")
}

// otherEvents returns how many other events have samples.
func otherEvents(t *table.Table, event int) (n int) {
	for i := range t.Events {
		if i != event && t.Sum(table.Filter{Event: i}).Samples > 0 {
			n++
		}
	}
	return n
}

// rateWidth is the width of the column with the rates.
const rateWidth = 12

// head returns the heading of the column with the rates.
func (v *live) head(l *list) string {
	unit := "count"
	if l.event < len(l.table.Events) {
		unit = l.table.Events[l.event].Unit
	}
	return fmt.Sprintf("%*s ", rateWidth, top.RateHead(unit))
}

// rate returns how much of an entry there is per second.
func (v *live) rate(l *list, e *table.Entry) string {
	return fmt.Sprintf("%*s", rateWidth, top.Rate(e.Total.Weight, v.shown.Length, l.table.Events[l.event].Unit))
}

// place is the open rows of a list and the selected one, to find them again in another table by their texts.
type place struct {
	rows      []keptRow
	at, first int
}

// keptRow is a row that was open or selected.
type keptRow struct {
	text     string
	open     bool
	selected bool
	below    []keptRow
}

// placeOf returns the place of a list. A first row that is closed is not selected: another one may come first.
func placeOf(l *list) place {
	var selected *row
	if r := l.selectedRow(); r != nil && (l.at > 0 || r.open) {
		selected = r
	}
	return place{keptRows(l, l.entries, selected), l.at, l.first}
}

func keptRows(l *list, rows []*row, selected *row) (kept []keptRow) {
	for _, r := range rows {
		k := keptRow{open: r.open, selected: r == selected}
		if r.open {
			k.below = keptRows(l, r.below, selected)
		}
		if k.open || k.selected {
			k.text = l.rowText(r)
			kept = append(kept, k)
		}
	}
	return kept
}

// restore opens the rows of a list that were open, and selects the one that was selected.
func (p *place) restore(l *list) {
	selected := reopen(l, l.entries, p.rows)
	l.refresh()
	l.at, l.first = p.at, p.first
	if i := slices.Index(l.rows, selected); i >= 0 {
		l.at = i
	}
	l.limit(len(l.rows))
}

// reopen opens the rows that were open, and returns the one that was selected, nil if it is missing.
func reopen(l *list, rows []*row, kept []keptRow) (selected *row) {
	for _, k := range kept {
		i := slices.IndexFunc(rows, func(r *row) bool { return l.rowText(r) == k.text })
		if i < 0 {
			continue
		}
		if k.selected {
			selected = rows[i]
		}
		if k.open {
			l.load(rows[i])
			rows[i].open = len(rows[i].below) > 0
			if below := reopen(l, rows[i].below, k.below); below != nil {
				selected = below
			}
		}
	}
	return selected
}

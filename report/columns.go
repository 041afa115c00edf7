package report

import (
	"strconv"
	"strings"

	"gperf/internal/session"
)

// Column is a sort key of a histogram, for packages that print entries in another form.
type Column struct {
	Head string
	Min  int // width in columns
	h    *Hist
	k    *SortKey
}

// Columns returns the sort keys of the histogram, without figures.
func (h *Hist) Columns() (list []Column) {
	for _, k := range h.layout.columns {
		if k.cmp != nil && k.shown(h.event) {
			list = append(list, Column{k.Head, max(k.min, len(k.Head)), h, k})
		}
	}
	return list
}

// Append appends an entry's text, padded or cut to width.
func (c Column) Append(b []byte, e *Entry, width int) []byte { return c.k.append(c.h, b, e, width) }

// Width returns the width that the entry needs.
func (c Column) Width(e *Entry) int {
	if c.k.width == nil {
		return c.Min
	}
	return max(c.Min, c.k.width(c.h, e))
}

// Text returns an entry's complete text without padding, however long it is. Numbers that fill a column with zeros have
// only the digits that they need.
func (c Column) Text(e *Entry) string {
	width := max(c.Width(e), maxPad)
	switch c.k.Name {
	case "cpu":
		return strconv.Itoa(int(e.CPU))
	case "socket":
		return strconv.FormatInt(e.extra.socket, 10)
	case "symoff":
		width = len("[k] ") + hexWidth
	}
	return strings.TrimSpace(string(c.Append(nil, e, width)))
}

// DSO reports whether the column shows DSOs.
func (c Column) DSO() bool { return c.k.Name == "dso" }

// Value returns the text by which entries of different recordings are joined: as Append gives it, but for a function
// only the name, "" for one without a name.
func (c Column) Value(e *Entry) string {
	if c.k.Name != "symbol" {
		return string(c.Append(nil, e, c.Width(e)))
	}
	if sym := e.place.frame.Sym(); sym != nil {
		return sym.Name
	}
	return ""
}

// Kept returns the entries in the order of keys, in which perf keeps them.
func (h *Hist) Kept() []*Entry { return h.list }

// Index returns the index of the histogram's event in the recording.
func (h *Hist) Index() int { return h.event }

// Visible returns the entries that the options do not omit as too small, the largest first.
func (h *Hist) Visible() (shown []*Entry) {
	for _, e := range h.Entries {
		if h.visible(e.shown(h.opts)) {
			shown = append(shown, e)
		}
	}
	return shown
}

// Shown returns the figure of an entry of h that is compared with the total.
func (e *Entry) Shown(h *Hist) uint64 { return e.shown(h.opts) }

// DetachedEntry returns a copy of an entry that Columns of h show in the same way, and that keeps nothing of the
// session in memory.
func (h *Hist) DetachedEntry(e *Entry) *Entry {
	own := *e
	own.calls, own.group = nil, nil
	place := *e.place
	place.frame, place.inlined = e.place.frame.Detached(h.places.mapSize), nil
	own.place = &place
	own.Thread = e.Thread.Detached()
	if e.extra != nil {
		x := *e.extra
		for _, f := range []**session.Frame{&x.from, &x.to, &x.data} {
			if *f != nil {
				*f = (*f).Detached(h.places.mapSize)
			}
		}
		origin := *x.origin
		x.origin = &origin
		own.extra = &x
	}
	if h.layout.uses&usesRaw != 0 && e.raw != nil {
		own.text = h.trace(e)
	}
	return &own
}

// Detach drops the entries: the histogram's Columns show only results of DetachedEntry after that, and the session is
// not kept in memory.
func (h *Hist) Detach() {
	h.Entries, h.list, h.byKey, h.members = nil, nil, nil, nil
	traces := *h.traces
	traces.env.Symbol = nil // the texts are known
	h.traces = &traces
	h.places = newPlaces(h.opts, func(string) int32 { return 0 },
		func(f *session.Frame) uint64 { return f.Map.End - f.Map.Start })
}

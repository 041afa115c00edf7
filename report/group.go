package report

import (
	"strings"

	"gperf/format"
)

// maxGroup is the limit of events in one block. No PMU contains so many counters, but a
// damaged file may claim any number of events.
const maxGroup = 64

// eventGroups returns the members of each group of events by the index of the
// leader: runs of events, the leader first.
func eventGroups(f *format.File, opts *Options) map[int]format.Group {
	groups := map[int]format.Group{}
	for _, g := range f.Groups() {
		if g.Members > 1 && g.Members <= maxGroup {
			groups[int(g.Leader)] = g
		}
	}
	if len(groups) == 0 && opts.Groups != GroupsDefault && len(f.Attrs) > 1 && len(f.Attrs) <= maxGroup {
		groups[0] = format.Group{Members: uint32(len(f.Attrs))}
	}
	return groups
}

// title names a group's events. A group that only the reader makes has no
// braces.
func title(g format.Group, members []*Hist) string {
	var names []string
	for _, h := range members {
		if h.Total.Samples > 0 {
			names = append(names, h.Event)
		}
	}
	list := strings.Join(names, ", ")
	switch g.Name {
	case "":
		return list
	case "{anon_group}":
		return "anon group { " + list + " }"
	}
	return g.Name + " { " + list + " }"
}

// lead makes h, the first of members, show them all: it links each entry of h to
// the entries of the other members with the same keys, and gets an empty entry for keys that
// only the others have (hists__match and hists__link of tools/perf/util/hist.c).
func (h *Hist) lead(g format.Group, members []*Hist) {
	h.Event, h.members = title(g, members), members
	for _, e := range h.byKey {
		e.group = make([]*Entry, len(members))
		e.group[0] = e
	}
	list := h.list
	for i, m := range members[1:] {
		for _, e := range m.list {
			own := h.byKey[e.key]
			if own == nil {
				own = e.empty()
				own.group = make([]*Entry, len(members))
				own.group[0] = own
				h.byKey[e.key] = own
				list = append(list, own)
			}
			own.group[i+1] = e
		}
	}
	h.list = order(list, h.before)
}

// empty returns an entry like e without samples.
func (e *Entry) empty() *Entry {
	c := *e
	c.Self, c.Children, c.calls, c.depth = Stat{}, Stat{}, nil, 0
	return &c
}

// shownMembers returns the histograms whose figures h's columns show: perf omits
// events without samples.
func (h *Hist) shownMembers() int {
	n := 0
	for _, m := range h.members {
		if m.Total.Samples > 0 {
			n++
		}
	}
	return max(n, 1)
}

// sum returns the totals of the members.
func (h *Hist) sum() Stat {
	if h.members == nil {
		return h.Total
	}
	var all Stat
	for _, m := range h.members {
		all.add(&m.Total)
	}
	return all
}

// allSamples counts the samples of the members, including filtered ones.
func (h *Hist) allSamples() uint64 {
	n := h.all.Samples
	for _, m := range h.members[min(1, len(h.members)):] {
		n += m.all.Samples
	}
	return n
}

// appendFigures appends a figure of an entry, of every member in a group.
func (w *blockWriter) appendFigures(b []byte, e *Entry, k *SortKey, width int) []byte {
	if w.hist.members == nil {
		return k.figureOf(w.hist, b, e, width)
	}
	if k.user == 0 {
		width = k.min
	}
	for i, m := range w.hist.members {
		switch {
		case m.Total.Samples == 0:
		case e.group[i] == nil:
			b = k.figureOf(m, b, &Entry{}, width)
		default:
			b = k.figureOf(m, b, e.group[i], width)
		}
	}
	return b
}

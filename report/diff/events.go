package diff

import (
	"fmt"
	"slices"

	"gperf/format"
	"gperf/report"
)

// event is an event of a recording.
type event struct {
	name    string
	attr    format.Attr
	samples uint64
}

// same reports whether two events count the same, regardless of modifiers. The numbers of tracepoints differ between
// kernels, and the numbers of PMUs between machines.
func (e event) same(other event) bool {
	a, b := &e.attr, &other.attr
	return a.Type == b.Type && a.Config == b.Config && a.Type <= format.TypeRaw && a.Type != format.TypeTracepoint
}

// modes are the attr's flags by which modifiers restrict an event to a part of the samples.
const modes = format.FlagExcludeUser | format.FlagExcludeKernel | format.FlagExcludeHost | format.FlagExcludeGuest

// addTables adds the tables of a recording of the baseline, of events that no table is of.
func (c *Comparison) addTables(hists []*report.Hist, own []event) {
	known := slices.Clone(c.tables)
	for k, h := range hists {
		if !slices.ContainsFunc(known, func(t *table) bool { return t.of.name == own[k].name || t.of.same(own[k]) }) {
			c.tables = append(c.tables, newTable(&c.opts, h, own[k], c.sides))
		}
	}
}

// pair returns the index in own of the event of each table, -1 for none. An event of the same name comes first: perf
// takes the first one of the same number, and compares cycles:k with cycles:u if both recordings have both.
func (c *Comparison) pair(own []event) []int {
	pairs := slices.Repeat([]int{-1}, len(c.tables))
	named, used := make([]bool, len(own)), make([]bool, len(own))
	for _, fits := range [...]func(of event, k int) bool{
		func(of event, k int) bool { return of.name == own[k].name && !used[k] },
		func(of event, k int) bool { return of.name == own[k].name },
		func(of event, k int) bool { return of.same(own[k]) && !used[k] },
		func(of event, k int) bool { return of.same(own[k]) && !named[k] },
	} {
		for n, t := range c.tables {
			for k := 0; k < len(own) && pairs[n] < 0; k++ {
				if fits(t.of, k) {
					pairs[n], used[k], named[k] = k, true, t.of.name == own[k].name
				}
			}
		}
	}
	return pairs
}

// note records how the events of a recording differ from the tables' events.
func (c *Comparison) note(path string, own []event, pairs []int) {
	for n, k := range pairs {
		switch of := c.tables[n].of; {
		case k < 0 && of.samples > 0:
			c.notices = append(c.notices, fmt.Sprintf("%s has no event %s to compare", path, of.name))
		case k >= 0 && of.name != own[k].name && of.attr.Flags&modes != own[k].attr.Flags&modes:
			c.notices = append(c.notices, fmt.Sprintf("%s of %s is compared with %s of %s: their modifiers differ",
				of.name, c.sides[0][0], own[k].name, path))
		}
	}
	for k, e := range own {
		if !slices.Contains(pairs, k) && e.samples > 0 {
			c.notices = append(c.notices, fmt.Sprintf("%s of %s is left out: %s has no such event", e.name, path,
				c.sides[0][0]))
		}
	}
}

// Notices returns how the events of the recordings differ, in sentences.
func (c *Comparison) Notices() []string { return c.notices }

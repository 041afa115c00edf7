package export

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"gperf/internal/session"
	"gperf/report/table"
)

// Table returns the stacks with their sums, for flame graphs: of the baseline first. The weights are the sums of
// periods, or of an event without periods the numbers of samples.
func (c *StackSet) Table() *table.Table {
	l := table.Loader{NoInline: c.NoInline, MaxStack: c.MaxStack}
	if c.differs() {
		l.Shared = session.SharedPaths(slices.Concat(c.dsos.base, c.dsos.others),
			session.Renamed(c.dsos.base, c.dsos.others))
		l.AddStacks(table.Recording{Baseline: true, About: comments(c.bases)}, stacks(c, true))
	}
	l.AddStacks(table.Recording{About: comments(c.files), Last: uint64(c.lasted)}, stacks(c, false))
	return l.Table()
}

// stacks yields the stacks of the baseline, or of the other recordings, event by event.
func stacks(c *StackSet, base bool) iter.Seq[table.Stack] {
	of := make([]*tally, 0, len(c.tallies.List))
	for _, t := range c.tallies.List {
		if t.Of.base == base {
			of = append(of, t)
		}
	}
	slices.SortStableFunc(of, func(a, b *tally) int { return cmp.Compare(a.Of.event, b.Of.event) })
	return func(yield func(table.Stack) bool) {
		for _, t := range of {
			e, sum := &c.events[t.Of.event], table.Sum{Weight: t.Sum.period, Samples: t.Sum.samples}
			if e.total+e.base.total == 0 {
				sum.Weight = t.Sum.samples
			}
			stack := table.Stack{Event: table.Event{Name: e.name, Unit: e.unit, Kind: e.kind, Clock: e.clock},
				Comm: t.Of.comm, Group: t.Of.group, StackKey: t.StackKey, Sum: sum, Idle: t.Of.idle}
			if by := t.Of.waker; by != nil {
				stack.Waker = &table.Waker{Frame: c.wakers.of(by), StackKey: by.StackKey()}
			}
			if !yield(stack) {
				return
			}
		}
	}
}

// Title returns the command lines of the recordings, those of the baseline first.
func (c *StackSet) Title() string {
	var sides []string
	for _, files := range [][]facts{c.bases, c.files} {
		var lines []string
		for _, f := range files[:min(len(files), maxAbout)] {
			if f.cmdline != "" {
				lines = append(lines, f.cmdline)
			}
		}
		if len(lines) > 0 {
			sides = append(sides, strings.Join(slices.Compact(lines), " + "))
		}
	}
	return cmp.Or(strings.Join(slices.Compact(sides), " → "), "flame graph")
}

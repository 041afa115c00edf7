package export

import (
	"maps"

	"gperf/internal/session"
	"gperf/report/key"
)

// StackMerger adds up the StackSets of several recordings, one for each. Its memory is bounded by the distinct stacks
// of all recordings.
type StackMerger struct {
	set    *StackSet
	pool   *session.Pool
	groups map[string]*key.Group // by ID
}

// NewStackMerger returns a Merger that adds to c, which is empty.
func NewStackMerger(c *StackSet) *StackMerger {
	c.init()
	pool := session.NewPool(session.PoolOptions{Lines: true, Starts: true})
	return &StackMerger{set: c, pool: pool, groups: map[string]*key.Group{}}
}

// Part returns a Set for one recording.
func (m *StackMerger) Part() *StackSet {
	c := m.set
	return &StackSet{Processes: c.Processes, Threads: c.Threads, CPUs: c.CPUs, MaxStack: c.MaxStack, Weight: c.Weight,
		NoInline: c.NoInline, By: c.By, Quantum: c.Quantum, Fields: c.Fields, Idle: c.Idle, Keep: c.Keep}
}

// Merge adds a part. It uses the session of the part's recording for the last time.
func (m *StackMerger) Merge(part *StackSet) {
	m.set.bases, m.set.files = append(m.set.bases, part.bases...), append(m.set.files, part.files...)
	m.pool.Begin(allFrames(part))
	events := m.set.indexes(part.events)
	for i := range part.events {
		m.set.events[events[i]].addTotals(&part.events[i])
	}
	for _, t := range part.tallies.List {
		m.add(t, events)
	}
	m.set.dsos.base = append(m.set.dsos.base, part.dsos.base...)
	if m.set.differs() {
		m.set.dsos.others = append(m.set.dsos.others, part.dsos.others...)
	}
	for event, groups := range part.fieldGroups {
		if m.set.fieldGroups[events[event]] == nil {
			m.set.fieldGroups[events[event]] = map[string]bool{}
		}
		maps.Copy(m.set.fieldGroups[events[event]], groups)
	}
	for event, n := range part.unlabeled {
		m.set.unlabeled[events[event]] += n
	}
	m.set.extend(part.began, part.lasted)
}

// addTotals adds the samples of another recording's event.
func (e *stackEvent) addTotals(of *stackEvent) {
	e.samples += of.samples
	e.total += of.total
	e.weight += of.weight
	e.base.samples += of.base.samples
	e.base.total += of.base.total
	e.base.weight += of.base.weight
}

func (m *StackMerger) add(t *tally, events []int32) {
	of := *t.Of
	of.number = 0
	of.event, of.group, of.fields = events[of.event], m.group(of.group), m.group(of.fields)
	if known := m.set.fieldGroups[of.event]; of.fields != &noFields && len(known) >= maxGroups && !known[of.fields.ID] {
		m.set.unlabeled[of.event] += t.Sum.samples
		of.fields = &noFields
	}
	if of.waker != nil {
		of.waker = wakerOf(m.set.wakerKeys, m.pool.Waker(of.waker))
	}
	m.set.tallyOf(of, m.pool.Stack(t.StackKey)).Sum.add(t.Sum)
}

// group returns the same pointer for equal groups.
func (m *StackMerger) group(g *key.Group) *key.Group {
	if len(g.Values) == 0 {
		return &noFields
	}
	known := m.groups[g.ID]
	if known == nil {
		known = key.GroupOf(g.Values, len(m.groups)+1)
		m.groups[g.ID] = known
	}
	return known
}

// Package export writes the samples of recordings for other tools: as folded stacks, profiles of pprof and
// OpenTelemetry, and flame graphs, which count samples by event, thread and stack; as rows for databases, in Parquet
// files or for ClickHouse; and in the order of time, for jq and pandas (JSON), Speedscope, Firefox Profiler and
// Perfetto.
package export

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"gperf/format"
	"gperf/internal/session"
	"gperf/report/key"
	"gperf/report/table"
)

// ErrNoSamples: the recordings contain no samples.
var ErrNoSamples = errors.New("no samples")

// StackSet counts samples by event, thread and stack, of one recording or of
// several. Folded, Pprof and SVG write the result, and Table returns it. Memory is
// bounded by the distinct stacks.
type StackSet struct {
	// Processes, Threads and CPUs distinguish stacks that differ in nothing else;
	// commands always do.
	Processes, Threads, CPUs bool
	// MaxStack is how many frames of a callchain count.
	MaxStack int
	// Weight is the field of tracepoints that session.Weight made the periods from; "" for
	// none.
	Weight string
	// NoInline omits inlined functions.
	NoInline bool
	// By is keys of package key that distinguish stacks. Folded, SVG and Table show them as the
	// callers of all functions, Pprof as labels.
	By []string
	// Quantum is the interval of the key time in ns, 0 for key.UsualQuantum.
	Quantum uint64
	// Fields makes the fields of tracepoints with few values distinguish stacks, besides By: labels of
	// Pprof.
	Fields bool
	// Idle distinguishes samples of CPUs and threads without work, which the page of Table hides until the user asks
	// for them.
	Idle bool
	// Keep selects samples by data that the session resolved, such as the frames; nil selects all.
	Keep func(*session.Sample) bool

	events   []stackEvent
	tallies  table.Tallies[subject, stackSum]
	subjects subjects // of tallies

	wakerKeys map[wakerKey]*session.Waker
	bases     []facts // about the recordings of the baseline
	files     []facts // about all others
	dsos      struct{ base, others []*session.DSO }
	wakers    wakerFrames
	period

	fieldGroups map[int32]map[string]bool // by event: the groups of Fields
	unlabeled   map[int32]uint64          // by event: samples without labels, as there are maxGroups
}

// maxGroups limits the combinations of fields' values of an event in a profile. Samples
// with others get no labels of Fields.
const maxGroups = 10_000

// stackEvent is an event. Events of several recordings are one if
// they share a name.
type stackEvent struct {
	name       string
	typ        format.EventType
	config     uint64
	tracepoint bool
	clock      bool   // the periods are CPU time
	waker      bool   // the stacks are also part of the waits' stacks
	field      string // Set.Weight
	unit       string // of the periods
	kind       table.Kind
	period     uint64 // as requested, 0 if the kernel chose it
	samples    uint64
	total      uint64      // of the periods
	base       eventTotals // of the baseline
	weight     uint64      // see Folded
}

// eventTotals are the sums of the samples of an event.
type eventTotals struct{ samples, total, weight uint64 }

// counted reports whether each sample counts as one in folded stacks, regardless of the period.
func (e *stackEvent) counted() bool { return e.tracepoint && e.field == "" && e.unit == "count" }

// subject is the values of samples that distinguish stacks, besides the callchain. Numbers that do not distinguish
// stacks are -1.
type subject struct {
	event         int32
	pid, tid, cpu int32
	base, idle    bool // of the baseline; see session.Session.Idle
	chained       bool // recorded with a callchain, which may be empty
	comm          string
	group, fields *key.Group     // of Set.By, of Set.Fields
	waker         *session.Waker // one of the equal ones, nil for most
	number        uint32         // in StackSet.subjects
}

// subjects hold each subject once, by its values without the number.
type subjects map[subject]*subject

func (l subjects) same(s subject) *subject {
	is := l[s]
	if is == nil {
		own := s
		own.number, is = uint32(len(l)), &own
		l[s] = is
	}
	return is
}

// wakerKey distinguishes wakers.
type wakerKey struct {
	text string
	session.StackKey
}

// tally is the samples of one stack.
type tally = table.Tally[subject, stackSum]

// stackSum is a sum of samples.
type stackSum struct {
	samples     uint64
	zeroPeriods uint64 // samples with period 0
	period      uint64 // all of theirs
}

// add adds a sum.
func (s *stackSum) add(of stackSum) {
	s.samples += of.samples
	s.zeroPeriods += of.zeroPeriods
	s.period += of.period
}

// Add counts the samples of a recording. The result counts the skipped parts of the
// file.
func (c *StackSet) Add(s *session.Session) (format.Skipped, error) { return c.add(s, false) }

// AddBaseline counts the samples of a recording with which the others are compared: Folded,
// Pprof and SVG then write differences. They scale each event of the baseline to the
// total of the others.
func (c *StackSet) AddBaseline(s *session.Session) (format.Skipped, error) { return c.add(s, true) }

// differs reports whether there is a baseline.
func (c *StackSet) differs() bool { return len(c.bases) > 0 }

func (c *StackSet) add(s *session.Session, base bool) (format.Skipped, error) {
	c.init()
	if base {
		c.bases = append(c.bases, factsOf(s.File))
	} else {
		c.files = append(c.files, factsOf(s.File))
	}
	in := stacksInput{set: c, session: s, base: base, first: math.MaxUint64}
	var own []stackEvent
	for i := range s.File.Attrs {
		own = append(own, in.event(i))
	}
	in.events = c.indexes(own)
	if err := in.readKeys(); err != nil {
		return format.Skipped{}, err
	}
	skipped, err := s.Walk(session.WalkOptions{Names: true, KeepChains: true}, in.count)
	if base {
		c.dsos.base = append(c.dsos.base, s.DSOs()...)
	} else {
		c.dsos.others = append(c.dsos.others, s.DSOs()...)
	}
	in.addTime()
	return skipped, err
}

func (c *StackSet) init() {
	if c.wakers == nil {
		c.wakers, c.subjects = wakerFrames{}, subjects{}
		c.wakerKeys = map[wakerKey]*session.Waker{}
		c.fieldGroups, c.unlabeled = map[int32]map[string]bool{}, map[int32]uint64{}
	}
}

// indexes returns the indexes in Set.events of a recording's events. It adds the missing ones without samples. With a
// baseline, an event of another name may be the same, unless it is another event of this recording.
func (c *StackSet) indexes(own []stackEvent) []int32 {
	list, known := make([]int32, len(own)), len(c.events)
	for i := range own {
		list[i] = findEvent(c.events, func(_ int32, e *stackEvent) bool { return e.name == own[i].name })
	}
	for i := range own {
		if list[i] < 0 && c.differs() && own[i].generic() {
			list[i] = findEvent(c.events, func(j int32, e *stackEvent) bool {
				return int(j) < known && e.typ == own[i].typ && e.config == own[i].config && !slices.Contains(list, j)
			})
		}
		if list[i] < 0 { // two events of the recording may have one name
			list[i] = findEvent(c.events, func(_ int32, e *stackEvent) bool { return e.name == own[i].name })
		}
		if list[i] < 0 {
			added := own[i]
			added.samples, added.total, added.weight, added.base = 0, 0, 0, eventTotals{}
			c.events = append(c.events, added)
			list[i] = int32(len(c.events) - 1)
		}
	}
	return list
}

// findEvent returns the index of the first event that matches, -1 for none.
func findEvent(events []stackEvent, match func(int32, *stackEvent) bool) int32 {
	for j := range events {
		if match(int32(j), &events[j]) {
			return int32(j)
		}
	}
	return -1
}

// generic reports whether the event's number is the same on all machines. With a baseline,
// such events of two recordings are one regardless of modifiers.
func (e *stackEvent) generic() bool { return e.typ <= format.TypeHWCache && !e.tracepoint }

// stacksInput is one recording while it is counted.
type stacksInput struct {
	set         *StackSet
	session     *session.Session
	base        bool
	events      []int32 // in Set.events, of those in File.Attrs
	first, last uint64  // times of samples
	by, fields  *key.Keys
	recent      [recentTallies]recentTally // by numbers of the chain's parts: most samples use a recent key
}

// recentTallies is a power of two.
const recentTallies = 512

type recentTally struct {
	of    subject // without number
	tally *tally  // nil: none is known
}

// event returns event i of the file.
func (in *stacksInput) event(i int) stackEvent {
	f, weight := in.session.File, in.set.Weight
	name, a := f.EventName(i), &f.Attrs[i]
	e := stackEvent{name: name, field: weight, typ: a.Type, config: a.Config,
		tracepoint: a.Type == format.TypeTracepoint, waker: session.IsWaker(a),
		clock: a.IsClock() && weight == "", unit: session.EventUnit(f, i, weight), kind: table.KindOf(f, i)}
	if a.Flags&format.FlagFreq == 0 {
		e.period = a.SamplePeriod
	}
	return e
}

// readKeys finds the keys of the set in the recording.
func (in *stacksInput) readKeys() (err error) {
	f, symbols := in.session.File, in.session.Symbols
	if in.by, err = key.New(f, symbols, key.Options{Words: in.set.By, Quantum: in.set.Quantum,
		Origin: in.session.Origin}); err == nil && in.set.Fields {
		in.fields, err = key.New(f, symbols, key.Options{Few: true})
	}
	return err
}

func (in *stacksInput) count(b *session.Batch) error {
	if in.set.Keep != nil {
		b.Keep(in.set.Keep)
	}
	for i := range b.Samples {
		s := &b.Samples[i]
		in.first, in.last = min(in.first, s.Time), max(in.last, s.Time)
		t, sum := in.tally(s), stackSum{samples: 1, period: s.Period}
		if s.Period == 0 {
			sum.zeroPeriods = 1
		}
		t.Sum.add(sum)
		in.set.events[t.Of.event].add(t.Of.base, s.Period)
	}
	b.Release()
	return nil
}

// add counts a sample.
func (e *stackEvent) add(base bool, period uint64) {
	weight := max(period, 1)
	switch {
	case e.field != "":
		weight = period
	case e.counted():
		weight = 1
	}
	if base {
		e.base.samples++
		e.base.total += period
		e.base.weight += weight
		return
	}
	e.samples++
	e.total += period
	e.weight += weight
}

// scaled returns a part of the baseline if all of it were as much as all of the others.
func scaled(part, all, others uint64) uint64 {
	if all == 0 {
		return 0
	}
	return uint64(math.Round(float64(part) * float64(others) / float64(all)))
}

// tally returns the tally of the sample's stack.
func (in *stacksInput) tally(s *session.Sample) *tally {
	a := &in.session.File.Attrs[s.Event]
	k, stack := subject{event: in.events[s.Event], pid: -1, tid: -1, cpu: -1, base: in.base, comm: s.Comm,
		chained: a.SampleType&format.SampleCallchain != 0}, s.StackKey()
	if in.set.Idle {
		k.idle = in.session.Idle(s)
	}
	if in.set.Processes {
		k.pid = s.PID
	}
	if in.set.Threads {
		k.tid = s.TID
	}
	if in.set.CPUs && a.SampleType&format.SampleCPU != 0 {
		k.cpu = int32(s.CPU)
	}
	if s.Waker != nil {
		k.waker = wakerOf(in.set.wakerKeys, s.Waker)
	}
	k.group, k.fields = in.by.Of(s), &noFields
	if in.set.Fields {
		k.fields = in.fields.Of(s)
	}
	chain := stack.Chain.Number()
	recent := &in.recent[(chain^chain>>28)&(recentTallies-1)]
	if recent.tally != nil && recent.tally.StackKey == stack && recent.of == k {
		return recent.tally
	}
	fields := in.limited(k.fields, k.event)
	if fields != k.fields { // each one is counted
		k.fields = fields
		return in.set.tallyOf(k, stack)
	}
	recent.of, recent.tally = k, in.set.tallyOf(k, stack)
	return recent.tally
}

// tallyOf returns the tally of a stack.
func (c *StackSet) tallyOf(k subject, stack session.StackKey) *tally {
	of := c.subjects.same(k)
	t, _ := c.tallies.At(of, of.number, stack)
	return t
}

// wakerOf returns the same pointer for equal wakers.
func wakerOf(known map[wakerKey]*session.Waker, w *session.Waker) *session.Waker {
	k := wakerKey{w.Text(), w.StackKey()}
	same := known[k]
	if same == nil {
		same = w
		known[k] = same
	}
	return same
}

var noFields key.Group

// limited returns the group of a sample's fields, or an empty one if the event reached maxGroups.
func (in *stacksInput) limited(g *key.Group, event int32) *key.Group {
	known := in.set.fieldGroups[event]
	switch {
	case g == &noFields, known[g.ID]:
	case len(known) >= maxGroups:
		in.set.unlabeled[event]++
		return &noFields
	case known == nil:
		in.set.fieldGroups[event] = map[string]bool{g.ID: true}
	default:
		known[g.ID] = true
	}
	return g
}

// Unlabeled returns the number of samples without labels of Fields, by the names of events.
func (c *StackSet) Unlabeled() map[string]uint64 {
	samples := map[string]uint64{}
	for event, n := range c.unlabeled {
		samples[c.events[event].name] = n
	}
	return samples
}

// addTime adds the recording's times to the times of the other recordings. It uses the file's
// CLOCK_DATA to convert them to wall-clock time; without it, it assumes that the
// recording ended when the file was written.
func (in *stacksInput) addTime() {
	if in.first > in.last {
		return
	}
	lasted := time.Duration(in.last - in.first)
	began := in.session.Written
	if clock, ok := in.session.File.ClockData(); ok {
		began = time.Unix(0, int64(clock.Offset()+in.first))
	} else if !began.IsZero() {
		began = began.Add(-lasted)
	}
	in.set.extend(began, lasted)
}

// period is when recordings were made.
type period struct {
	began  time.Time     // the earliest start, zero if unknown
	lasted time.Duration // all of them together
}

// extend adds a recording, whose start is zero if it is unknown.
func (p *period) extend(began time.Time, lasted time.Duration) {
	p.lasted += lasted
	if !began.IsZero() && (p.began.IsZero() || began.Before(p.began)) {
		p.began = began
	}
}

// Types returns the sample types of Pprof.
func (c *StackSet) Types() []*profile.ValueType { return SampleTypes(c.measures()) }

// measures returns the measures of the events with samples.
func (c *StackSet) measures() (l []Measure) {
	for i := range c.events {
		if e := &c.events[i]; e.samples+e.base.samples > 0 {
			l = append(l, Measure{e.name, e.unit, e.clock})
		}
	}
	return l
}

// Times returns when the recordings began, zero if unknown, and when they ended if they followed each other.
func (c *StackSet) Times() (from, until time.Time) { return c.began, c.began.Add(c.lasted) }

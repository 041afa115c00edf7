// Package stacks counts samples by their event, thread and stack, and writes the result
// for other tools: folded stacks, pprof's profiles, flame graphs.
package stacks

import (
	"errors"
	"math"
	"time"

	"gperf/format"
	"gperf/internal/session"
)

// ErrNoSamples: the recordings have no samples.
var ErrNoSamples = errors.New("no samples")

// Set counts samples by their event, thread and stack, of one recording or of
// several. Folded, Pprof and FlameGraph write the result. Its memory is
// bounded by the distinct stacks.
type Set struct {
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

	events  []stackEvent
	tallies []tally // in the order of their first samples
	byKey   map[tallyKey]int32
	differs bool           // a baseline was added
	files   []*format.File // that were added
	began   time.Time      // the earliest start of the recordings, zero if unknown
	lasted  time.Duration  // all of them together
}

// stackEvent is an event. Events of several recordings are one if
// they have the same name.
type stackEvent struct {
	name       string
	typ        format.EventType
	config     uint64
	tracepoint bool
	nanosecs   bool   // its periods are times
	field      string // Set.Weight
	period     uint64 // as requested, 0 if the kernel chose it
	samples    uint64
	total      uint64                                  // of the periods
	base       struct{ samples, total, weight uint64 } // of the baseline; weight is that of Folded
	weight     uint64
}

// unit returns the unit of its periods.
func (e *stackEvent) unit() string {
	switch {
	case e.field != "":
		return session.Unit(e.field)
	case e.nanosecs:
		return "nanoseconds"
	}
	return "count"
}

// tallyKey distinguishes stacks. Equal ones may have several keys, as their
// callchains may.
type tallyKey struct {
	event         int32
	pid, tid, cpu int32
	base          bool
	comm          string
	chained       bool
	leaf          *session.Frame // nil if there is a callchain
	chain         session.ChainKey
}

// tally is the sum of the samples of one stack. Fields that do not distinguish
// stacks are -1.
type tally struct {
	event         int32
	pid, tid, cpu int32
	base          bool // of the baseline
	comm          string
	chained       bool // recorded with a callchain, which may be empty
	chain         session.Chain
	leaf          *session.Frame // where chain is empty
	samples       uint64
	zeroPeriods   uint64 // samples with period 0
	period        uint64 // all of theirs
}

// Add counts the samples of a recording. The result counts the skipped parts of its
// file.
func (c *Set) Add(s *session.Session) (format.Skipped, error) { return c.add(s, false) }

// AddBaseline counts the samples of a recording with which the others are compared: Folded,
// Pprof and FlameGraph then write differences. They scale each event of the baseline to the
// total of the others.
func (c *Set) AddBaseline(s *session.Session) (format.Skipped, error) {
	c.differs = true
	return c.add(s, true)
}

func (c *Set) add(s *session.Session, base bool) (format.Skipped, error) {
	if c.byKey == nil {
		c.byKey = map[tallyKey]int32{}
	}
	in := stacksInput{Set: c, session: s, base: base, first: math.MaxUint64}
	for i := range s.File.Attrs {
		in.events = append(in.events, c.event(s.File, i))
	}
	skipped, err := s.Walk(session.WalkOptions{Names: true, KeepChains: true}, in.count)
	c.files = append(c.files, s.File)
	in.addTime()
	return skipped, err
}

// event returns the index in Set.events of event i of the file.
func (c *Set) event(f *format.File, i int) int32 {
	name, a := f.EventName(i), &f.Attrs[i]
	e := stackEvent{name: name, field: c.Weight, typ: a.Type, config: a.Config,
		tracepoint: a.Type == format.TypeTracepoint,
		nanosecs:   a.Type == format.TypeSoftware && (a.Config == format.SWCPUClock || a.Config == format.SWTaskClock)}
	for _, same := range []func(*stackEvent) bool{
		func(old *stackEvent) bool { return old.name == name },
		func(old *stackEvent) bool {
			return c.differs && e.generic() && old.typ == e.typ && old.config == e.config
		},
	} {
		for j := range c.events {
			if same(&c.events[j]) {
				return int32(j)
			}
		}
	}
	if a.Flags&format.FlagFreq == 0 {
		e.period = a.SamplePeriod
	}
	c.events = append(c.events, e)
	return int32(len(c.events) - 1)
}

// generic reports whether the event has the same number on all machines. With a baseline,
// such events are one whatever their modifiers are.
func (e *stackEvent) generic() bool { return e.typ <= format.TypeHWCache && !e.tracepoint }

// stacksInput is one recording while it is counted.
type stacksInput struct {
	*Set
	session     *session.Session
	base        bool
	events      []int32 // in Set.events, of those in File.Attrs
	first, last uint64  // times of samples
}

func (in *stacksInput) count(b *session.Batch) error {
	for i := range b.Samples {
		s := &b.Samples[i]
		in.first, in.last = min(in.first, s.Time), max(in.last, s.Time)
		t := in.tally(s)
		t.samples++
		t.period += s.Period
		if s.Period == 0 {
			t.zeroPeriods++
		}
		in.Set.events[t.event].add(t.base, s.Period)
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
	case e.tracepoint:
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
	k := tallyKey{event: in.events[s.Event], pid: -1, tid: -1, cpu: -1, base: in.base, comm: s.Comm,
		chained: a.SampleType&format.SampleCallchain != 0, chain: s.Chain.Key()}
	if in.Processes {
		k.pid = s.PID
	}
	if in.Threads {
		k.tid = s.TID
	}
	if in.CPUs && a.SampleType&format.SampleCPU != 0 {
		k.cpu = int32(s.CPU)
	}
	if s.Chain.Len() == 0 {
		k.leaf = s.Leaf
	}
	i, ok := in.byKey[k]
	if !ok {
		i = int32(len(in.tallies))
		in.byKey[k] = i
		in.tallies = append(in.tallies, tally{event: k.event, pid: k.pid, tid: k.tid, cpu: k.cpu, base: k.base,
			comm: s.Comm, chained: k.chained, chain: s.Chain, leaf: k.leaf})
	}
	return &in.tallies[i]
}

// addTime adds the recording's times to those of the others. It uses the file's
// CLOCK_DATA to convert them to wall-clock time; without it, it assumes that the
// recording ended when the file was written.
func (in *stacksInput) addTime() {
	if in.first > in.last {
		return
	}
	lasted := time.Duration(in.last - in.first)
	in.lasted += lasted
	began := in.session.Written
	if clock, ok := in.session.File.ClockData(); ok {
		began = time.Unix(0, int64(clock.TimeOfDay+in.first-clock.ClockTime))
	} else if !began.IsZero() {
		began = began.Add(-lasted)
	}
	if in.began.IsZero() || began.Before(in.began) {
		in.began = began
	}
}

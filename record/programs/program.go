package programs

import (
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/perfevent"
	"gperf/record/stacks"
)

// Program is BPF programs that record events of a kind: Walk, Sampler, OffCPU, Counter.
type Program interface {
	// Attach directs the programs' output to the rings of mergers.
	Attach(mergers []*stacks.Merger) error
	// Enable starts or stops them: those at tracepoints and probes run whether or not a counter is enabled.
	Enable(on bool) error
	// Reopen opens the output of a CPU again that is online again. group is the number of events.
	Reopen(n *stacks.Merger, group int) error
	// Snapshot reads the programs' counts: the next call of Late adds samples of the new ones.
	Snapshot() error
	// Finish reads the events that are unfinished at the recording's end: the next call of Late adds samples of
	// them. The programs must be disabled, and the programs' output must be read before.
	Finish() error
	// Late adds the samples that do not come from one ring to the merged records.
	Late(j *stacks.Merged)
	// NewFile prepares for another file of the recording.
	NewFile()
	// Counters returns the counters that they write samples to.
	Counters() []perfevent.Counter
	// Tracepoints returns the programs' own counters of tracepoints: by config the counters of recorded events,
	// and others.
	Tracepoints() (own map[uint64]int, others []int)
	// Summary adds the numbers of events that the programs could not record.
	Summary(sum *Summary) error
	// Stats returns the programs' runs, which bpf_stats_enabled counts.
	Stats() bpf.Stats
	// Close frees the programs and closes the programs' counters.
	Close()
}

// Summary counts events without a sample, or without a complete stack.
type Summary struct {
	// Unwind counts how the walks of user stacks ended, nil if stacks were not walked.
	Unwind *stacks.Summary
	// Missed counts samples that BPF programs could not make because another program was running.
	Missed uint64
	// MissedHits counts by event the hits of kprobes and kretprobes, in all processes, that the kernel missed; nil if
	// none.
	MissedHits map[string]uint64
	// Spans counts the spans without a sample.
	Spans bpf.SpanStats
	// Uncounted is the number of events that were not counted, because there were too many stacks.
	Uncounted uint64
	// UnrecordedWaits counts waits without a sample, because too many threads waited at once.
	UnrecordedWaits uint64
}

// AddMissedHits adds the hits of an event that the kernel missed.
func (s *Summary) AddMissedHits(event string, n uint64) {
	if s.MissedHits == nil {
		s.MissedHits = map[string]uint64{}
	}
	s.MissedHits[event] += n
}

// defaults implements the methods of Program that a kind of programs does not need.
type defaults struct{}

func (defaults) Snapshot() error                      { return nil }
func (defaults) Finish() error                        { return nil }
func (defaults) Late(*stacks.Merged)                  {}
func (defaults) NewFile()                             {}
func (defaults) Counters() []perfevent.Counter        { return nil }
func (defaults) Tracepoints() (map[uint64]int, []int) { return nil, nil }
func (defaults) Stats() bpf.Stats                     { return bpf.Stats{} }

// reopen replaces the counter of a ring's CPU by the one that open returns. like is the attr of the counters, group the
// number of events.
func reopen(counters []perfevent.Counter, n *stacks.Merger, like *format.Attr, group int,
	open func(*stacks.Merger) (perfevent.Counter, error)) error {
	for i := range counters {
		removed := &counters[i]
		if removed.CPU != n.Ring.CPU {
			continue
		}
		fresh, err := open(n)
		if err != nil {
			return err
		}
		fresh.Replace(removed, like, group)
		unix.Close(removed.FD)
		*removed = fresh
	}
	return nil
}

// Walk is the programs that walk the user stacks of events with counters.
type Walk struct {
	defaults
	*stacks.Recorder
	// For Attach.
	Attrs    []format.Attr // of the events, with ids
	BuildIDs bool          // side-band records contain build IDs
	Wake     func()        // wakes the recorder; called on other goroutines
}

// Attach implements Program.
func (w *Walk) Attach(mergers []*stacks.Merger) error {
	return w.Recorder.Attach(mergers, w.Attrs, w.BuildIDs, w.Wake)
}

// Reopen implements Program.
func (w *Walk) Reopen(n *stacks.Merger, _ int) error { return w.OpenOutput(n) }

// NewFile implements Program.
func (w *Walk) NewFile() { w.Recorder.NewFile() }

// Tracepoints implements Program.
func (w *Walk) Tracepoints() (own map[uint64]int, others []int) { return w.Recorder.Tracepoints(), nil }

// Summary implements Program.
func (w *Walk) Summary(sum *Summary) error {
	sum.Unwind = w.Recorder.Summary()
	return nil
}

// All are the programs of a recording: those that walk stacks first, because others use their data.
type All []Program

// Attach attaches the programs.
func (l All) Attach(mergers []*stacks.Merger) error {
	return l.each(func(p Program) error { return p.Attach(mergers) })
}

// Enable starts or stops the programs. In a recording of threads, programs that make samples also need an enabled
// counter.
func (l All) Enable(on bool) error { return l.each(func(p Program) error { return p.Enable(on) }) }

// Reopen opens the events of a ring's CPU again. group is the number of events.
func (l All) Reopen(n *stacks.Merger, group int) error {
	return l.each(func(p Program) error { return p.Reopen(n, group) })
}

// Snapshot takes the counts since the last time: the next drain has them.
func (l All) Snapshot() error { return l.each(Program.Snapshot) }

// Finish takes the samples that programs have kept until the end: the next drain has them.
func (l All) Finish() error {
	if err := l.each(Program.Finish); err != nil {
		return err
	}
	return l.Snapshot()
}

// each calls a method of all programs, until one fails.
func (l All) each(call func(Program) error) error {
	for _, p := range l {
		if err := call(p); err != nil {
			return err
		}
	}
	return nil
}

// Late adds the samples that do not come from one ring.
func (l All) Late(j *stacks.Merged) {
	for _, p := range l {
		p.Late(j)
	}
}

// NewFile prepares for another file of the recording.
func (l All) NewFile() {
	for _, p := range l {
		p.NewFile()
	}
}

// Counters returns the counters that programs write samples to.
func (l All) Counters() (list [][]perfevent.Counter) {
	for _, p := range l {
		list = append(list, p.Counters())
	}
	return list
}

// Tracepoints returns the programs' own counters of tracepoints: by config those of the recorded events, and others.
func (l All) Tracepoints() (own map[uint64]int, others []int) {
	own = map[uint64]int{}
	for _, p := range l {
		events, more := p.Tracepoints()
		maps.Copy(own, events)
		others = append(others, more...)
	}
	return own, others
}

// Close frees the programs: those that walk stacks last.
func (l All) Close() {
	for _, p := range slices.Backward(l) {
		p.Close()
	}
}

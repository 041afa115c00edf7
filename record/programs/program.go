package programs

import (
	"gperf/bpf"
	"gperf/format"
	"gperf/record/perfevent"
	"gperf/record/stacks"
)

// Program is BPF programs that record events of a kind: Walk, Sampler, OffCPU, Counter.
type Program interface {
	// Attach directs their output to the rings of mergers.
	Attach(mergers []*stacks.Merger) error
	// Enable starts or stops them: those at tracepoints and probes run whether or not a counter is enabled.
	Enable(on bool) error
	// Reopen opens the output of a CPU again that is online again. group is the number of events.
	Reopen(n *stacks.Merger, group int) error
	// Snapshot reads what they have counted: the next call of Late adds the samples of what is new.
	Snapshot() error
	// Finish reads what has not ended at the recording's end: the next call of Late adds its samples. The programs must
	// be disabled, and their output read.
	Finish() error
	// Late adds the samples that do not come from one ring to the merged records.
	Late(j *stacks.Merged)
	// NewFile prepares for another file of the recording.
	NewFile()
	// Counters returns the counters that they write samples to.
	Counters() []perfevent.Counter
	// Tracepoints returns their own counters of tracepoints: by config those of recorded events, and others.
	Tracepoints() (own map[uint64]int, others []int)
	// Summary adds what they could not record.
	Summary(sum *Summary) error
	// Stats returns their runs, which bpf_stats_enabled counts.
	Stats() bpf.Stats
	// Close frees them and closes their counters.
	Close()
}

// Summary counts what has no sample, or no complete stack.
type Summary struct {
	// Unwind counts how the walks of user stacks ended, nil if stacks were not walked.
	Unwind *stacks.Summary
	// Missed counts samples that BPF programs could not make because another program was running.
	Missed uint64
	// Spans counts the spans without a sample.
	Spans bpf.SpanStats
	// Uncounted is the number of events that were not counted, because there were too many stacks.
	Uncounted uint64
	// UnrecordedWaits counts waits without a sample, because too many threads waited at once.
	UnrecordedWaits uint64
}

// no is what a kind of programs does not do.
type no struct{}

func (no) Snapshot() error                      { return nil }
func (no) Finish() error                        { return nil }
func (no) Late(*stacks.Merged)                  {}
func (no) NewFile()                             {}
func (no) Counters() []perfevent.Counter        { return nil }
func (no) Tracepoints() (map[uint64]int, []int) { return nil, nil }
func (no) Summary(*Summary) error               { return nil }
func (no) Stats() bpf.Stats                     { return bpf.Stats{} }
func (no) Reopen(*stacks.Merger, int) error     { return nil }

// Walk is the programs that walk the user stacks of events that have counters.
type Walk struct {
	no
	*stacks.Recorder
	// For Attach.
	Attrs    []format.Attr // of the events, with ids
	BuildIDs bool          // side-band records have build IDs
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

package record

import (
	"os"

	"gperf/format"
	"gperf/record/perfevent"
)

// Summary describes a finished recording.
type Summary struct {
	Path    string // Options.Output
	Bytes   int64  // of the file, or all of them
	Wakeups uint64 // how often a ring woke the recorder, for the last file
	Samples uint64 // in the file, or all of them
	// Full is the number of bytes written when Options.MaxSize was reached; 0: it was not.
	Full int64
	// Dumped is the name of the last file, if names include times.
	Dumped string
	// Original is the number of bytes before compression, and Compressed after it; 0 without
	// compression.
	Original, Compressed int64
	// Lost counts the samples that did not fit into a ring. If an event writes both samples
	// and side band, it includes the event's lost side band.
	Lost uint64
	// LostSideBand counts lost mmap, comm and other side-band records.
	LostSideBand uint64
	// LostRecords is the minimum number of lost records of all kinds, if the kernel (before
	// Linux 6.0) does not count per event. A sample whose user stack is walked in the kernel
	// is two records.
	LostRecords uint64
	// Missed counts samples that BPF programs could not make because another program was
	// running.
	Missed uint64
	Pages  int // of each ring
	// Unwind counts how the walks of user stacks ended, nil if stacks were not walked.
	Unwind *UnwindSummary
	// Closing is the number of tracepoints that the kernel still has to close when Run has
	// returned: a separate process waits for that.
	Closing int
	// Command is the exit state of the command, nil without one.
	Command *os.ProcessState
}

// lostRecords reads the losses from the counters, appends a LOST_SAMPLES record for each
// counter with losses since the last call, as perf does, and counts them. Before Linux 6.0
// counters do not count losses: then the LOST records that the kernel put into the rings
// count. If counters count them, LOST records repeat the same losses, but only those that
// were followed by another record.
func (r *recorder) lostRecords(b []byte) (_ []byte, err error) {
	r.sum.Lost, r.sum.LostSideBand = 0, 0
	for i := range r.set.Counters {
		c := &r.set.Counters[i]
		if r.set.Attrs[c.Event].ReadFormat&format.ReadLost == 0 {
			r.sum.LostRecords = r.tally.Lost
			return b, nil
		}
		if b, err = r.lostOf(b, c); err != nil {
			return b, err
		}
	}
	if r.emit == nil {
		return b, nil
	}
	for i := range r.emit.counters {
		if b, err = r.lostOf(b, &r.emit.counters[i]); err != nil {
			return b, err
		}
	}
	return b, nil
}

// lostOf appends the losses of one counter since the last call.
func (r *recorder) lostOf(b []byte, c *perfevent.Counter) ([]byte, error) {
	n, err := r.set.Lost(c)
	if err != nil {
		return b, err
	}
	if r.set.Events[c.Event].IsDummy() {
		r.sum.LostSideBand += n
	} else {
		r.sum.Lost += n
	}
	if n == c.Reported {
		return b, nil
	}
	l := format.LostSamples{Lost: n - c.Reported, ID: format.RecordID{ID: c.ID, CPU: uint32(c.CPU)}}
	c.Reported = n
	return l.AppendTo(b, r.set.Attrs[c.Event].SampleType), nil
}

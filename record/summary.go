package record

import (
	"os"

	"gperf/format"
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
	for i := range r.counters {
		c := &r.counters[i]
		if r.attrs[c.event].ReadFormat&format.ReadLost == 0 {
			r.sum.LostRecords = r.tally.lost
			return b, nil
		}
		if b, err = r.lostOf(b, c, r.idIndex(i)); err != nil {
			return b, err
		}
	}
	if r.emit == nil {
		return b, nil
	}
	for i := range r.emit.counters { // their events have one id each
		if b, err = r.lostOf(b, &r.emit.counters[i], 0); err != nil {
			return b, err
		}
	}
	return b, nil
}

// lostOf appends the losses of one counter, whose id is the index-th of its event.
func (r *recorder) lostOf(b []byte, c *counter, index int) ([]byte, error) {
	a := &r.attrs[c.event]
	id := a.IDs[index]
	n, err := c.lost(a, id, len(r.events))
	if err != nil {
		return b, &OpenError{r.events[c.event], c.cpu, c.tid, err}
	}
	n += c.lostBefore
	if isDummy(&r.events[c.event]) {
		r.sum.LostSideBand += n
	} else {
		r.sum.Lost += n
	}
	if n == c.told {
		return b, nil
	}
	l := format.LostSamples{Lost: n - c.told, ID: format.RecordID{ID: id, CPU: uint32(c.cpu)}}
	c.told = n
	return l.AppendTo(b, a.SampleType), nil
}

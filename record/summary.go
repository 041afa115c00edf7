package record

import (
	"os"

	"gperf/format"
)

// Summary is what a recording came to.
type Summary struct {
	Path    string // as Options.Output
	Bytes   int64  // of the file, or all of them
	Wakeups uint64 // how often there was something to write, for the last file
	Samples uint64 // in the file, or all of them
	// Full is what was written when Options.MaxSize was reached; 0: it was not.
	Full int64
	// Dumped is the name that the last file got, where names have times in them.
	Dumped string
	// Original is how many bytes were compressed, and Compressed what they
	// came to; 0 without compression.
	Original, Compressed int64
	// Lost is how many samples found no place in a ring. Where an event writes
	// both samples and side band, its lost side band is among them.
	Lost uint64
	// LostSideBand is how many mmap, comm and other records found none.
	LostSideBand uint64
	// LostRecords is how many records of all kinds found none, at least, where the kernel (before Linux 6.0) does
	// not count per event. A sample whose user stack is walked in the kernel is two.
	LostRecords uint64
	// Missed is how many samples BPF programs that make them could not make, for
	// another was running.
	Missed uint64
	Pages  int // of each ring
	// Unwind is what became of the user stacks, nil if they were not walked.
	Unwind *UnwindSummary
	// Closing is how many tracepoints the kernel is still to close when Run has
	// returned: a process of its own waits for that.
	Closing int
	// Command is how the command ended, nil without one.
	Command *os.ProcessState
}

// lostRecords asks the counters what they lost, appends a LOST_SAMPLES record
// for each that did since it was asked last, as perf does, and counts it. Before Linux 6.0 counters do
// not know: then the LOST records that the kernel put into the rings count. Where
// counters know, LOST records tell of the same losses once more, and of those
// only that were followed by a record.
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
	for i := range r.emit.counters { // whose events have one id each
		if b, err = r.lostOf(b, &r.emit.counters[i], 0); err != nil {
			return b, err
		}
	}
	return b, nil
}

// lostOf does that for a counter, whose id is the index-th of its event.
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

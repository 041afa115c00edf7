package record

import (
	"os"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/record/programs"
)

// Summary describes a finished recording.
type Summary struct {
	Path    string // Options.Output
	Bytes   int64  // of the file, or all of them
	Wakeups uint64 // how often a ring woke the recorder, for the last file
	Samples uint64 // in the file, or all of them
	Early   bool   // the recording was to end before its events were enabled: nothing is recorded
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
	// Throttled counts by event how often the kernel took no samples, because there were too many; nil if never.
	Throttled map[string]uint64
	programs.Summary
	// Slept is the number of target threads that slept from before the recording until its end, and SleptUnknown how
	// many of them have no sample, because where they sleep could not be read.
	Slept, SleptUnknown uint64
	Pages               int // of each ring
	// Cost is what the recording took of the machine.
	Cost format.Cost
	// Kept counts the copies of programs and libraries that readers may not find later.
	Kept dso.Kept
	// Generated are open perf maps and jitdumps of sampled processes in other namespaces. The caller closes them.
	Generated []dso.Generated
	// Closing is the number of tracepoints that the kernel still has to close when Run has
	// returned: a separate process waits for that.
	Closing int
	// Command is the exit state of the command, nil without one.
	Command *os.ProcessState
}

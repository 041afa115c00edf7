package session

import "gperf/format"

// Summary counts the samples of a recording, and its lost and incomplete parts.
type Summary struct {
	// Samples counts the decoded samples, including those that Keep rejects.
	Samples int
	// Unnamed counts the samples of idle tasks for which Idle cannot decide whether the CPU was working, because
	// the functions are unnamed.
	Unnamed int
	// Waits is counted if waits for work are left out.
	Waits Waits
	// OnlyLeaf counts the copied stacks of 32-bit Arm programs: gperf finds the sampled function alone.
	OnlyLeaf int
	// Cut counts the stacks that continue above the copies, and CutSize is the size of these copies in bytes.
	Cut     int
	CutSize uint32
	// Lost counts the records and samples that the kernel dropped.
	Lost Lost
	// Late counts the records that arrived after younger ones.
	Late int
	// Unknown counts the records of unknown types.
	Unknown format.Skipped
	// Traced counts processor traces, which gperf does not decode.
	Traced Traced
	// Misses says why the filters of a report or of script selected no sample.
	Misses []Miss
}

// Lost is the sum of LOST records, which count records of any type, and of
// LOST_SAMPLES records.
type Lost struct {
	Records, Samples uint64
	// SideBand is the part of Samples that were side-band records: the event that lost them takes no samples. perf
	// counts them as samples.
	SideBand uint64
	Chunks   int // number of LOST records
}

// Traced is the size of AUXTRACE data, and the PMU that wrote it.
type Traced struct {
	By      format.AuxtraceType
	Records int
	Bytes   uint64
}

func (s *Summary) add(f *format.File, rec format.Record) {
	switch r := rec.(type) {
	case *format.Other:
		if !r.Raw.Type.Known() {
			s.Unknown.Add(&format.Error{Off: r.Raw.Off, Msg: r.Raw.Type.String()})
		}
	case *format.AuxtraceInfo:
		s.Traced.By = r.Type
	case *format.Auxtrace:
		s.Traced.Records++
		s.Traced.Bytes += r.Size
	case *format.Lost:
		s.Lost.Records += r.Lost
		s.Lost.Chunks++
	case *format.LostSamples:
		if r.Misc&format.MiscLostSamplesBPF != 0 {
			return
		}
		s.Lost.Samples += r.Lost
		if i, ok := f.EventByID(r.ID.ID); ok && f.Attrs[i].IsDummy() {
			s.Lost.SideBand += r.Lost
		}
	}
}

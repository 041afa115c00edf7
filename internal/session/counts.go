package session

import "gperf/format"

// counts holds the last values of the counters that samples carry (PERF_SAMPLE_READ).
type counts map[countKey]uint64

type countKey struct {
	id  uint64
	tid int32 // 0 if the counter is not read per thread
}

// Counted calls use for each sample that perf makes from sample: a sample with
// counter values becomes one for each counter that advanced, with the difference as
// its period (evlist__deliver_sample of tools/perf/util/session.c). It changes
// sample before each call.
func (s *Session) Counted(sample *format.Sample, use func()) {
	a := &s.File.Attrs[sample.Event]
	var tid int32
	if a.Flags&format.FlagInherit != 0 && a.SampleType&format.SampleTID != 0 {
		tid = sample.TID
	}
	for _, v := range format.ParseCounters(sample.Read, a.ReadFormat).Values {
		event, ok := s.File.EventByID(v.ID)
		if !ok {
			continue
		}
		key := countKey{v.ID, tid}
		sample.Event, sample.ID, sample.Period = event, v.ID, v.Value-s.counts[key]
		s.counts[key] = v.Value
		if sample.Period != 0 {
			use()
		}
	}
}

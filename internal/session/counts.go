package session

import "gperf/format"

// counts are the last values of counters that samples carry (PERF_SAMPLE_READ).
type counts map[countKey]uint64

type countKey struct {
	id  uint64
	tid int32 // 0 if a counter is not read by thread
}

// Counted passes to use the samples that perf makes from s: a sample with counter
// values becomes one for each counter that advanced, with the difference as its
// period (evlist__deliver_sample of tools/perf/util/session.c). It changes s for
// each of them.
func (h *History) Counted(f *format.File, s *format.Sample, use func()) {
	a := &f.Attrs[s.Event]
	var tid int32
	if a.Flags&format.FlagInherit != 0 && a.SampleType&format.SampleTID != 0 {
		tid = s.TID
	}
	for _, v := range format.ParseCounters(s.Read, a.ReadFormat).Values {
		event, ok := f.EventByID(v.ID)
		if !ok {
			continue
		}
		key := countKey{v.ID, tid}
		s.Event, s.ID, s.Period = event, v.ID, v.Value-h.counts[key]
		h.counts[key] = v.Value
		if s.Period != 0 {
			use()
		}
	}
}

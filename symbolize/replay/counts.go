package replay

import "gperf/format"

// counts are the last values of counters that samples carry (PERF_SAMPLE_READ).
type counts map[countKey]uint64

type countKey struct {
	id  uint64
	tid int32 // 0 where a counter is not read by thread
}

// value is one counter's value in a sample.
type value struct{ id, value uint64 }

// Counted are the samples that s stands for: perf makes of a sample with counters'
// values one for each counter that went on, with what it counted since as its
// period (evlist__deliver_sample of tools/perf/util/session.c). Each is given to
// use, s itself being changed for it.
func (h *History) Counted(f *format.File, s *format.Sample, use func()) {
	a := &f.Attrs[s.Event]
	var tid int32
	if a.Flags&format.FlagInherit != 0 && a.SampleType&format.SampleTID != 0 {
		tid = s.TID
	}
	for v := range values(a.ReadFormat, s.Read) {
		event, ok := f.EventByID(v.id)
		if !ok {
			continue
		}
		key := countKey{v.id, tid}
		s.Event, s.ID, s.Period = event, v.id, v.value-h.counts[key]
		h.counts[key] = v.value
		if s.Period != 0 {
			use()
		}
	}
}

// values yields the counters' values as read_format lays them out (struct
// read_format in include/uapi/linux/perf_event.h).
func values(rf format.ReadFormat, w format.Words) func(func(value) bool) {
	return func(yield func(value) bool) {
		n, at, times := 1, 0, 0
		for _, bit := range [...]format.ReadFormat{format.ReadTotalTimeEnabled, format.ReadTotalTimeRunning} {
			if rf&bit != 0 {
				times++
			}
		}
		if rf&format.ReadGroup != 0 {
			if w.Len() == 0 {
				return
			}
			n, at, times = int(min(w.At(0), uint64(w.Len()))), 1+times, 0
		}
		size := 1 + times
		for _, bit := range [...]format.ReadFormat{format.ReadID, format.ReadLost} {
			if rf&bit != 0 {
				size++
			}
		}
		for ; n > 0 && at+size <= w.Len(); n, at = n-1, at+size {
			v := value{value: w.At(at)}
			if rf&format.ReadID != 0 {
				v.id = w.At(at + 1 + times)
			}
			if !yield(v) {
				return
			}
		}
	}
}

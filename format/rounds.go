package format

// RoundSorter sorts the records of several rings by time.
//
// In each round the recorder copies the records of all rings, then writes a
// FINISHED_ROUND. A ring may receive records while the recorder copies the others; these
// records come in the next round. Therefore records are complete only up to the newest
// time of the previous round:
//
//	round 1: ring 0: 1 4 6   ring 1: 2 3 5   → none is complete yet
//	round 2: ring 0: 7 9     ring 1: 6 8     → 1 … 6 can be used
//
// Records with equal times keep the order of Put.
type RoundSorter[T any] struct {
	pending []timed[T] // sorted runs, in the order of Put
	spare   []timed[T]
	ready   []T
	next    int    // index of the next value in ready
	newest  uint64 // newest time that was put, in ns
	limit   uint64 // value of newest at the previous Round
	done    uint64 // all values up to this time were released

	// Late counts values that were put after newer values had been released.
	Late int
}

type timed[T any] struct {
	time uint64
	v    T
}

// Put adds v.
func (s *RoundSorter[T]) Put(time uint64, v T) {
	s.pending = append(s.pending, timed[T]{time, v})
	s.newest = max(s.newest, time)
	if time < s.done {
		s.Late++
	}
}

// PutNow adds v, which has no time, after all ready values.
func (s *RoundSorter[T]) PutNow(v T) { s.ready = append(s.ready, v) }

// Round handles a FINISHED_ROUND: it makes the complete records ready.
func (s *RoundSorter[T]) Round() {
	s.release(s.limit)
	s.limit = s.newest
}

// Half makes the older half ready. Callers use it when memory does not suffice to wait for
// Round.
func (s *RoundSorter[T]) Half() {
	if len(s.pending) == 0 {
		return
	}
	s.sort()
	s.release(s.pending[len(s.pending)/2].time)
}

// Flush makes all remaining values ready. Call it at the end of the data.
func (s *RoundSorter[T]) Flush() { s.release(1<<64 - 1) }

// Next returns the next ready value, in memory that later calls use again, or nil if none is ready.
func (s *RoundSorter[T]) Next() *T {
	if s.next == len(s.ready) {
		// Clear the slots, or ready would keep the returned values alive.
		clear(s.ready)
		s.ready, s.next = s.ready[:0], 0
		return nil
	}
	s.next++
	return &s.ready[s.next-1]
}

func (s *RoundSorter[T]) release(limit uint64) {
	s.sort()
	s.done = max(s.done, limit)
	n := 0
	for n < len(s.pending) && s.pending[n].time <= limit {
		s.ready = append(s.ready, s.pending[n].v)
		n++
	}
	rest := copy(s.pending, s.pending[n:])
	clear(s.pending[rest:])
	s.pending = s.pending[:rest]
}

// sort merges the sorted runs pair by pair. There are about as many runs as rings.
func (s *RoundSorter[T]) sort() {
	bounds := s.runs()
	for len(bounds) > 2 {
		if cap(s.spare) < len(s.pending) {
			s.spare = make([]timed[T], len(s.pending), cap(s.pending))
		}
		dst := s.spare[:len(s.pending)]
		merged := bounds[:1]
		for i := 0; i+1 < len(bounds); i += 2 {
			if i+2 == len(bounds) {
				copy(dst[bounds[i]:], s.pending[bounds[i]:])
				merged = append(merged, bounds[i+1])
				break
			}
			lo, mid, hi := bounds[i], bounds[i+1], bounds[i+2]
			merge(dst[lo:hi], s.pending[lo:mid], s.pending[mid:hi])
			merged = append(merged, hi)
		}
		clear(s.pending)
		s.pending, s.spare = dst, s.pending
		bounds = merged
	}
}

// runs returns the bounds of the sorted runs: 0, the start of each further run, and the
// end.
func (s *RoundSorter[T]) runs() []int {
	bounds := []int{0}
	for i := 1; i < len(s.pending); i++ {
		if s.pending[i].time < s.pending[i-1].time {
			bounds = append(bounds, i)
		}
	}
	return append(bounds, len(s.pending))
}

func merge[T any](dst, a, b []timed[T]) {
	for i := range dst {
		if len(b) == 0 || len(a) > 0 && a[0].time <= b[0].time {
			dst[i], a = a[0], a[1:]
		} else {
			dst[i], b = b[0], b[1:]
		}
	}
}

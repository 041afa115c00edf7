package export

import (
	"cmp"
	"slices"
)

// lanes distributes the spans of a thread so that the spans of a lane are nested or do not overlap, as tracks require.
// Spans are indexes in samples; the spans of a lane are ordered by start, enclosing spans first.
func lanes(samples []sample, spans []int32) [][]int32 {
	order := slices.Clone(spans)
	slices.SortStableFunc(order, func(a, b int32) int {
		s, t := &samples[a], &samples[b]
		return cmp.Or(cmp.Compare(s.start, t.start), cmp.Compare(t.end, s.end))
	})
	var list [][]int32
	var open []spanStack // by lane
	for _, i := range order {
		s := &samples[i]
		at := 0
		for ; at < len(list); at++ {
			open[at].leave(s.start, nil)
			if n := len(open[at]); n == 0 || open[at][n-1] >= s.end {
				break
			}
		}
		if at == len(list) {
			list, open = append(list, nil), append(open, nil)
		}
		list[at] = append(list[at], i)
		open[at] = append(open[at], s.end)
	}
	return list
}

// spanStack is the ends of the spans that enclose each other at a time.
type spanStack []uint64

// leave removes the spans that ended until a time, and calls ended for each if it is not nil.
func (s *spanStack) leave(time uint64, ended func(at uint64)) {
	for n := len(*s); n > 0 && (*s)[n-1] <= time; n = len(*s) {
		if ended != nil {
			ended((*s)[n-1])
		}
		*s = (*s)[:n-1]
	}
}

package session

import (
	"testing"

	"gperf/format"
)

// A wait gets the waker with the same time, CPU and period, once.
func TestWakers(t *testing.T) {
	sample := func(cpu uint32, time, period uint64) *Sample {
		return &Sample{Sample: format.Sample{CPU: cpu, Time: time, Period: period}}
	}
	l := wakers{}
	for cpu := range uint32(2) {
		s := sample(cpu, 100, 5)
		s.TID, s.Comm = int32(cpu)+7, "alarm"
		l.add(s, false)
	}
	for i, c := range []struct {
		wait *Sample
		tid  int32 // of the waker, 0 for none
	}{
		{sample(0, 100, 5), 7}, {sample(0, 100, 5), 0}, {sample(1, 101, 5), 0}, {sample(1, 100, 5), 0},
		{sample(2, 0, 0), 0},
	} {
		by := l.take(c.wait)
		if by == nil && c.tid != 0 || by != nil && (by.TID != c.tid || by.Comm != "alarm") {
			t.Errorf("wait %d: waker %v, want thread %d", i, by, c.tid)
		}
	}
}

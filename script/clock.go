package script

import (
	"time"

	"gperf/format"
)

// clock turns times of samples into times of day: when it showed clock, it was
// wall. Both are in ns.
type clock struct{ wall, clock uint64 }

// clockOf returns the recording's clock, if the file describes it.
func clockOf(f *format.File) (clock, bool) {
	words := f.Uint64s(format.FeatureClockData, 3) // the first is the version and the clock's id
	if len(words) < 3 {
		return clock{}, false
	}
	return clock{wall: words[1], clock: words[2]}, true
}

func (c clock) appendDay(b []byte, ns uint64, nanosecs bool) []byte {
	text := "2006-01-02 15:04:05.000000 "
	if nanosecs {
		text = "2006-01-02 15:04:05.000000000 "
	}
	ns += c.wall - c.clock
	return time.Unix(int64(ns/1e9), int64(ns%1e9)).AppendFormat(b, text)
}

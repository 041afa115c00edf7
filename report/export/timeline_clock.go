package export

import (
	"math"
	"slices"
	"strconv"
)

// clock converts the times of recordings to the times of a file.
type clock struct {
	offsets []int64 // by recording: the difference to add to the times, in ns
	first   uint64  // the earliest moment of all recordings after that
	began   int64   // when that was, in ns since 1970; 0 if unknown
}

// newClock returns the clock of a set: the first recording's. The times of others are converted to it if all
// recordings contain the time of day; otherwise it assumes that the clocks are the same.
func (p *set) newClock() *clock {
	c := &clock{offsets: make([]int64, len(p.recordings)), first: math.MaxUint64}
	known := !slices.ContainsFunc(p.recordings, func(r *timelineInput) bool { return r.timeOfDay() == 0 })
	for i, r := range p.recordings {
		if known {
			c.offsets[i] = r.timeOfDay() - p.recordings[0].timeOfDay()
		}
		if r.first <= r.last {
			c.first = min(c.first, r.first+uint64(c.offsets[i]))
		}
	}
	first := p.recordings[0]
	switch {
	case known:
		c.began = first.timeOfDay() + int64(c.first)
	case first.written > 0:
		c.began = first.written - int64(first.last-first.first)
	}
	return c
}

// timeOfDay returns the offset to add to the recording's times for ns since 1970, 0 if unknown.
func (r *timelineInput) timeOfDay() int64 {
	d, _ := r.file.ClockData()
	return int64(d.Offset())
}

// at returns a time of a recording by the file's clock.
func (c *clock) at(r *timelineInput, ns uint64) uint64 { return ns + uint64(c.offsets[r.number]) }

// since returns a time of a recording since the earliest moment.
func (c *clock) since(r *timelineInput, ns uint64) int64 { return int64(c.at(r, ns) - c.first) }

// appendMillis appends ns as a decimal number of ms, without rounding.
func appendMillis(b []byte, ns int64) []byte {
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	b = strconv.AppendInt(b, ns/1e6, 10)
	rest := ns % 1e6
	if rest == 0 {
		return b
	}
	b = append(b, '.')
	for digit := int64(1e5); rest > 0; digit /= 10 {
		b = append(b, '0'+byte(rest/digit))
		rest %= digit
	}
	return b
}

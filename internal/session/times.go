package session

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gperf/format"
)

// endOf returns when a recording ended, in ns since 1970: by the recording's clock, or else when the file was
// written, zero if unknown.
func endOf(f *format.File, written time.Time) int64 {
	clock, ok := f.ClockData()
	if bounds := f.Uint64s(format.FeatureSampleTime, 2); ok && len(bounds) == 2 && bounds[1] > 0 {
		return int64(clock.TimeOfDay - clock.ClockTime + bounds[1])
	}
	if written.IsZero() {
		return 0
	}
	return written.UnixNano()
}

// timeRange is a range of times in ns. A bound of 0 means no bound.
type timeRange struct {
	start, end uint64
	open       bool // the range excludes end
}

// Times are ranges of times in ns, on the clock of the samples.
type Times []timeRange

// Contain reports whether a range contains t.
func (l Times) Contain(t uint64) bool {
	for _, r := range l {
		if t >= r.start && (r.end == 0 || t < r.end || t == r.end && !r.open) {
			return true
		}
	}
	return false
}

// ParseTimes parses START,STOP pairs in seconds, separated by blanks; or parts of the recording, separated by
// commas: A%-B%, or A%/N, the Nth part of A percent. bounds are the times of the first and last sample, or nil if
// the file does not contain them. A blank arg contains no ranges, and selects nothing.
func ParseTimes(arg string, bounds []uint64) (Times, error) {
	if strings.Contains(arg, "%") {
		return parsePercents(arg, bounds)
	}
	l := Times{}
	for word := range strings.FieldsSeq(arg) {
		from, to, comma := strings.Cut(word, ",")
		start, err := parseSeconds(from)
		if err != nil {
			return nil, err
		}
		end, err := parseSeconds(to)
		if err != nil {
			return nil, err
		}
		if end != 0 && end < start {
			return nil, fmt.Errorf("%s ends before it starts", word)
		}
		if !comma {
			return nil, fmt.Errorf("a range has a comma: %s, begins and ,%[1]s ends at this time", word)
		}
		l = append(l, timeRange{start: start, end: end})
	}
	return l, nil
}

// parseSeconds converts seconds with at most nine decimals to ns; "" is 0.
func parseSeconds(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	whole, frac, _ := strings.Cut(s, ".")
	sec, err := strconv.ParseUint(whole, 10, 33)
	if err == nil && len(frac) <= 9 {
		var ns uint64
		if ns, err = strconv.ParseUint((frac + "000000000")[:9], 10, 64); err == nil {
			return sec*1e9 + ns, nil
		}
	}
	return 0, fmt.Errorf("%q is not a time in seconds", s)
}

func parsePercents(arg string, bounds []uint64) (Times, error) {
	if len(bounds) != 2 || bounds[1] <= bounds[0] {
		return nil, errors.New("the file does not contain the times of its first and last sample: " +
			"use seconds instead of percentages")
	}
	length := float64(bounds[1] - bounds[0])
	l := Times{}
	for word := range strings.SplitSeq(arg, ",") {
		from, to, err := parsePercent(word)
		if err != nil {
			return nil, err
		}
		l = append(l, timeRange{
			start: bounds[0] + uint64(from*length),
			end:   bounds[0] + uint64(to*length),
			open:  to < 1,
		})
	}
	return l, nil
}

// parsePercent parses a part of the recording and returns the bounds as fractions.
func parsePercent(word string) (from, to float64, err error) {
	bad := fmt.Errorf("%q is neither A%%-B%% nor A%%/N", word)
	if a, n, ok := strings.Cut(word, "/"); ok {
		part, ok := percent(a)
		i, err := strconv.ParseUint(n, 10, 32)
		if !ok || err != nil || i == 0 || part*float64(i-1) > 1 {
			return 0, 0, bad
		}
		return part * float64(i-1), min(part*float64(i), 1), nil
	}
	a, b, isRange := strings.Cut(word, "-")
	from, ok := percent(a)
	if !isRange {
		from, b = 0, a
	}
	to, ok2 := percent(b)
	if !ok || !ok2 || from > to {
		return 0, 0, bad
	}
	return from, to, nil
}

func percent(s string) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	return v / 100, err == nil && strings.HasSuffix(s, "%") && v >= 0 && v <= 100
}

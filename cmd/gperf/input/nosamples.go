package input

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/session"
)

// NoSamples returns why a recording contains no samples, as far as it says so; nil: it cannot be read.
func NoSamples(f *format.File) string {
	if f == nil {
		f = new(format.File)
	}
	var names []string
	period := uint64(0)
	for i := range f.Attrs {
		a := &f.Attrs[i]
		if a.Type == format.TypeSoftware && a.Config == format.SWDummy {
			continue
		}
		names = append(names, f.EventName(i))
		if a.Flags&format.FlagFreq == 0 {
			period = max(period, a.SamplePeriod)
		}
	}
	isFilter := func(arg string) bool { return strings.HasPrefix(arg, "--filter") }
	if len(names) > 0 && slices.ContainsFunc(f.Cmdline(), isFilter) {
		return AnyOf(names) + FilteredOut
	}
	return neverHappened(names, period)
}

// FilteredOut follows the names of events with filters.
const FilteredOut = " never happened, or the filter matched none of them"

// neverHappened says that none of the events happened, or too seldom for a sample each period events.
func neverHappened(names []string, period uint64) string {
	isClock := func(name string) bool { return clockEvents.MatchString(name) }
	switch {
	case len(names) == 0:
		return "no event happened"
	case !slices.ContainsFunc(names, func(name string) bool { return !isClock(name) }):
		return "the recorded threads used too little CPU time for a sample of " + AnyOf(names)
	case names[0] == session.WaitEvent:
		return "no wait began in the recorded threads"
	case period > 1:
		return fmt.Sprintf("%s happened less than %d times in each recorded thread", AnyOf(names), period)
	}
	return AnyOf(names) + " never happened in the recorded threads"
}

// clockEvents matches the events that happen as long as a thread runs.
var clockEvents = regexp.MustCompile(`^(cpu-clock|task-clock|cycles|cpu-cycles|cpu/cycles)`)

// AnyOf returns the first of several names, and how many more there are.
func AnyOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s (and %d more)", names[0], len(names)-1)
}

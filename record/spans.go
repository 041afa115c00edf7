package record

import (
	"slices"

	"golang.org/x/sys/unix"

	"gperf/record/event"
)

// hasSpans reports whether there are spans among events.
func hasSpans(events []event.Event) bool {
	return slices.ContainsFunc(events, func(ev event.Event) bool { return ev.Span != nil })
}

// setSpanClock selects the clock of the start times in the samples of spans, for all samples. It is also the clock of
// counts. Bytes of packets are for readers that show the time of day: the file then relates the clock to it.
func setSpanClock(o *plan) {
	if (hasSpans(o.Events) || o.Count || o.Packets.Snap > 0) && !o.Samples.UseClockID {
		o.Samples.UseClockID, o.Samples.ClockID = true, unix.CLOCK_MONOTONIC
	}
}

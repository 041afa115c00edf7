package programs

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/perfevent"
)

// The clock of a recording that uses CLOCK_MONOTONIC is CLOCK_MONOTONIC. CLOCK_BOOTTIME shows the same time or a later
// one.
func TestOffset(t *testing.T) {
	n, err := perfevent.ClockOffset(&format.Attr{Flags: format.FlagUseClockID, ClockID: unix.CLOCK_MONOTONIC})
	if err != nil || n != 0 {
		t.Errorf("%d, %v, want 0", n, err)
	}
	n, err = perfevent.ClockOffset(&format.Attr{Flags: format.FlagUseClockID, ClockID: unix.CLOCK_BOOTTIME})
	if err != nil {
		t.Skip(err)
	}
	if d := time.Duration(n); d < -time.Second {
		t.Errorf("%v, want 0 or more, or a little less", d)
	}
}

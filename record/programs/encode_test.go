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

// Raw data is padded so that records have a multiple of 8 bytes, and follows the callchain.
func TestEncode(t *testing.T) {
	one := Sample{ID: 7, PID: 1, TID: 2, Time: 3, Period: 5, Kernel: make([]byte, 16), Raw: make([]byte, 9)}
	for sampleType, want := range map[format.SampleType]int{
		SampleType:                          8 * 7,
		SampleType | format.SampleCallchain: 8 * (7 + 1 + 1 + 2),
		SampleType | format.SampleRaw:       8*7 + 4 + 12,
	} {
		rec := one.Encode(sampleType)
		if len(rec) != want || int(rec[6]) != want || rec[8] != 7 {
			t.Errorf("%v: %d bytes, want %d: %x", sampleType, len(rec), want, rec)
		}
	}
}

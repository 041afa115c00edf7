package session

import (
	"cmp"
	"time"

	"gperf/format"
)

// Origin says where a recording is from.
type Origin struct {
	Host string // "" if unknown
	File string // path of the recording
	Boot string // when the machine was booted, as in 2026-11-25T08:15:07Z; "" if unknown
}

// UnknownOrigin is the text of a part of an Origin that is unknown.
const UnknownOrigin = "unknown"

// OriginKeys are the names of an Origin's parts.
var OriginKeys = []string{"host", "file", "boot"}

// Part returns the part with one of OriginKeys, or UnknownOrigin.
func (o Origin) Part(key string) string {
	switch key {
	case "host":
		return cmp.Or(o.Host, UnknownOrigin)
	case "file":
		return cmp.Or(o.File, UnknownOrigin)
	}
	return cmp.Or(o.Boot, UnknownOrigin)
}

// Origins describes recordings. It is for one goroutine.
type Origins struct {
	boots map[string][]boot // by host
}

// boot is a boot of a machine, as a recording shows it.
type boot struct {
	at     time.Time
	uptime time.Duration
	text   uint64 // recorded address of the kernel's reference symbol, 0 if unknown
}

// Of describes a recording. Recordings of one boot share the text of the recording that was described first.
func (o *Origins) Of(f *format.File, path string) Origin {
	_, _, text := RecordedKernel(f)
	return o.of(f, path, text)
}

// of is Of for a kernel whose reference symbol has this address.
func (o *Origins) of(f *format.File, path string, text uint64) Origin {
	from := Origin{Host: f.String(format.FeatureHostname), File: path}
	b, ok := bootOf(f, text)
	if !ok {
		return from
	}
	for _, known := range o.boots[from.Host] {
		if known.same(b) {
			from.Boot = known.String()
			return from
		}
	}
	if o.boots == nil {
		o.boots = map[string][]boot{}
	}
	o.boots[from.Host] = append(o.boots[from.Host], b)
	from.Boot = b.String()
	return from
}

func (b boot) String() string { return b.at.UTC().Format(time.RFC3339) }

// same reports whether two recordings are of one boot. The clocks are read one after the other, the time of day is
// corrected while the machine runs, and a clock that is not corrected drifts from it. Most boots differ in the kernel's
// address (KASLR).
func (b boot) same(other boot) bool {
	const atOnce, drift = 5 * time.Second, 5000 // at most 1 s in 5,000 s
	if b.text != 0 && other.text != 0 && b.text != other.text {
		return false
	}
	return b.at.Sub(other.at).Abs() < atOnce+max(b.uptime, other.uptime)/drift
}

// Clocks that begin at the boot. CLOCK_BOOTTIME includes the time in suspend: with the others, each suspend looks like
// a later boot.
const (
	clockMonotonicRaw = 4
	clockBoottime     = 7
)

// bootOf returns when the clock of the recording began, by CLOCK_DATA, which contains the time of day and the
// clock's time at one moment.
func bootOf(f *format.File, text uint64) (b boot, ok bool) {
	d, ok := f.ClockData()
	if !ok || d.TimeOfDay < d.ClockTime {
		return b, false
	}
	switch d.ClockID {
	case clockMonotonic, clockMonotonicRaw, clockBoottime, format.ClockPerf:
	default:
		return b, false // the clock is a time of day
	}
	return boot{time.Unix(0, int64(d.TimeOfDay-d.ClockTime)), time.Duration(d.ClockTime), text}, true
}

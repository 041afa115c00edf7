package record

import (
	"testing"
	"time"
)

// TestNextSwitch: aligned files begin at full minutes, and none is very short.
func TestNextSwitch(t *testing.T) {
	for _, c := range []struct {
		at      string
		aligned bool
		want    time.Duration
	}{
		{"10:00:20", false, time.Minute},
		{"10:00:20", true, 40 * time.Second},
		{"10:00:00", true, time.Minute},
		{"10:00:59", true, 61 * time.Second},
	} {
		at, err := time.Parse(time.TimeOnly, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&Switch{Every: time.Minute, Aligned: c.aligned}).next(at); got != c.want {
			t.Errorf("%s: %v, want %v", c.at, got, c.want)
		}
	}
}

func TestParseSwitch(t *testing.T) {
	for _, c := range []struct {
		in    string
		size  int64
		every time.Duration
	}{
		{"100B", 100, 0}, {"2K", 2048, 0}, {"3M", 3 << 20, 0}, {"1G", 1 << 30, 0},
		{"30s", 0, 30 * time.Second}, {"5m", 0, 5 * time.Minute}, {"2h", 0, 2 * time.Hour}, {"1d", 0, 24 * time.Hour},
	} {
		if s, err := ParseSwitch(c.in); err != nil || s.Size != c.size || s.Every != c.every || !s.enabled() {
			t.Errorf("%s: %+v, %v", c.in, s, err)
		}
	}
	for _, in := range []string{"", "s", "10", "0s", "-1s", "1.5s", "1x", "2147483647d", "99999999999K", "signals"} {
		if s, err := ParseSwitch(in); err == nil {
			t.Errorf("%q: %+v", in, s)
		}
	}
}

package session

import (
	"testing"

	"gperf/format"
)

// A filter selects the samples that pass all parts of it.
func TestFilter(t *testing.T) {
	s := &Sample{Comm: "cat"}
	s.CPU, s.PID, s.TID, s.Time, s.Misc = 2, 10, 11, 1500, format.MiscUser
	guest := *s
	guest.Misc = format.MiscGuestUser
	times, err := ParseTimes("0.000001,0.000002", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		filter Filter
		sample *Sample
		want   bool
	}{
		{"none", Filter{}, s, true},
		{"cpu", Filter{CPUs: []int{1, 2}}, s, true},
		{"other cpu", Filter{CPUs: []int{1}}, s, false},
		{"pid", Filter{PIDs: []int32{10}}, s, true},
		{"other pid", Filter{PIDs: []int32{11}}, s, false},
		{"tid", Filter{TIDs: []int32{11}}, s, true},
		{"other tid", Filter{TIDs: []int32{10}}, s, false},
		{"comm", Filter{Comms: []string{"dd", "cat"}}, s, true},
		{"other comm", Filter{Comms: []string{"dd"}}, s, false},
		{"time", Filter{Times: times}, s, true},
		{"no time", Filter{Times: Times{}}, s, false},
		{"one of two", Filter{PIDs: []int32{10}, Comms: []string{"dd"}}, s, false},
		{"guest", Filter{}, &guest, true},
		{"no guests", Filter{NoGuests: true}, &guest, false},
		{"no guests, another sample", Filter{NoGuests: true}, s, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.filter.Match(tc.sample); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestWithoutCPU(t *testing.T) {
	cpu := format.Attr{SampleType: format.SampleCPU}
	for _, tc := range []struct {
		name  string
		attrs []format.Attr
		some  bool
	}{
		{"all", []format.Attr{cpu, cpu}, false},
		{"none", []format.Attr{{}}, true},
		{"one", []format.Attr{cpu, {}}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := WithoutCPU(&format.File{Attrs: tc.attrs}); (got != "") != tc.some {
				t.Errorf("%q", got)
			}
		})
	}
}

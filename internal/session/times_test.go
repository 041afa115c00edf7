package session

import (
	"slices"
	"strings"
	"testing"
)

func TestParseTimes(t *testing.T) {
	bounds := []uint64{1000, 2000}
	for _, tc := range []struct {
		arg  string
		want Times
		err  string
	}{
		{"1.5,2", Times{{start: 15e8, end: 2e9}}, ""},
		{",0.000000001", Times{{end: 1}}, ""},
		{"3,", Times{{start: 3e9}}, ""},
		{"1,2 3,4", Times{{start: 1e9, end: 2e9}, {start: 3e9, end: 4e9}}, ""},
		{"10%-20%", Times{{start: 1100, end: 1200, open: true}}, ""},
		{"50%/2", Times{{start: 1500, end: 2000}}, ""},
		{"10%/1,10%/3", Times{{start: 1000, end: 1100, open: true}, {start: 1200, end: 1300, open: true}}, ""},
		{"10", nil, "a range has a comma: 10, begins and ,10 ends at this time"},
		{"2,1", nil, "ends before it starts"},
		{"x,1", nil, `"x" is not a time in seconds`},
		{"1.0000000001,", nil, "is not a time in seconds"},
		{"30%-20%", nil, "is neither A%-B% nor A%/N"},
		{"50%/4", nil, "is neither A%-B% nor A%/N"},
	} {
		got, err := ParseTimes(tc.arg, bounds)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: error %v, want %s", tc.arg, err, tc.err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v; want %v", tc.arg, got, err, tc.want)
		}
	}
	if _, err := ParseTimes("10%-20%", nil); err == nil {
		t.Error("percentages of an unknown length were accepted")
	}
}

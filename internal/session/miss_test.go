package session

import (
	"fmt"
	"testing"

	"gperf/format"
)

// A filter that selects no sample reports the conditions that no sample meets, and the samples' values.
func TestFilterMisses(t *testing.T) {
	for _, c := range []struct {
		name   string
		filter Filter
		want   string
	}{
		{"a match", Filter{Comms: []string{"a", "z"}}, "[]"},
		{"no condition", Filter{}, "[]"},
		{"comms", Filter{Comms: []string{"x", "y"}}, "[{--comms x,y [b a]}]"},
		{"ids", Filter{PIDs: []int32{7}, TIDs: []int32{2}}, "[{--pid 7 [2 1]}]"},
		{"cpus", Filter{CPUs: []int{9}}, "[{--cpu 9 [0]}]"},
		{"times", Filter{Times: Times{{start: 1}, {start: 5e9}}[1:]}, "[{--time [1.000000,3.000000]}]"},
		{"together", Filter{Comms: []string{"a"}, PIDs: []int32{2}}, "[{ []}]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, comm := range []string{"a", "b", "b"} {
				id := int32(min(i+1, 2))
				s := Sample{Sample: format.Sample{PID: id, TID: id, Time: uint64(i+1) * 1e9}, Comm: comm}
				c.filter.Match(&s)
			}
			if got := fmt.Sprint(c.filter.Misses()); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	var none *Filter
	if got := none.Misses(); got != nil {
		t.Errorf("no filter: %v", got)
	}
}

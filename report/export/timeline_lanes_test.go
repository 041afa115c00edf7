package export

import (
	"fmt"
	"testing"
)

// TestLanes: nested and adjacent spans share a lane, others do not.
func TestLanes(t *testing.T) {
	for _, c := range []struct {
		name  string
		spans [][2]uint64
		want  string
	}{
		{"adjacent", [][2]uint64{{1, 5}, {5, 9}}, "[[0 1]]"},
		{"nested", [][2]uint64{{2, 3}, {4, 6}, {1, 9}}, "[[2 0 1]]"},
		{"equal", [][2]uint64{{1, 5}, {1, 5}, {1, 4}}, "[[0 1 2]]"},
		{"overlap", [][2]uint64{{1, 5}, {3, 9}, {6, 10}}, "[[0 2] [1]]"},
		{"end of time", [][2]uint64{{0, 1<<64 - 1}, {1<<64 - 2, 1<<64 - 1}}, "[[0 1]]"},
		{"none", nil, "[]"},
	} {
		var samples []sample
		var all []int32
		for i, s := range c.spans {
			samples, all = append(samples, sample{start: s[0], end: s[1]}), append(all, int32(i))
		}
		if got := fmt.Sprint(lanes(samples, all)); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
	}
}

// TestMillis: numbers of ms keep all digits of ns.
func TestMillis(t *testing.T) {
	for ns, want := range map[int64]string{0: "0", 1: "0.000001", 1e6: "1", 1_500_000: "1.5", -2_000_100: "-2.0001",
		1795599671570306417: "1795599671570.306417", 100_010: "0.10001"} {
		if got := string(appendMillis(nil, ns)); got != want {
			t.Errorf("%d: %s; want %s", ns, got, want)
		}
	}
}

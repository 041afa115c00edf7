package text

import "testing"

func TestDuration(t *testing.T) {
	for ns, want := range map[uint64]string{0: "0 ns", 999: "999 ns", 1_000: "1.00 us", 9_996: "10.0 us",
		12_340_000: "12.3 ms", 99_960_000: "100 ms", 123_400_000: "123 ms", 61_000_000_000: "61.0 s"} {
		if got := Duration(ns); got != want {
			t.Errorf("%d: %s, want %s", ns, got, want)
		}
	}
}

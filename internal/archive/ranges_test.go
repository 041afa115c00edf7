package archive

import "testing"

// A unit is packed if one of the hit ranges contains an address of it.
func TestOverlaps(t *testing.T) {
	hit := []Range{{0x100, 0x110}, {0x200, 0x210}}
	for _, c := range []struct {
		lo, hi uint64
		want   bool
	}{
		{0, 0x100, false}, {0, 0x101, true}, {0x10f, 0x180, true}, {0x110, 0x200, false}, {0x110, 0x201, true},
		{0x104, 0x108, true}, {0, 0x1000, true}, {0x210, 0x300, false},
	} {
		if got := overlaps(hit, c.lo, c.hi); got != c.want {
			t.Errorf("%#x to %#x: %t", c.lo, c.hi, got)
		}
	}
}

package session

import (
	"testing"

	"gperf/format"
	"gperf/internal/dso"
)

// TestIs32Bit: registers show whether a program's pointers are 32 bits wide, or else the addresses of the program's
// mappings.
func TestIs32Bit(t *testing.T) {
	mapped := func(starts ...uint64) *maps {
		ms := new(maps)
		for _, start := range starts {
			ms = ms.with(newMap(&format.Mmap{Start: start, Len: 0x1000, Filename: "/bin/prog"}, dso.BuildID{}))
		}
		return ms
	}
	executed := mapped(0x400000)
	for _, start := range []uint64{0x7ffdc0000000, 0xf7fc0000} {
		executed = executed.with(newMap(&format.Mmap{Start: start, Len: 0x1000, Filename: dso.VDSO}, dso.BuildID{}))
	}
	for _, c := range []struct {
		abi  uint64
		maps *maps
		want bool
	}{
		{0, nil, false}, {0, mapped(), false}, {abi32, mapped(1 << 40), true}, {abi64, mapped(0x8048000), false},
		{0, mapped(0x8048000, 0xf7fc0000, 0xfffff000), true}, {0, mapped(0x400000, 0x7ffdc0000000), false},
		{0, executed, true}, // by a 64-bit one, whose mappings are still known
	} {
		s := Sample{maps: c.maps}
		if s.UserRegsABI = c.abi; s.Is32Bit() != c.want {
			t.Errorf("%+v: got %v", c, !c.want)
		}
	}
}

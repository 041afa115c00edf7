package script

import (
	"encoding/binary"
	"math/bits"
	"testing"
)

// The texts are perf 7.3's.
func TestBranchFlags(t *testing.T) {
	for word, want := range map[uint64]string{
		0:                      "/-/-/-/0//- ",
		1:                      "/M/-/-/0//- ",
		2:                      "/P/-/-/0//- ",
		3:                      "/P/-/-/0//- ",
		2 | 1<<2 | 0xffff<<4:   "/P/X/-/65535//- ",
		1 | 1<<3 | 20<<4:       "/M/-/A/20//- ",
		2 | 1<<20:              "/P/-/-/0/COND/- ",
		2 | 6<<20 | 3<<24:      "/P/-/-/0/RET/SPEC_CORRECT_PATH ",
		2 | 14<<20 | 1<<24:     "/P/-/-/0/NO_TX/SPEC_WRONG_PATH ",
		2 | 15<<20:             "/P/-/-/0/FAULT_ALGN/- ",
		2 | 15<<20 | 4<<26:     "/P/-/-/0/ARCH_2/- ",
		2 | 15<<20 | 15<<26:    "/P/-/-/0//- ",
		1 << 33:                "/MN/-/-/0//- ",
		2 | 1<<33 | 7<<30:      "/PN/-/-/0//- ",
		2 | 1<<20 | 2<<24 | 16: "/P/-/-/1/COND/NON_SPEC_CORRECT_PATH ",
	} {
		if got := string(appendFlags(nil, flagsOf(word, binary.LittleEndian))); got != want {
			t.Errorf("%#x: %q, want %q", word, got, want)
		}
		if got := string(appendFlags(nil, flagsOf(mirrored(word), binary.BigEndian))); got != want {
			t.Errorf("big-endian %#x: %q, want %q", mirrored(word), got, want)
		}
	}
}

// mirrored lays the flags out as a big-endian compiler does: the first field
// highest, each with its own bits in order.
func mirrored(word uint64) (m uint64) {
	at := 64
	for _, n := range []int{1, 1, 1, 1, 16, 4, 2, 4, 3, 1, 30} {
		at -= n
		m |= word & (1<<n - 1) << at
		word >>= n
	}
	return m
}

func TestMirrored(t *testing.T) {
	if got := mirrored(1); got != 1<<63 {
		t.Errorf("the first bit went to %#x", got)
	}
	if got := mirrored(0xffff << 4); bits.OnesCount64(got) != 16 || bits.LeadingZeros64(got) != 4 {
		t.Errorf("the cycles went to %#x", got)
	}
}

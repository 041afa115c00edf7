package format

import (
	"encoding/binary"
	"slices"
	"testing"
)

// A sample refers to its innermost frame, each frame to its caller. Damaged references end.
func TestChain(t *testing.T) {
	l := HiperfStacks{{7, 3}: 0x1000, {7, 5}: 1<<63 | 3<<40 | 0x2000, {7, 9}: 9<<40 | 0x3000}
	for ref, want := range map[uint64][]uint64{
		2<<23 | 5: {0xffffff0000002000, 0x1000}, 1<<23 | 5: {0xffffff0000002000}, 7<<23 | 3: {0x1000}, 2<<23 | 4: nil,
		1<<40 | 9: {0x3000, 0x3000, 0x3000},
	} {
		var got []uint64
		for chain := l.Chain(7, ref); len(chain) > 0; chain = chain[8:] {
			got = append(got, binary.LittleEndian.Uint64(chain))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%#x: got %#x, want %#x", ref, got, want)
		}
	}
}

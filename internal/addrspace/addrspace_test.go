package addrspace

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// value is the byte of a file that a range's first address shows.
type value struct{ file, off uint64 }

func cut(old *Range[value], start, _ uint64) value {
	return value{old.Value.file, old.Value.off + start - old.Start}
}

func list(s Space[value]) (l []Range[value]) {
	for r := range s.All() {
		l = append(l, *r)
	}
	return l
}

func TestWith(t *testing.T) {
	for _, c := range []struct {
		name    string
		in, out []Range[value]
	}{
		{"apart", []Range[value]{{10, 20, value{1, 0}}, {30, 40, value{2, 0}}}, []Range[value]{{10, 20, value{1, 0}}, {30, 40, value{2, 0}}}},
		{"adjacent", []Range[value]{{10, 20, value{1, 0}}, {20, 40, value{2, 0}}}, []Range[value]{{10, 20, value{1, 0}}, {20, 40, value{2, 0}}}},
		{"start covered", []Range[value]{{10, 20, value{1, 5}}, {5, 12, value{2, 0}}}, []Range[value]{{5, 12, value{2, 0}}, {12, 20, value{1, 7}}}},
		{"end covered", []Range[value]{{10, 20, value{1, 5}}, {18, 22, value{2, 0}}}, []Range[value]{{10, 18, value{1, 5}}, {18, 22, value{2, 0}}}},
		{"middle covered", []Range[value]{{10, 20, value{1, 5}}, {12, 14, value{2, 0}}},
			[]Range[value]{{10, 12, value{1, 5}}, {12, 14, value{2, 0}}, {14, 20, value{1, 9}}}},
		{"replaced", []Range[value]{{10, 20, value{1, 5}}, {30, 35, value{3, 0}}, {10, 40, value{2, 0}}}, []Range[value]{{10, 40, value{2, 0}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s Space[value]
			for _, r := range c.in {
				s = s.With(r, cut)
			}
			if got := list(s); !slices.Equal(got, c.out) || s.Len() != len(c.out) {
				t.Errorf("got %v, %d ranges; want %v", got, s.Len(), c.out)
			}
		})
	}
}

func TestFind(t *testing.T) {
	var s Space[value]
	for i, r := range [][2]uint64{{0x1000, 0x2000}, {0x3000, 0x4000}, {0x4000, 0x4001}} {
		s = s.With(Range[value]{r[0], r[1], value{file: uint64(i + 1)}}, cut)
	}
	for addr, want := range map[uint64]uint64{0: 0, 0xfff: 0, 0x1000: 1, 0x1fff: 1, 0x2000: 0, 0x3000: 2, 0x3fff: 2,
		0x4000: 3, 0x4001: 0, 1 << 63: 0} {
		var got uint64
		if r := s.Find(addr); r != nil {
			got = r.Value.file
		}
		if got != want {
			t.Errorf("%#x is in range %d, want %d", addr, got, want)
		}
	}
}

// TestBlocks compares a space of many ranges with a value for each address.
func TestBlocks(t *testing.T) {
	const size = 1 << 14
	rng := rand.New(rand.NewPCG(1, 2))
	var s Space[value]
	var flat [size]value // file 0: none
	most := 0
	for i := range 5000 {
		addr := uint64(rng.IntN(size - 100))
		old := s // stays as it is
		before := s.Len()
		if i%5 == 4 {
			if r := s.Find(addr); r != nil {
				clear(flat[r.Start:r.End])
			}
			s = s.Without(addr)
		} else {
			r := Range[value]{addr, addr + 1 + uint64(rng.IntN(64)), value{file: uint64(i + 1)}}
			s = s.With(r, cut)
			for a := r.Start; a < r.End; a++ {
				flat[a] = value{r.Value.file, a - r.Start}
			}
		}
		if old.Len() != before {
			t.Fatalf("change %d: changes the space that it is made of", i)
		}
		most = max(most, s.Len())
		for _, b := range s.blocks {
			if len(b) == 0 || len(b) > blockSize {
				t.Fatalf("change %d: a block of %d", i, len(b))
			}
		}
		for range 20 {
			a := uint64(rng.IntN(size))
			var got value
			if r := s.Find(a); r != nil {
				got = value{r.Value.file, r.Value.off + a - r.Start}
			}
			if got != flat[a] {
				t.Fatalf("change %d: %#x shows %v, not %v", i, a, got, flat[a])
			}
		}
	}
	var end uint64
	for r := range s.All() {
		if r.Start < end || r.End <= r.Start {
			t.Fatalf("range %#x-%#x overlaps the one before or is empty", r.Start, r.End)
		}
		end = r.End
	}
	if most < 3*blockSize {
		t.Errorf("at most %d ranges: too few for several blocks", most)
	}
}

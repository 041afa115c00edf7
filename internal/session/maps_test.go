package session

import (
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
)

// TestMapsInBlocks: many mappings are kept as one list of them would be.
func TestMapsInBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ms, list := &maps{}, []*Map{}
	same := func(a, b *Map) bool {
		return a.Start == b.Start && a.End == b.End && a.Pgoff == b.Pgoff && a.DSO == b.DSO
	}
	most := 0
	for i := range 5000 {
		if i%5 == 4 && len(list) > 0 {
			m := list[rng.IntN(len(list))]
			i := sort.Search(len(list), func(i int) bool { return list[i].Start >= m.Start })
			list = slices.Delete(slices.Clone(list), i, i+1)
			ms = ms.without(ms.find(m.Start))
		} else {
			m := &Map{Start: uint64(rng.IntN(1 << 20)), DSO: &DSO{}}
			m.End = m.Start + 1 + uint64(rng.IntN(1<<(4+rng.IntN(8))))
			list, ms = insert(list, m), ms.with(m)
		}
		most = max(most, len(list))
		if !slices.EqualFunc(ms.list(), list, same) {
			t.Fatalf("change %d: the list differs", i)
		}
		for _, b := range ms.blocks {
			if len(b) == 0 || len(b) > blockSize {
				t.Fatalf("change %d: a block of %d", i, len(b))
			}
		}
		ip := uint64(rng.IntN(1 << 20))
		at := slices.IndexFunc(list, func(m *Map) bool { return m.Start <= ip && ip < m.End })
		switch m := ms.find(ip); {
		case (m == nil) != (at < 0):
			t.Fatalf("change %d: %#x: %v", i, ip, m)
		case m != nil && !same(m, list[at]):
			t.Fatalf("change %d: %#x: %v, not %v", i, ip, m, list[at])
		}
	}
	if most < 3*blockSize {
		t.Errorf("at most %d mappings: that is no test of blocks", most)
	}
}

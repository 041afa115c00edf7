// Package intern assigns dense numbers to distinct values.
package intern

// Index returns the index of v in list, and adds it if missing. index contains the indices of the list's values.
func Index[T comparable](index map[T]int32, list *[]T, v T) int32 {
	i, ok := index[v]
	if !ok {
		i = int32(len(*list))
		index[v] = i
		*list = append(*list, v)
	}
	return i
}

// Table holds the numbers of values, from 0 in the order of Add, by hashes that the caller computes. Unlike a map,
// it does not keep the values.
type Table struct {
	slots []slot // a power of two
	n     int32
}

type slot struct {
	hash, number uint32 // number is one more; 0: the slot is free
}

// Add returns the number of the value with this hash for which equal is true. If there is none, it is a new value: Add
// returns the next number and true.
func (t *Table) Add(hash uint32, equal func(number int32) bool) (number int32, added bool) {
	if 4*int(t.n) >= 3*len(t.slots) {
		t.grow()
	}
	s := t.find(hash, equal)
	if s.number > 0 {
		return int32(s.number - 1), false
	}
	t.n++
	*s = slot{hash, uint32(t.n)}
	return t.n - 1, true
}

// find returns the slot of a value, or the free one where it belongs.
func (t *Table) find(hash uint32, equal func(int32) bool) *slot {
	mask := uint32(len(t.slots) - 1)
	for i := hash; ; i++ {
		s := &t.slots[i&mask]
		if s.number == 0 || s.hash == hash && equal(int32(s.number-1)) {
			return s
		}
	}
}

func (t *Table) grow() {
	old := t.slots
	t.slots = make([]slot, max(16, 2*len(old)))
	for _, s := range old {
		if s.number > 0 {
			*t.find(s.hash, func(int32) bool { return false }) = s
		}
	}
}

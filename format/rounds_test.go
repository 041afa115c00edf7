package format

import (
	"reflect"
	"testing"
)

func TestSorter(t *testing.T) {
	for _, tc := range []struct {
		name   string
		rounds [][]uint64
		want   [][]uint64 // ready after each round, and at the end
	}{
		{"picture", [][]uint64{{1, 4, 6, 2, 3, 5}, {7, 9, 6, 8}}, [][]uint64{nil, {1, 2, 3, 4, 5, 6, 6}, {7, 8, 9}}},
		{"one ring", [][]uint64{{1, 2}, {3}, {4}}, [][]uint64{nil, {1, 2}, {3}, {4}}},
		{"late", [][]uint64{{5}, {6}, {1}}, [][]uint64{nil, {5}, {1, 6}, nil}},
		{"many runs", [][]uint64{{9, 8, 7, 6, 5, 4, 3, 2, 1}}, [][]uint64{nil, {1, 2, 3, 4, 5, 6, 7, 8, 9}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s RoundSorter[uint64]
			take := func() (l []uint64) {
				for v := s.Next(); v != nil; v = s.Next() {
					l = append(l, *v)
				}
				return l
			}
			var got [][]uint64
			for _, r := range tc.rounds {
				for _, v := range r {
					s.Put(v, v)
				}
				s.Round()
				got = append(got, take())
			}
			s.Flush()
			got = append(got, take())
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestSorterKeepsOrderOfEqualTimes(t *testing.T) {
	var s RoundSorter[int]
	for i, time := range []uint64{3, 3, 1, 3, 1, 2} {
		s.Put(time, i)
	}
	s.Flush()
	var got []int
	for v := s.Next(); v != nil; v = s.Next() {
		got = append(got, *v)
	}
	if want := []int{2, 4, 5, 0, 1, 3}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLateRecordsAreUsed(t *testing.T) {
	var s RoundSorter[int]
	put := func(times ...int) {
		for _, v := range times {
			s.Put(uint64(v), v)
		}
	}
	drain := func() (l []int) {
		for v := s.Next(); v != nil; v = s.Next() {
			l = append(l, *v)
		}
		return l
	}
	put(10, 20)
	s.Round()
	put(15, 30)
	s.Round() // all up to 20
	if got := drain(); !reflect.DeepEqual(got, []int{10, 15, 20}) {
		t.Errorf("first rounds: %v", got)
	}
	put(12, 40)
	s.Flush()
	if got := drain(); !reflect.DeepEqual(got, []int{12, 30, 40}) || s.Late != 1 {
		t.Errorf("the rest: %v, %d late", got, s.Late)
	}
	put(3, 1, 2, 4)
	s.Half()
	if got := drain(); !reflect.DeepEqual(got, []int{1, 2, 3}) {
		t.Errorf("older half: %v", got)
	}
}

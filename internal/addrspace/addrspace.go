// Package addrspace keeps values by ranges of addresses, such as the mappings of a process.
package addrspace

import (
	"iter"
	"slices"
	"sort"
)

// Range is the addresses Start to End-1, and the value for them.
type Range[T any] struct {
	Start, End uint64
	Value      T
}

// Space is ranges by address, without overlaps. It is immutable: a new range makes a new space, which
// shares most blocks with the old one, so that copies of a process with many mappings cost little. The
// zero Space is empty.
type Space[T any] struct {
	blocks [][]Range[T] // none is empty or longer than blockSize
}

// blockSize is more than the number of ranges of most processes.
const blockSize = 128

// block returns the index of the first block that contains a range ending after addr.
func (s Space[T]) block(addr uint64) int {
	return sort.Search(len(s.blocks), func(i int) bool { b := s.blocks[i]; return b[len(b)-1].End > addr })
}

// first returns the index of the first range that ends after addr.
func first[T any](list []Range[T], addr uint64) int {
	return sort.Search(len(list), func(i int) bool { return list[i].End > addr })
}

// Find returns the range that contains an address, nil if there is none.
func (s Space[T]) Find(addr uint64) *Range[T] {
	i := s.block(addr)
	if i == len(s.blocks) {
		return nil
	}
	b := s.blocks[i]
	if r := &b[first(b, addr)]; r.Start <= addr {
		return r
	}
	return nil
}

// All returns the ranges by address.
func (s Space[T]) All() iter.Seq[*Range[T]] {
	return func(yield func(*Range[T]) bool) {
		for _, b := range s.blocks {
			for i := range b {
				if !yield(&b[i]) {
					return
				}
			}
		}
	}
}

// Last returns the range with the highest addresses, nil if there is none.
func (s Space[T]) Last() *Range[T] {
	if len(s.blocks) == 0 {
		return nil
	}
	b := s.blocks[len(s.blocks)-1]
	return &b[len(b)-1]
}

// Len returns the number of ranges.
func (s Space[T]) Len() (n int) {
	for _, b := range s.blocks {
		n += len(b)
	}
	return n
}

// With returns the space with r, which must not be empty. Ranges that it overlaps lose that part: cut
// returns the value of the part start to end-1 of such a range.
func (s Space[T]) With(r Range[T], cut func(old *Range[T], start, end uint64) T) Space[T] {
	lo := s.block(r.Start)
	hi := lo
	for hi < len(s.blocks) && s.blocks[hi][0].Start < r.End {
		hi++
	}
	if lo == hi { // between two blocks: it joins one of them
		if lo > 0 {
			lo--
		} else {
			hi = min(hi+1, len(s.blocks))
		}
	}
	return s.replaced(lo, hi, insert(slices.Concat(s.blocks[lo:hi]...), r, cut))
}

// Without returns the space without the range that contains addr, if there is one.
func (s Space[T]) Without(addr uint64) Space[T] {
	if s.Find(addr) == nil {
		return s
	}
	i := s.block(addr)
	at := first(s.blocks[i], addr)
	return s.replaced(i, i+1, slices.Delete(slices.Clone(s.blocks[i]), at, at+1))
}

// replaced returns the space with list in place of the blocks lo to hi-1.
func (s Space[T]) replaced(lo, hi int, list []Range[T]) Space[T] {
	size := blockSize
	if len(list) > size {
		size /= 2 // room for more
	}
	return Space[T]{slices.Concat(s.blocks[:lo], slices.Collect(slices.Chunk(list, size)), s.blocks[hi:])}
}

// insert returns the list with r; ranges that it overlaps lose that part.
func insert[T any](list []Range[T], r Range[T], cut func(old *Range[T], start, end uint64) T) []Range[T] {
	lo := first(list, r.Start)
	hi := lo
	for hi < len(list) && list[hi].Start < r.End {
		hi++
	}
	put := make([]Range[T], 0, 3)
	if lo < hi && list[lo].Start < r.Start {
		old := &list[lo]
		put = append(put, Range[T]{old.Start, r.Start, cut(old, old.Start, r.Start)})
	}
	put = append(put, r)
	if lo < hi && list[hi-1].End > r.End {
		old := &list[hi-1]
		put = append(put, Range[T]{r.End, old.End, cut(old, r.End, old.End)})
	}
	return slices.Concat(list[:lo], put, list[hi:])
}

package bpf

import (
	"slices"
	"time"
)

// extents allocates parts of an array of n elements. A freed part is not allocated again before the time grace has
// passed, because a program may still be reading it.
type extents struct {
	free  []extent // sorted by position, not adjacent
	grace time.Duration
	given []returned // oldest first
}

type extent struct{ first, n uint32 }

type returned struct {
	extent
	at time.Time
}

func newExtents(n uint32, grace time.Duration) *extents {
	return &extents{free: []extent{{0, n}}, grace: grace}
}

// take allocates n adjacent elements and returns the first.
func (e *extents) take(n uint32, now time.Time) (first uint32, ok bool) {
	e.reclaim(now)
	for i := range e.free {
		f := &e.free[i]
		if f.n < n {
			continue
		}
		first = f.first
		if f.first, f.n = f.first+n, f.n-n; f.n == 0 {
			e.free = slices.Delete(e.free, i, i+1)
		}
		return first, true
	}
	return 0, false
}

// give frees n elements.
func (e *extents) give(first, n uint32, now time.Time) {
	if n > 0 {
		e.given = append(e.given, returned{extent{first, n}, now})
	}
}

// reclaim makes elements available that were freed long enough ago.
func (e *extents) reclaim(now time.Time) {
	i := 0
	for ; i < len(e.given) && now.Sub(e.given[i].at) >= e.grace; i++ {
		e.join(e.given[i].extent)
	}
	e.given = slices.Delete(e.given, 0, i)
}

// join adds an extent to the free ones.
func (e *extents) join(x extent) {
	i, _ := slices.BinarySearchFunc(e.free, x.first, func(f extent, first uint32) int {
		if f.first < first {
			return -1
		}
		return 1
	})
	if i < len(e.free) && x.first+x.n == e.free[i].first {
		e.free[i].first, e.free[i].n = x.first, x.n+e.free[i].n
	} else {
		e.free = slices.Insert(e.free, i, x)
	}
	if i > 0 && e.free[i-1].first+e.free[i-1].n == e.free[i].first {
		e.free[i-1].n += e.free[i].n
		e.free = slices.Delete(e.free, i, i+1)
	}
}

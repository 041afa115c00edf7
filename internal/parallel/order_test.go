package parallel

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
)

// TestInOrder: results are used in the order of the numbers, and few exist at a time.
func TestInOrder(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var made, most atomic.Int64
	var got []int
	err := InOrder(100, func(i int) int {
		n := made.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		return i
	}, func(i, v int) error {
		made.Add(-1)
		got = append(got, v)
		if i != v {
			t.Errorf("result %d is of %d", i, v)
		}
		return nil
	}, nil)
	if err != nil || !slices.IsSorted(got) || len(got) != 100 {
		t.Errorf("%v, %v", got, err)
	}
	if n := most.Load(); n > 5 {
		t.Errorf("%d results at a time, want at most 5", n)
	}
}

// TestInOrderError: an error ends the work, and results that nobody uses are dropped.
func TestInOrderError(t *testing.T) {
	var made, dropped atomic.Int64
	failed := errors.New("failed")
	err := InOrder(1000, func(i int) int { made.Add(1); return i }, func(i, _ int) error {
		if i == 10 {
			return failed
		}
		return nil
	}, func(int) { dropped.Add(1) })
	if err != failed || made.Load() != 11+dropped.Load() {
		t.Errorf("%v after %d results, %d of them dropped", err, made.Load(), dropped.Load())
	}
}

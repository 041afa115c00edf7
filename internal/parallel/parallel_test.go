package parallel

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
)

// TestDo checks that Do calls the function exactly once for each number, and returns after all calls.
func TestDo(t *testing.T) {
	for _, n := range []int{0, 1, runtime.GOMAXPROCS(0), 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			calls := make([]atomic.Int32, n)
			Do(n, func(i int) { calls[i].Add(1) })
			for i := range calls {
				if got := calls[i].Load(); got != 1 {
					t.Errorf("%d calls for %d", got, i)
				}
			}
		})
	}
}

// TestLater: the work begins at once, is done once, and all who wait get its result.
func TestLater(t *testing.T) {
	var made atomic.Int64
	begun := make(chan struct{})
	wait := Later(func() int64 { close(begun); return made.Add(1) })
	<-begun
	for range 3 {
		if got := wait(); got != 1 {
			t.Errorf("result %d", got)
		}
	}
}

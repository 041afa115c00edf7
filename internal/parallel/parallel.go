// Package parallel spreads independent pieces of work over all CPUs.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Do calls do for each number below n, in any order, and returns when all calls have
// returned. Each goroutine takes the next number, so uneven pieces cost no idle CPU.
func Do(n int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	workers.Wait()
}

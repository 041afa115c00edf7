// Package parallel spreads independent pieces of work over all CPUs, and begins work that is needed later.
package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Do calls do for each number below n, in any order, and returns after all calls returned. Each goroutine takes the
// next number, so uneven pieces cost no idle CPU.
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

// InOrder calls make for each number below n, for several of them at once, and use with the results in the order of
// the numbers, in the caller's goroutine. There are at most as many results at a time as CPUs, besides the one in
// use. It ends with the first error of use, after the running calls of make; drop, if set, gets the results of
// these calls.
func InOrder[T any](n int, make func(i int) T, use func(i int, v T) error, drop func(v T)) error {
	var running []chan T // of consecutive numbers, the first is used next
	next := 0
	start := func() {
		for ; next < n && len(running) < runtime.GOMAXPROCS(0); next++ {
			i, made := next, newResult[T]()
			running = append(running, made)
			go func() { made <- make(i) }()
		}
	}
	for i := range n {
		start()
		v := <-running[0]
		running = running[1:]
		if err := use(i, v); err != nil {
			for _, made := range running {
				if v := <-made; drop != nil {
					drop(v)
				}
			}
			return err
		}
	}
	return nil
}

func newResult[T any]() chan T { return make(chan T, 1) }

// Later begins to make something in the background, and returns a function that waits for it.
func Later[T any](make func() T) (wait func() T) {
	wait = sync.OnceValue(make)
	go wait()
	return wait
}

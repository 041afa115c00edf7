// Growth runs goroutines whose stacks grow, and a loop in a function without a frame, for so many milliseconds.
package main

import (
	"os"
	"strconv"
	"sync"
	"time"
)

var sink int

//go:noinline
func deep(n int) int {
	var room [64]int
	room[n%64] = n
	if n == 0 {
		return room[5]
	}
	return deep(n-1) + room[n%64]
}

//go:noinline
func grow() { sink += deep(300) }

//go:noinline
func leaf(n int) {
	for i := range n {
		sink += i
	}
}

//go:noinline
func middle(n int) { leaf(n); sink++ }

//go:noinline
func outer(n int) { middle(n); sink++ }

func main() {
	ms, _ := strconv.Atoi(os.Args[1])
	for end := time.Now().Add(time.Duration(ms) * time.Millisecond); time.Now().Before(end); {
		var all sync.WaitGroup
		for range 4 {
			all.Go(grow)
		}
		all.Wait()
		outer(100_000)
	}
}

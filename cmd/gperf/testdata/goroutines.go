// Goroutines runs rounds of short goroutines, whose stacks are used again and again, at various depths. After the first
// round it waits for so many seconds, so that a recorder knows it by then.
package main

import (
	"os"
	"strconv"
	"sync"
	"time"
)

//go:noinline
func probed(n int) int { return leaf(n) + 1 }

//go:noinline
func leaf(n int) int { return n * 3 }

// deeper makes stacks grow, which are copied then: the memory that they leave is used for others.
//
//go:noinline
func deeper(n int) int {
	var room [32]func()
	room[n%32] = main
	if n == 0 {
		return probed(n)
	}
	if room[n/4] == nil {
		return deeper(n - 1)
	}
	return deeper(n-1) + 1
}

var sink [200]int

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	seconds, _ := strconv.Atoi(os.Args[2])
	for round := range rounds {
		if round == 1 {
			time.Sleep(time.Duration(seconds) * time.Second)
		}
		var wg sync.WaitGroup
		for i := range sink {
			wg.Add(1)
			go func(fill ...int) {
				defer wg.Done()
				sink[i] += deeper(i%100) + len(fill)
			}(make([]int, i%7)...)
		}
		wg.Wait()
	}
}

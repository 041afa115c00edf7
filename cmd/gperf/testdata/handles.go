// Handles calls handle 20 times, which sleeps for 30 ms, in one goroutine, while another one computes on the same
// thread.
package main

import (
	"os"
	"runtime"
	"time"
)

var sink int

//go:noinline
func handle(i int) {
	time.Sleep(30 * time.Millisecond)
	sink += i
}

//go:noinline
func busy() {
	for i := range 1_000_000 {
		sink ^= i
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	go func() {
		for {
			busy()
		}
	}()
	for i := range 20 {
		handle(i)
	}
	os.Exit(0)
}

// Dies calls functions that end with a panic, or with the exit of the process, in a child. A function never… is after
// each.
package main

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

var (
	sink    int
	numbers = make([]int, 3)
	nothing map[string]int
	any1    any
)

//go:noinline
func diesOfPanic(n int) { sink = n; panic(n) }

//go:noinline
func neverOfPanic(n int) { sink = n + 1; panic(n) }

//go:noinline
func diesOfIndex(n int) { sink = numbers[n+3] }

//go:noinline
func neverOfIndex(n int) { sink = numbers[n+4] }

//go:noinline
func diesOfSlice(n int) { numbers = numbers[n+3 : n+4] }

//go:noinline
func neverOfSlice(n int) { numbers = numbers[n+4 : n+5] }

//go:noinline
func diesOfMap(n int) { nothing["x"] = n }

//go:noinline
func neverOfMap(n int) { nothing["y"] = n }

//go:noinline
func diesOfType(n int) { sink = any1.(int) + n }

//go:noinline
func neverOfType(n int) { sink = any1.(int) + n + 1 }

//go:noinline
func diesOfGoexit(n int) { sink = n; runtime.Goexit() }

//go:noinline
func neverOfGoexit(n int) { sink = n + 1; runtime.Goexit() }

//go:noinline
func diesOfExit(n int) { sink = n; os.Exit(n) }

//go:noinline
func neverOfExit(n int) { sink = n + 1; os.Exit(n) }

func main() {
	if len(os.Args) > 1 {
		diesOfExit(1)
	}
	done := make(chan bool)
	for _, f := range []func(int){diesOfPanic, diesOfIndex, diesOfSlice, diesOfMap, diesOfType, diesOfGoexit} {
		go func() {
			defer func() { recover(); done <- true }()
			f(1)
		}()
		<-done
	}
	for i, f := range []func(int){neverOfPanic, neverOfIndex, neverOfSlice, neverOfMap, neverOfType, neverOfGoexit,
		neverOfExit} {
		if i < sink-1000 {
			f(i)
		}
	}
	exec.Command(os.Args[0], strconv.Itoa(sink)).Run()
}

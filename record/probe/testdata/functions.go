// Functions of Go to probe: methods, generics, and a stack that moves while a
// function is to return.
package main

import "os"

type T struct{ n int }

//go:noinline
func (t *T) Method(a int) int {
	if a > 2 {
		return a
	}
	return t.n + deep(a+100)
}

//go:noinline
func deep(n int) int {
	var room [512]byte
	if n == 0 {
		return 0
	}
	room[n%512] = 1
	return deep(n-1) + int(room[n%512])
}

//go:noinline
func Generic[V any](v V) []V { return []V{v} }

func main() {
	t, sum := &T{3}, 0
	for i := range 5 {
		done := make(chan int)
		go func() { done <- t.Method(i) + len(Generic(i)) }()
		sum += <-done
	}
	if sum != 324 {
		os.Exit(1)
	}
}

// Strings and floating-point numbers of Go, for probes to read. None of the strings
// ends with a NUL.
package main

type shape struct {
	area float64
	side float32
	at   [3]float64
	name string
	raw  []byte
}

//go:noinline
func values(s string, b []byte, sh *shape) int { println(s, len(b), sh.area); return len(s) }

//go:noinline
func returned(n int) string { return "hello, world"[:n] }

func main() {
	sh := &shape{3.25, -0.5, [3]float64{1e100, 0.1, -2}, "square and more"[:6], []byte("bytes and more")[:5]}
	values("hello, world"[:5], []byte("abcdef")[:3], sh)
	values("", nil, sh)
	println(returned(4))
}

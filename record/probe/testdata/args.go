// Values of Go, for probes to read.
package main

type T struct {
	name string
	n    int
}

//go:noinline
func (t *T) Method(s string, b []byte, k int) int { println(t.name, s, len(b), k); return k + t.n }

func main() { (&T{"tee", 4}).Method("hello", []byte("abc"), 2) }

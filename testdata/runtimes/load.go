//go:build ignore

// The load of go: calls, garbage, maps, goroutines, JSON, panics.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:noinline
func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

type row struct {
	ID   int
	Tags []string
}

func documents() int {
	var rows []row
	for i := range 2000 {
		rows = append(rows, row{i, []string{"a", strconv.Itoa(i)}})
	}
	b, _ := json.Marshal(rows)
	json.Unmarshal(b, &rows)
	sort.Slice(rows, func(i, j int) bool { return rows[i].ID > rows[j].ID })
	return len(rows)
}

var word = regexp.MustCompile(`(\w+) (\w+)`)

func words() int {
	return len(word.ReplaceAllString(strings.Repeat("the quick brown fox jumps over the lazy dog ", 100), "$2 $1"))
}

func throwing(n int) (err any) {
	defer func() { err = recover() }()
	var deep func(n int) int
	deep = func(n int) int {
		if n == 0 {
			panic("at the bottom")
		}
		return deep(n-1) + 1
	}
	return deep(n)
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	end := time.Now().Add(time.Duration(seconds * 1e9))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for time.Now().Before(end) {
				fib(22)
				documents()
				words()
				throwing(50)
				sha256.Sum256(make([]byte, 100000))
				fmt.Sprint(time.Now())
			}
		})
	}
	all.Wait()
}

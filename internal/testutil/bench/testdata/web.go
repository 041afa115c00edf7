// Web answers requests over HTTP from itself, of 16 clients, for some seconds, and prints how many a second it answers.
// RUNTIME_TRACE names a file for runtime/trace.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"time"
)

const clients, lasts = 16, 4 * time.Second

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	if name := os.Getenv("RUNTIME_TRACE"); name != "" {
		f, err := os.Create(name)
		check(err)
		defer f.Close()
		check(trace.Start(f))
		defer trace.Stop()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	var mu sync.Mutex
	seen := map[string]int{}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.URL.Path]++
		mu.Unlock()
		io.WriteString(w, "hello")
	}))
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	var answered atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(lasts)
	for range clients {
		wg.Go(func() {
			for time.Now().Before(end) {
				r, err := c.Get("http://" + l.Addr().String() + "/")
				check(err)
				io.Copy(io.Discard, r.Body)
				r.Body.Close()
				answered.Add(1)
			}
		})
	}
	wg.Wait()
	fmt.Printf("%.0f requests/s\n", float64(answered.Load())/lasts.Seconds())
}

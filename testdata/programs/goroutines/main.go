// Goroutines wait for each other, for a mutex, time and the network. The first argument is a file for runtime/trace.
package main

import (
	"io"
	"net"
	"os"
	"runtime/trace"
	"sync"
	"time"
)

const rounds = 150

var (
	mu sync.Mutex
	wg sync.WaitGroup
)

func start(f func()) {
	wg.Add(1)
	go func() {
		defer wg.Done()
		for range rounds {
			f()
		}
	}()
}

func spin(d time.Duration) {
	for t := time.Now(); time.Since(t) < d; {
	}
}

func holder() {
	mu.Lock()
	time.Sleep(8 * time.Millisecond)
	mu.Unlock()
	time.Sleep(time.Millisecond)
}

func contender() {
	mu.Lock()
	spin(100 * time.Microsecond)
	mu.Unlock()
	time.Sleep(2 * time.Millisecond)
}

//go:noinline
func consume(c <-chan int) {
	<-c
	spin(100 * time.Microsecond)
}

//go:noinline
func pick(a, b <-chan int) {
	select {
	case <-a:
	case <-b:
	}
}

func work(jobs <-chan int, done chan<- int) {
	for n := range jobs {
		time.Sleep(time.Millisecond)
		done <- n
	}
}

func serve(l net.Listener) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	b := make([]byte, 64)
	for {
		n, err := c.Read(b)
		if err != nil {
			return
		}
		time.Sleep(4 * time.Millisecond)
		c.Write(b[:n])
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	time.Sleep(500 * time.Millisecond) // for a recorder to learn of this process
	f, err := os.Create(os.Args[1])
	check(err)
	check(trace.Start(f))
	defer f.Close()
	defer trace.Stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go serve(l)
	c, err := net.Dial("tcp", l.Addr().String())
	check(err)
	one, two, never, jobs, done := make(chan int), make(chan int), make(chan int), make(chan int), make(chan int)
	go work(jobs, done)
	start(holder)
	start(contender)
	start(func() {
		time.Sleep(5 * time.Millisecond)
		one <- 1
	})
	start(func() { consume(one) })
	start(func() {
		time.Sleep(5 * time.Millisecond)
		two <- 1
	})
	start(func() { pick(two, never) })
	start(func() {
		jobs <- 1
		time.Sleep(9 * time.Millisecond)
		consume(done)
	})
	b := make([]byte, 64)
	start(func() {
		c.Write([]byte("hello"))
		io.ReadAtLeast(c, b, 5)
	})
	wg.Wait()
	close(jobs) // so that all waits end before the trace does
	c.Close()
	time.Sleep(10 * time.Millisecond)
}

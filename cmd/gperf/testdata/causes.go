// causes N: N calls of request in one goroutine, each with one cause, whose name it prints. Other goroutines use its
// threads meanwhile.
package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

var (
	mu   sync.Mutex
	held = make(chan bool) // mu is, by flush
	ask  net.Conn
	jobs = make(chan chan int)
	sink int
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func depend(answer net.Conn) {
	b := make([]byte, 1)
	for {
		if _, err := answer.Read(b); err != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
		answer.Write(b)
	}
}

func flush(done chan<- bool) {
	mu.Lock()
	held <- true
	time.Sleep(20 * time.Millisecond)
	mu.Unlock()
	done <- true
}

func work() {
	for job := range jobs {
		time.Sleep(20 * time.Millisecond)
		job <- 1
	}
}

// others computes for a while, again and again.
func others() {
	for {
		compute(100_000)
		time.Sleep(time.Millisecond)
	}
}

//go:noinline
func compute(n int) {
	for i := range n {
		sink ^= i
	}
}

//go:noinline
func causeCPU() {
	for start := time.Now(); time.Since(start) < 20*time.Millisecond; {
		for i := range 100_000 {
			sink ^= i
		}
	}
}

//go:noinline
func causeNeighbours() {
	for range 100 {
		for i := range 100_000 {
			sink ^= i
		}
	}
}

// neighbours starts four programs that compute on the CPU of this one, to which it binds all threads.
func neighbours() (stop func()) {
	var all, one unix.CPUSet
	check(unix.SchedGetaffinity(0, &all))
	for i := range 1024 {
		if all.IsSet(i) {
			one.Set(i)
			break
		}
	}
	bind(&one)
	var hogs []*exec.Cmd
	for range 4 {
		hog := exec.Command("sh", "-c", "while :; do :; done")
		check(hog.Start())
		hogs = append(hogs, hog)
	}
	time.Sleep(20 * time.Millisecond)
	return func() {
		for _, hog := range hogs {
			hog.Process.Kill()
			hog.Wait()
		}
		bind(&all)
	}
}

func bind(set *unix.CPUSet) {
	threads, err := os.ReadDir("/proc/self/task")
	check(err)
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		check(err)
		unix.SchedSetaffinity(tid, set) // it may have ended
	}
}

//go:noinline
func causeSleep() { time.Sleep(20 * time.Millisecond) }

//go:noinline
func causeLock() {
	mu.Lock()
	sink++
	mu.Unlock()
}

//go:noinline
func causeChannel() {
	job := make(chan int)
	jobs <- job
	<-job
}

//go:noinline
func causeDependency() {
	b := []byte{0}
	ask.Write(b)
	ask.Read(b)
}

//go:noinline
func causeFault() {
	b, err := unix.Mmap(-1, 0, 16<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	check(err)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	unix.Munmap(b)
}

//go:noinline
func request(cause func()) {
	cause()
	sink++
}

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	ask, err = net.Dial("tcp", l.Addr().String())
	check(err)
	answer, err := l.Accept()
	check(err)
	go depend(answer)
	go work()
	go others()
	n, err := strconv.Atoi(os.Args[1])
	check(err)
	time.Sleep(time.Second) // for a recorder to learn of this process
	causes := []struct {
		name string
		do   func()
	}{{"causeCPU", causeCPU}, {"causeSleep", causeSleep}, {"causeLock", causeLock}, {"causeChannel", causeChannel},
		{"causeDependency", causeDependency}, {"causeFault", causeFault}, {"causeNeighbours", causeNeighbours}}
	for i := range n {
		cause := causes[i%len(causes)]
		fmt.Println(cause.name)
		done := make(chan bool, 1)
		stop := func() {}
		switch cause.name {
		case "causeLock":
			go flush(done)
			<-held
			stop = func() { <-done }
		case "causeNeighbours":
			stop = neighbours()
		}
		request(cause.do)
		stop()
	}
}

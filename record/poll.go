package record

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for rings that are half full, for exiting threads, and for other goroutines.
//
// Go's runtime waits for the epoll instance, as for a socket: a system call that waits keeps the runtime's monitor
// awake, which then takes a third of the recorder's CPU time. But the runtime asks the files whether they are ready,
// and a ring says so only once. So events of rings only end a wait.
type poller struct {
	epoll    int
	file     *os.File      // of epoll
	counters int           // number of counters whose threads live
	woken    chan struct{} // of capacity 1
	rings    atomic.Uint64 // how often files ended a wait
	ended    chan struct{} // closed when run returns
}

func newPoller() *poller { return &poller{epoll: -1, woken: make(chan struct{}, 1)} }

// open makes the poller wait for signal, and nothing else yet.
func (p *poller) open() (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	unix.SetNonblock(p.epoll, true) // for os.NewFile
	p.file = os.NewFile(uintptr(p.epoll), "epoll")
	conn, err := p.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	p.ended = make(chan struct{})
	go p.run(conn)
	return nil
}

// run signals each time that a file may be ready, until the poller is closed.
func (p *poller) run(conn syscall.RawConn) {
	defer close(p.ended)
	for err := error(nil); err == nil; {
		began := false
		err = conn.Read(func(uintptr) bool {
			if began {
				p.rings.Add(1)
				return true
			}
			// The runtime forgets events that it saw before it began this wait: so the signal comes after that.
			began = true
			p.signal()
			return false
		})
	}
}

// watch waits for events of a file.
func (p *poller) watch(fd int, events uint32) error {
	return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// forget does not wait for a file any more.
func (p *poller) forget(fd int) { unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, fd, nil) }

// signal ends a wait.
func (p *poller) signal() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// wait waits until there may be something to do, at most for a time. It passes files that have ended, and are not
// counters, to other, which reports whether it knows the file. It returns how often rings ended a wait.
func (p *poller) wait(most time.Duration, other func(fd int) bool) (rings uint64, err error) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-p.woken:
	case <-timer.C:
	}
	rings = p.rings.Swap(0)
	for {
		var events [64]unix.EpollEvent
		n, err := unix.EpollWait(p.epoll, events[:], 0)
		if err != nil && err != unix.EINTR {
			return rings, err
		}
		for _, e := range events[:max(n, 0)] {
			if e.Events&(unix.EPOLLHUP|unix.EPOLLERR) == 0 {
				continue
			}
			p.forget(int(e.Fd))
			if !other(int(e.Fd)) {
				p.counters--
			}
		}
		if n < len(events) {
			return rings, nil
		}
	}
}

func (p *poller) close() {
	if p.file != nil {
		p.file.Close()
		<-p.ended
	}
	p.file, p.epoll = nil, -1
}

// earlyTime is how long a command is watched closely: programs copy their code to other memory when they start, which
// the recorder sees in their memory only, before they exit.
const earlyTime = 2 * time.Second

// Interval at which rings that are not half full are emptied, so that the file is never
// far out of date; the reader of a pipe may be interactive. With checkpoints, not even the last
// second may be missing if the recorder is killed.
const (
	idleFlush            = time.Second
	idleFlushEarly       = 50 * time.Millisecond
	idleFlushPipe        = 200 * time.Millisecond
	idleFlushCheckpoints = 500 * time.Millisecond
)

// wait waits until there is something to do. It reports whether the last of the threads has
// exited.
func (r *recorder) wait() (exited bool, err error) {
	idle := idleFlush
	switch {
	case time.Since(r.began) < earlyTime:
		idle = idleFlushEarly
	case r.opts.pipe():
		idle = idleFlushPipe
	case r.opts.Output.Checkpoints:
		idle = idleFlushCheckpoints
	}
	wakeups, err := r.poller.wait(idle, r.trigger.has)
	r.sum.Wakeups += wakeups
	r.trigger.check(&r.switcher)
	return r.poller.counters == 0 && !r.opts.Target.byCPU(), err
}

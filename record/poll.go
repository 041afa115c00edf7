package record

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// poller waits for rings that are half full, for exiting threads, and for other goroutines.
type poller struct {
	epoll    int
	counters int // number of counters whose threads live

	mu   sync.Mutex // close excludes signal, which other goroutines call at any time
	wake int        // eventfd, -1 if closed
}

func newPoller() *poller { return &poller{epoll: -1, wake: -1} }

// open makes the poller wait for signal, and nothing else yet.
func (p *poller) open() (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	return p.watch(p.wake, unix.EPOLLIN)
}

// watch waits for events of a file.
func (p *poller) watch(fd int, events uint32) error {
	return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// forget does not wait for a file any more.
func (p *poller) forget(fd int) { unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, fd, nil) }

// signal ends a wait.
func (p *poller) signal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wake < 0 {
		return
	}
	unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// wait waits until there is something to do, at most so many ms. It passes events of files that
// are not counters to other, which reports whether it knows the file, and returns how many
// rings are half full.
func (p *poller) wait(timeout int, other func(fd int, events uint32) bool) (rings uint64, err error) {
	var events [64]unix.EpollEvent
	n, err := unix.EpollWait(p.epoll, events[:], timeout)
	if err != nil && err != unix.EINTR {
		return 0, err
	}
	for _, e := range events[:max(n, 0)] {
		switch {
		case int(e.Fd) == p.wake:
			var b [8]byte
			unix.Read(p.wake, b[:])
		case other(int(e.Fd), e.Events):
		case e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0:
			p.forget(int(e.Fd))
			p.counters--
		default:
			rings++
		}
	}
	return rings, nil
}

func (p *poller) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fd := range []*int{&p.epoll, &p.wake} {
		if *fd >= 0 {
			unix.Close(*fd)
		}
		*fd = -1
	}
}

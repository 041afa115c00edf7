package record

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gperf/record/perfevent"
)

// mapRings maps a ring for each CPU, or thread, and directs all its counters to it. Without
// -m it reduces the rings' size until the user may lock their memory.
func (r *recorder) mapRings() error {
	pages := r.opts.Pages
	if pages == 0 {
		pages = perfevent.DefaultPages()
		if r.dwarf != nil && len(r.cpus) <= 32 {
			pages *= 4 // copies of stacks come in bursts
		}
	}
	for {
		r.sum.Pages = pages
		var err error
		r.rings, err = r.set.Map(pages, r.opts.Overwrite)
		if err == nil && r.opts.Pages == 0 && pages < perfevent.DefaultPages() {
			r.opts.notice(&RingsError{pages, perfevent.DefaultPages()})
		}
		if err == nil {
			r.warnSwitchSize()
		}
		if err == nil || r.opts.Pages != 0 || !errors.Is(err, unix.EPERM) || pages == 1 {
			return err
		}
		r.unmapRings()
		pages /= 2
	}
}

func (r *recorder) unmapRings() {
	perfevent.Unmap(r.rings)
	r.rings = nil
}

// watch sets up epoll: for rings that are half full, exiting threads, and the eventfd.
func (r *recorder) watch() (err error) {
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if r.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	if err := r.watchFD(r.wake, unix.EPOLLIN); err != nil {
		return err
	}
	ready := uint32(unix.EPOLLIN)
	if r.opts.Overwrite {
		ready = 0 // report only the exit of the thread
	}
	// All counters of a ring are woken alike, so one is enough; of threads, all are needed to
	// detect the exit of the last one.
	for _, c := range r.set.Counters {
		if c.Event == r.set.Counters[0].Event || slices.ContainsFunc(r.rings, func(ring *perfevent.Ring) bool { return ring.FD == c.FD }) {
			if err := r.watchFD(c.FD, ready); err != nil {
				return err
			}
			r.polled++
		}
	}
	return nil
}

func (r *recorder) watchFD(fd int, events uint32) error {
	return unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

package record

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// mapRings maps a ring for each CPU, or thread, and directs all its counters to it. Without
// -m it reduces the rings' size until the user may lock their memory.
func (r *recorder) mapRings() error {
	pages := r.opts.Pages
	if pages == 0 {
		pages = defaultPages()
		if r.dwarf != nil && len(r.cpus) <= 32 {
			pages *= 4 // copies of stacks come in bursts
		}
	}
	for {
		r.sum.Pages = pages
		err := r.tryMapRings(pages)
		if err == nil && r.opts.Pages == 0 && pages < defaultPages() {
			r.opts.notice(&RingsError{pages, defaultPages()})
		}
		if err == nil {
			r.tellSwitchSize()
		}
		if err == nil || r.opts.Pages != 0 || !errors.Is(err, unix.EPERM) || pages == 1 {
			return err
		}
		r.unmapRings()
		pages /= 2
	}
}

func (r *recorder) tryMapRings(pages int) (err error) {
	prot := unix.PROT_READ | unix.PROT_WRITE
	if r.opts.Overwrite {
		prot = unix.PROT_READ
	}
	r.rings, err = r.mapCounters(pages, prot)
	return err
}

// mapCounters maps a ring for each CPU, or thread, and directs all its counters to it. With
// an error it returns the rings mapped so far.
func (o *opener) mapCounters(pages, prot int) (rings []*Ring, err error) {
	type place struct{ cpu, tid int } // one of the two is -1
	mapped := map[place]*Ring{}
	for _, c := range o.counters {
		at := place{c.cpu, -1}
		if c.cpu < 0 {
			at.tid = c.tid
		}
		if ring := mapped[at]; ring != nil {
			if err := ring.attach(c.fd); err != nil {
				return rings, &OpenError{o.events[c.event], c.cpu, c.tid, err}
			}
			continue
		}
		ring, err := mapRing(c.fd, pages, prot)
		if err != nil {
			return rings, err
		}
		ring.cpu = c.cpu
		mapped[at] = ring
		rings = append(rings, ring)
	}
	return rings, nil
}

func (r *recorder) unmapRings() {
	for _, ring := range r.rings {
		ring.close()
	}
	r.rings = nil
}

// defaultPages returns the ring size that kernel.perf_event_mlock_kb allows every user for
// each CPU: that, less the ring's first page, rounded down to a power of 2.
func defaultPages() int {
	kb := sysctl("/proc/sys/kernel/perf_event_mlock_kb", 516)
	n := int(kb)<<10/os.Getpagesize() - 1
	pages := 1
	for pages*2 <= n {
		pages *= 2
	}
	return pages
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
	for _, c := range r.counters {
		if c.event == r.counters[0].event || slices.ContainsFunc(r.rings, func(ring *Ring) bool { return ring.fd == c.fd }) {
			if err := r.watchFD(c.fd, ready); err != nil {
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

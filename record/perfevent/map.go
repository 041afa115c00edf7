package perfevent

import (
	"os"

	"golang.org/x/sys/unix"
)

// Map maps a ring of so many pages, a power of 2, for each CPU or thread, and directs all its counters to
// it. With an error it returns the rings mapped so far. If the rings are to be overwritten, the kernel
// never waits for their records to be read.
func (s *Set) Map(pages int, overwrite bool) (rings []*Ring, err error) {
	prot := unix.PROT_READ | unix.PROT_WRITE
	if overwrite {
		prot = unix.PROT_READ
	}
	type target struct{ cpu, tid int } // one of the two is -1
	mapped := map[target]*Ring{}
	repair := RepairOf(s.Attrs)
	for _, c := range s.Counters {
		at := target{c.CPU, -1}
		if c.CPU < 0 {
			at.tid = c.TID
		}
		if ring := mapped[at]; ring != nil {
			if err := ring.Attach(c.FD); err != nil {
				return rings, &OpenError{s.Events[c.Event], c.CPU, c.TID, err}
			}
			continue
		}
		ring, err := mapRing(c.FD, pages, prot)
		if err != nil {
			return rings, err
		}
		ring.CPU, ring.Repair = c.CPU, repair
		mapped[at] = ring
		rings = append(rings, ring)
	}
	return rings, nil
}

// Unmap unmaps rings.
func Unmap(rings []*Ring) {
	for _, ring := range rings {
		ring.unmap()
	}
}

// DefaultPages returns the ring size that kernel.perf_event_mlock_kb allows every user for
// each CPU: that, less the ring's first page, rounded down to a power of 2.
func DefaultPages() int {
	kb := sysctl("/proc/sys/kernel/perf_event_mlock_kb", 516)
	n := int(kb)<<10/os.Getpagesize() - 1
	pages := 1
	for pages*2 <= n {
		pages *= 2
	}
	return pages
}

package perfevent

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"gperf/format"
)

// When a CPU goes offline, the kernel removes its counters for good. Their files stay open,
// and the ring stays mapped. When the CPU is online again, gperf opens its events again and
// directs them to the same ring. The kernel gives them new ids, which the file's header does
// not list: the recorder replaces these by the ids of the removed counters, in a copy of the
// ring's data, because the ring's data pages are read-only.

var errReopenCounts = errors.New("the counts in samples would begin at 0 again")

// Reopen opens the events of a CPU that is online again, in place of the counters that the
// kernel removed. It returns the first of the new counters, nil for a CPU without counters.
func (s *Set) Reopen(cpu int, rings []*Ring) (first *Counter, err error) {
	at := slices.IndexFunc(rings, func(ring *Ring) bool { return ring.CPU == cpu })
	if at < 0 {
		return nil, nil
	}
	fresh, err := s.openAgain(cpu)
	if err != nil {
		return nil, err
	}
	for i := range s.Counters {
		c := &s.Counters[i]
		if c.CPU != cpu {
			continue
		}
		if err := s.replace(rings[at], c, fresh[c.Event]); err != nil {
			return nil, err
		}
		if first == nil {
			first = c
		}
	}
	return first, nil
}

// openAgain opens each event that has a counter on a CPU, and returns the new counters by
// event.
func (s *Set) openAgain(cpu int) (map[int]Counter, error) {
	old := s.Counters
	defer func() { s.Counters, s.final = old, false }()
	s.final = true
	fresh := map[int]Counter{}
	for _, c := range old {
		if c.CPU != cpu {
			continue
		}
		err := errReopenCounts
		if s.Attrs[c.Event].SampleType&format.SampleRead == 0 {
			err = s.openEvent(c.Event, []int{cpu}, []int{c.TID})
		}
		if err != nil {
			for _, c := range s.Counters[len(old):] {
				unix.Close(c.FD)
			}
			return nil, err
		}
		fresh[c.Event] = s.Counters[len(s.Counters)-1]
	}
	return fresh, nil
}

// replace makes a new counter write to the ring of the removed one, under its id.
func (s *Set) replace(ring *Ring, removed *Counter, fresh Counter) error {
	a := &s.Attrs[removed.Event]
	if err := ring.Attach(fresh.FD); err != nil {
		unix.Close(fresh.FD)
		return err
	}
	id, err := KernelID(fresh.FD)
	if err != nil {
		unix.Close(fresh.FD)
		return err
	}
	ring.renameID(a, id, removed.ID)
	fresh.Replace(removed, a, len(s.Events))
	if removed.FD == ring.FD {
		s.retired = append(s.retired, removed.FD)
	} else {
		unix.Close(removed.FD)
	}
	on := removed.Enabled
	*removed = fresh
	return s.Enable(removed, on)
}

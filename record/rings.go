package record

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gperf/record/perfevent"
)

// mapRings maps a ring for each CPU, or thread, and directs all its counters to it. Without
// -m it reduces the rings' size until the user may lock their memory. wide makes larger rings.
// It returns the number of pages of each ring.
func mapRings(o *plan, set *perfevent.Set, wide bool) (rings []*perfevent.Ring, pages int, err error) {
	usual := perfevent.DefaultPages()
	pages = o.Pages
	if pages == 0 {
		pages = usual
		if wide {
			pages *= 4
		}
	}
	for {
		rings, err = set.Map(pages, o.Overwrite)
		switch {
		case err == nil && o.Pages == 0 && pages < usual:
			o.notice(&RingsError{pages, usual})
			return rings, pages, nil
		case err == nil, o.Pages != 0, !errors.Is(err, unix.EPERM), pages == 1:
			return rings, pages, err
		}
		perfevent.Unmap(rings)
		pages /= 2
	}
}

// watchRings makes the poller wait for rings that are half full, and for exiting threads.
func watchRings(p *poller, set *perfevent.Set, rings []*perfevent.Ring, overwrite bool) error {
	ready := uint32(unix.EPOLLIN)
	if overwrite {
		ready = 0 // report only the exit of the thread
	}
	// All counters of a ring are woken alike, so one is enough; of threads, all are needed to
	// detect the exit of the last one.
	for _, c := range set.Counters {
		owner := slices.ContainsFunc(rings, func(ring *perfevent.Ring) bool { return ring.FD == c.FD })
		if !owner && c.Event != set.Counters[0].Event {
			continue
		}
		if err := p.watch(c.FD, ready); err != nil {
			return err
		}
		p.counters++
	}
	return nil
}

// logCounters describes the events as opened.
func logCounters(o *plan, set *perfevent.Set, cpus int) {
	if o.Verbose == nil {
		return
	}
	for i, a := range set.Attrs {
		o.Verbose(fmt.Sprintf("event %d: %s, type %d, config %#x, sample type %#x, period or frequency %d, flags %#x",
			i, a.Name, a.Type, a.Config, a.SampleType, a.SamplePeriod, a.Flags))
	}
	for _, name := range set.Missing.Names() {
		o.Verbose("this kernel does not know " + name)
	}
	o.Verbose(fmt.Sprintf("%d counters on %d CPUs", len(set.Counters), cpus))
}

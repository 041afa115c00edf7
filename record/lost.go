package record

import (
	"gperf/format"
	"gperf/record/perfevent"
)

// losses counts the records that did not fit into the rings.
type losses struct {
	file     *file
	programs *bpfPrograms
}

// write writes a LOST_SAMPLES record for each counter with losses since the last call, as perf
// does, and counts all losses. Before Linux 6.0 counters do not count losses: then the LOST
// records that the kernel put into the rings count. If counters count them, LOST records repeat
// the same losses, but only those that were followed by another record.
func (l *losses) write() error {
	f := l.file
	f.sum.Lost, f.sum.LostSideBand = 0, 0
	var b []byte
	for _, counters := range append(l.programs.all.Counters(), f.set.Counters) {
		for i := range counters {
			c := &counters[i]
			if f.set.Attrs[c.Event].ReadFormat&format.ReadLost == 0 {
				f.sum.LostRecords = f.tally.Lost
				return l.flush(b)
			}
			n, err := f.set.Lost(c)
			if err != nil {
				return err
			}
			b = l.append(b, c, n)
		}
	}
	return l.flush(b)
}

// append counts the losses of a counter, and appends a record of those since the last call.
func (l *losses) append(b []byte, c *perfevent.Counter, n uint64) []byte {
	f := l.file
	if f.set.Events[c.Event].IsDummy() {
		f.sum.LostSideBand += n
	} else {
		f.sum.Lost += n
	}
	if n == c.Reported {
		return b
	}
	rec := format.LostSamples{Lost: n - c.Reported, ID: format.RecordID{ID: c.ID, CPU: uint32(c.CPU)}}
	c.Reported = n
	return rec.AppendTo(b, f.set.Attrs[c.Event].SampleType)
}

// throttled returns by event how often the kernel throttled it, nil if never.
func (l *losses) throttled() (n map[string]uint64) {
	for i := range l.file.set.Attrs {
		for _, id := range l.file.set.Attrs[i].IDs {
			if times := l.file.tally.Throttled[id]; times > 0 {
				if n == nil {
					n = map[string]uint64{}
				}
				n[l.file.set.Events[i].Name] += times
			}
		}
	}
	return n
}

func (l *losses) flush(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := l.file.write(b); err != nil {
		return err
	}
	l.file.commit()
	return nil
}

// sideBand returns the number of lost records of events that write side band; of all events
// before Linux 6.0, which does not count per event.
func (l *losses) sideBand() (n uint64) {
	set := l.file.set
	for i := range set.Counters {
		c := &set.Counters[i]
		a := &set.Attrs[c.Event]
		if !perfevent.Tracks(a) {
			continue
		}
		if a.ReadFormat&format.ReadLost == 0 {
			return l.file.tally.Lost
		}
		if lost, err := set.Lost(c); err == nil { // else it is read again at the end
			n += lost
		}
	}
	return n
}

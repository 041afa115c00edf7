package programs

import (
	"time"

	"gperf/record/perfevent"
	"gperf/record/stacks"
)

// Source is the source of rings with samples that BPF programs make, without user stacks that
// BPF walks.
type Source struct {
	mergers []*stacks.Merger
	merged  stacks.Merged
	tally   *perfevent.Tally
}

// NewSource returns the source of the rings of mergers. It counts the written records.
func NewSource(mergers []*stacks.Merger, tally *perfevent.Tally) *Source {
	return &Source{mergers: mergers, tally: tally}
}

// SetLate makes Drain call a function after merging all rings. The function may add samples.
func (s *Source) SetLate(late func(*stacks.Merged)) { s.merged.SetLate(late) }

// Drain writes the rings' records, and returns the records' number of bytes.
func (s *Source) Drain(write func([]byte) error) (total int, err error) {
	for _, n := range s.mergers {
		head := n.Ring.Written()
		if head == n.Ring.Read {
			continue
		}
		n.Merge(&s.merged, head)
		if err := s.merged.Write(s.tally, write); err != nil {
			return total, err
		}
		total += int(head - n.Ring.Read)
		n.Ring.Release(head)
	}
	s.merged.Complete()
	return total, s.merged.Write(s.tally, write)
}

// Pending returns 0: no sample waits.
func (s *Source) Pending() int { return 0 }

// Flush does nothing: Drain writes all records.
func (s *Source) Flush(time.Time, func([]byte) error) error { return nil }

package perfevent

import "time"

// Source is the source of samples that the kernel writes completely: the rings' bytes as they
// are.
type Source struct {
	rings []*Ring
	tally *Tally
}

// NewSource returns the source of rings. It counts the written records.
func NewSource(rings []*Ring, tally *Tally) *Source { return &Source{rings, tally} }

// Drain writes the rings' records, and returns their number of bytes.
func (s *Source) Drain(write func([]byte) error) (total int, err error) {
	for _, ring := range s.rings {
		n, err := ring.drain(s.tally, write)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// Pending returns 0: no sample waits.
func (s *Source) Pending() int { return 0 }

// Flush does nothing: Drain writes all records.
func (s *Source) Flush(time.Time, func([]byte) error) error { return nil }

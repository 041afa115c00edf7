package perfevent

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Overwritten is the source of a flight recorder: the kernel fills each ring backwards and
// overwrites the oldest records. Flush writes them all; Drain does nothing.
type Overwritten struct {
	rings []*Ring
	tally *Tally
}

// NewOverwritten returns the source of overwritten rings. It counts the written records.
func NewOverwritten(rings []*Ring, tally *Tally) *Overwritten { return &Overwritten{rings, tally} }

// Drain writes nothing: the rings are read by Flush only.
func (o *Overwritten) Drain(func([]byte) error) (int, error) { return 0, nil }

// Pending returns 0: no sample waits.
func (o *Overwritten) Pending() int { return 0 }

// Flush writes the rings' records. The kernel must not write to the rings meanwhile, and so
// loses records.
func (o *Overwritten) Flush(_ time.Time, write func([]byte) error) error {
	if err := o.pause(1); err != nil {
		return err
	}
	for _, ring := range o.rings {
		b := ring.snapshot()
		if err := write(b); err != nil {
			return err
		}
		o.tally.Count(b)
	}
	return o.pause(0)
}

func (o *Overwritten) pause(on int) error {
	for _, ring := range o.rings {
		if err := unix.IoctlSetInt(ring.FD, unix.PERF_EVENT_IOC_PAUSE_OUTPUT, on); err != nil {
			return fmt.Errorf("pausing a ring: %w", err)
		}
	}
	return nil
}

// snapshot returns a copy of the records in a ring that is filled backwards, the oldest
// first.
func (r *Ring) snapshot() []byte {
	at := r.recordsFrom(r.Written())
	b := make([]byte, 0, r.Size())
	for i := len(at) - 1; i >= 0; i-- {
		b = r.AppendRecord(b, at[i])
	}
	return b
}

// recordsFrom returns the positions of complete records, the newest first. The ring ends with
// unused space, or with a record whose end is overwritten.
func (r *Ring) recordsFrom(head uint64) (at []uint64) {
	room := uint64(len(r.data))
	for pos := head; room >= 8; {
		size := r.Word(pos) >> 48
		if size < 8 || size > room {
			break
		}
		at = append(at, pos)
		pos += size
		room -= size
	}
	return at
}

package record

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// With Options.Overwrite the recorder is a flight recorder: the kernel fills each ring
// backwards and overwrites the oldest records. gperf reads nothing before output is switched
// or the recording ends.

// ErrBPFRings means that BPF programs cannot write to the rings.
var ErrBPFRings = errors.New("BPF programs need a ring per CPU that is read while it fills")

// errOverwrite also excludes copied stacks: too few would fit.
var (
	errOverwrite = fmt.Errorf("--overwrite: %w", ErrBPFRings)
	errPerThread = fmt.Errorf("--per-thread: %w", ErrBPFRings)
)

// ringsForBPF returns the reason why BPF programs cannot write to the rings, nil if they can.
func (o *Options) ringsForBPF() error {
	switch {
	case o.Overwrite:
		return errOverwrite
	case o.Target.perThread():
		return errPerThread
	}
	return nil
}

// snapshot writes the rings' records. The kernel must not write to the rings meanwhile.
func (r *recorder) snapshot() error {
	if err := r.pauseRings(1); err != nil {
		return err
	}
	for _, ring := range r.rings {
		held := ring.snapshot()
		if err := r.write(held); err != nil {
			return err
		}
		r.tally.count(&Ring{data: held[:len(ring.data)]}, uint64(len(held)))
	}
	r.commit()
	return r.pauseRings(0)
}

func (r *recorder) pauseRings(on int) error {
	for _, ring := range r.rings {
		if err := unix.IoctlSetInt(ring.fd, unix.PERF_EVENT_IOC_PAUSE_OUTPUT, on); err != nil {
			return fmt.Errorf("pausing a ring: %w", err)
		}
	}
	return nil
}

// snapshot returns a copy of the records in a ring that is filled backwards, the oldest
// first. Its capacity is the ring's.
func (r *Ring) snapshot() []byte {
	at := r.recordsFrom(r.written())
	held := make([]byte, 0, len(r.data))
	for i := len(at) - 1; i >= 0; i-- {
		held = r.append(held, at[i], at[i]+r.word(at[i])>>48)
	}
	return held
}

// recordsFrom returns the positions of complete records, the newest first. The ring ends with
// unused space, or with a record whose end is overwritten.
func (r *Ring) recordsFrom(head uint64) (at []uint64) {
	room := uint64(len(r.data))
	for pos := head; room >= 8; {
		size := r.word(pos) >> 48
		if size < 8 || size > room {
			break
		}
		at = append(at, pos)
		pos += size
		room -= size
	}
	return at
}

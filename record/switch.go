package record

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"gperf/record/event"
)

// Switch defines when output continues in another file. Every file is complete: it has its
// own synthesized records and feature sections.
type Switch struct {
	Signal   <-chan os.Signal // switch at each signal; nil: never
	Events   []event.Event    // switch at each occurrence
	Size     int64            // switch when the file has so many bytes; 0: never
	Every    time.Duration    // switch at this interval; 0: never
	MaxFiles int              // number of files to keep; 0: all
}

// switching is the state of switching the output.
type switching struct {
	due   atomic.Bool // switch at the next opportunity
	timer *time.Timer // nil without
}

func (s *Switch) enabled() bool {
	return s.Signal != nil || len(s.Events) > 0 || s.Size > 0 || s.Every > 0
}

// ParseSwitch parses the argument of --switch-output, except "signal": a size in B, K, M or
// G, or a time in s, m, h or d.
func ParseSwitch(s string) (Switch, error) {
	times := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	if size, err := ParseSize(s); err == nil {
		return Switch{Size: size}, nil
	}
	if n, unit := quantity(s); n != 0 && times[unit] != 0 && time.Duration(n) <= math.MaxInt64/times[unit] {
		return Switch{Every: time.Duration(n) * times[unit]}, nil
	}
	return Switch{}, fmt.Errorf("%q is neither signal nor a size in B, K, M, G nor a time in s, m, h, d", s)
}

// ParseSize parses a number of bytes in B, K, M or G.
func ParseSize(s string) (int64, error) {
	sizes := map[byte]int64{'B': 1, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}
	n, unit := quantity(s)
	if n == 0 || sizes[unit] == 0 {
		return 0, fmt.Errorf("%q is not a size in B, K, M, G", s)
	}
	return n * sizes[unit], nil
}

// quantity splits a number from its unit. It returns 0 if there is no number.
func quantity(s string) (n int64, unit byte) {
	if s == "" {
		return 0, 0
	}
	u, err := strconv.ParseUint(s[:len(s)-1], 10, 31)
	if err != nil {
		return 0, 0
	}
	return int64(u), s[len(s)-1]
}

// warnSwitchSize warns that files will be larger than requested: rings are emptied when they
// are half full.
func (r *recorder) warnSwitchSize() {
	half := int64(r.rings[0].Size() / 2)
	if size := r.opts.Switch.Size; size > 0 && size < half {
		r.opts.notice(fmt.Errorf("switch-output data size lower than wakeup kernel buffer size (%dK) expect bigger perf.data sizes", half>>10))
	}
}

// startSwitching starts the timer and the signals for switching.
func (r *recorder) startSwitching() (stop func()) {
	s := &r.opts.Switch
	if s.Every > 0 {
		r.timer = time.AfterFunc(s.Every, r.wantSwitch)
		return func() { r.timer.Stop() }
	}
	if s.Signal == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-s.Signal:
				r.wantSwitch()
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

func (r *recorder) wantSwitch() {
	r.due.Store(true)
	r.signal()
}

// switchDue reports whether it is time for another file. A file's size counts only after
// records other than the synthesized ones were written.
func (r *recorder) switchDue() bool {
	size := r.opts.Switch.Size
	return r.due.Swap(false) || size > 0 && r.data && r.out.Size() >= size
}

// switchOutput finishes the file, and begins another one: with synthesized records of the
// processes that ran when the switch was requested, and the side band since. So the new file
// includes all processes that started or exited during the switch.
func (r *recorder) switchOutput() error {
	var running, since []byte
	drain := func() error { _, err := r.drain(); return err }
	if !r.opts.TailSynth {
		r.tally.SideBand = &since
		keep := func(b []byte) error { running = append(running, b...); return nil }
		if err := r.describe(r.opts.Omit, keep, func(int, int) error { return drain() }); err != nil {
			return err
		}
	}
	if err := drain(); err != nil {
		return err
	}
	if err := r.settle(time.Now()); err != nil {
		return err
	}
	if err := r.tail(); err != nil {
		return err
	}
	if err := r.writeLost(); err != nil {
		return err
	}
	name, err := r.closeOutput()
	if err != nil {
		return err
	}
	if r.opts.Dumped != nil {
		r.opts.Dumped(name, r.sum.Wakeups)
	}
	r.sum.Wakeups = 0
	r.out.DropOldest(name)
	if r.timer != nil {
		r.timer.Reset(r.opts.Switch.Every)
	}
	r.tally.SideBand = nil
	if err := r.openOutput(); err != nil {
		return err
	}
	if err := r.write(append(running, since...)); err != nil {
		return err
	}
	return r.finishInit()
}

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

// Switch says when output goes on in another file. Every file is complete in
// itself: it describes again what runs, and has its own sections.
type Switch struct {
	Signal   <-chan os.Signal // for each that comes; nil: none does
	Events   []event.Event    // for each that happens
	Size     int64            // when the file has so many bytes; 0: never
	Every    time.Duration    // 0: never
	MaxFiles int              // so many are kept; 0: all
}

// switching is how far a recording has come with it.
type switching struct {
	due    atomic.Bool // the next file
	timer  *time.Timer // nil without
	dumped []string    // files that are to be kept, the oldest first; nil if all are
}

func (s *Switch) enabled() bool {
	return s.Signal != nil || len(s.Events) > 0 || s.Size > 0 || s.Every > 0
}

// ParseSwitch parses what --switch-output has, but for "signal": a size in B, K, M or
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

// quantity splits a number from its unit. The number is 0 if it is none.
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

// tellSwitchSize says that files will be larger than asked for: rings are emptied when
// they are half full.
func (r *recorder) tellSwitchSize() {
	half := int64(len(r.rings[0].data) / 2)
	if size := r.opts.Switch.Size; size > 0 && size < half {
		r.opts.notice(fmt.Errorf("switch-output data size lower than wakeup kernel buffer size (%dK) expect bigger perf.data sizes", half>>10))
	}
}

// startSwitching begins to wait for what output is switched for.
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

// switchDue tells whether it is time for another file. By its size one is only
// done with when there is something in it of its own.
func (r *recorder) switchDue() bool {
	size := r.opts.Switch.Size
	return r.due.Swap(false) || size > 0 && r.data && r.size() >= size
}

// switchOutput finishes the file, and begins another one: with a description of
// what ran when that was to be done, and with what the kernel told from then on until
// it was done. So nothing is missing of what ended or began meanwhile.
func (r *recorder) switchOutput() error {
	var running, since []byte
	drain := func() error { _, err := r.drain(); return err }
	if !r.opts.TailSynth {
		r.tally.side = &since
		keep := func(b []byte) error { running = append(running, b...); return nil }
		if err := r.describe(r.opts.Omit, keep, func(int, int) error { return drain() }); err != nil {
			return err
		}
	}
	if err := drain(); err != nil {
		return err
	}
	if err := r.tail(); err != nil {
		return err
	}
	if err := r.settle(time.Now()); err != nil {
		return err
	}
	if err := r.writeLost(); err != nil {
		return err
	}
	name, err := r.finish()
	if err != nil {
		return err
	}
	if r.opts.Dumped != nil {
		r.opts.Dumped(name, r.sum.Wakeups)
	}
	r.sum.Wakeups = 0
	r.dropOldest(name)
	if r.timer != nil {
		r.timer.Reset(r.opts.Switch.Every)
	}
	r.tally.side = nil
	if err := r.create(); err != nil {
		return err
	}
	if err := r.write(append(running, since...)); err != nil {
		return err
	}
	return r.finishInit()
}

// dropOldest removes the oldest file, where only so many are kept.
func (r *recorder) dropOldest(newest string) {
	most := r.opts.Switch.MaxFiles
	if most == 0 {
		return
	}
	r.dumped = append(r.dumped, newest)
	if len(r.dumped) > most {
		os.Remove(r.dumped[0])
		r.dumped = r.dumped[1:]
	}
}

// timestamp renames a file to one with the time in hundredths of seconds behind its
// name, as perf writes it; a name that there is already is passed over.
func timestamp(path string) (string, error) {
	for t := time.Now(); ; t = t.Add(10 * time.Millisecond) {
		name := fmt.Sprintf("%s.%s%02d", path, t.Format("20060102150405"), t.Nanosecond()/1e7)
		if _, err := os.Lstat(name); err == nil {
			continue
		} else if !os.IsNotExist(err) {
			return "", err
		}
		return name, os.Rename(path, name)
	}
}

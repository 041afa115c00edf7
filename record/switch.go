package record

import (
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"

	"gperf/internal/text"
	"gperf/record/event"
)

// Switch defines when output continues in another file. Every file is complete: it has its
// own synthesized records and feature sections.
type Switch struct {
	Signal   <-chan os.Signal // switch at each signal; nil: never
	Events   []event.Event    // switch at each occurrence
	Size     int64            // switch when the file has so many bytes; 0: never
	Every    time.Duration    // switch at this interval; 0: never
	Aligned  bool             // switch at multiples of Every: each minute, at full minutes
	MaxFiles int              // number of files to keep; 0: all
}

// switcher requests that output continues in another file.
type switcher struct {
	opts   *plan
	signal func()      // wakes the loop
	due    atomic.Bool // switch at the next opportunity
	timer  *time.Timer // nil without
}

func (s *Switch) enabled() bool {
	return s.Signal != nil || len(s.Events) > 0 || s.Size > 0 || s.Every > 0
}

// ParseSwitch parses the argument of --switch-output, except "signal": a size in B, K, M or
// G, or a time in s, m, h or d.
func ParseSwitch(s string) (Switch, error) {
	times := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	if size, err := text.ParseSize(s); err == nil {
		return Switch{Size: size}, nil
	}
	if n, unit := text.Quantity(s); n != 0 && times[unit] != 0 && time.Duration(n) <= math.MaxInt64/times[unit] {
		return Switch{Every: time.Duration(n) * times[unit]}, nil
	}
	return Switch{}, fmt.Errorf("%q is neither signal nor a size in B, K, M, G nor a time in s, m, h, d", s)
}

// warnSwitchSize warns that files will be larger than requested: rings are emptied when they
// are half full.
func (o *plan) warnSwitchSize(ring int) {
	half := int64(ring / 2)
	if size := o.Output.Switch.Size; size > 0 && size < half {
		o.notice(fmt.Errorf("switch-output data size lower than wakeup kernel buffer size (%dK) "+
			"expect bigger perf.data sizes", half>>10))
	}
}

// start starts the timer and the signals for switching.
func (w *switcher) start() (stop func()) {
	s := &w.opts.Output.Switch
	if s.Every > 0 {
		w.timer = time.AfterFunc(s.next(time.Now()), w.request)
		return func() { w.timer.Stop() }
	}
	if s.Signal == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-s.Signal:
				w.request()
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// next returns the time until the next switch.
func (s *Switch) next(now time.Time) time.Duration {
	if !s.Aligned {
		return s.Every
	}
	d := now.Truncate(s.Every).Add(s.Every).Sub(now)
	if d < s.Every/10 { // the timer was early, or the recording has just begun
		d += s.Every
	}
	return d
}

// request requests a switch at the next opportunity.
func (w *switcher) request() {
	w.due.Store(true)
	w.signal()
}

// switched starts the interval of the next switch.
func (w *switcher) switched() {
	if w.timer != nil {
		w.timer.Reset(w.opts.Output.Switch.next(time.Now()))
	}
}

// switchOutput finishes the file, and begins another one, with synthesized records of the
// processes that run.
func (r *recorder) switchOutput() error {
	if err := r.do(r.successor.prepare()); err != nil {
		return err
	}
	if err := r.do(r.snapshot()); err != nil {
		return err
	}
	if err := r.describer.tail(); err != nil {
		return err
	}
	if err := r.losses.write(); err != nil {
		return err
	}
	name, err := r.file.finish()
	if err != nil {
		return err
	}
	r.programs.keepNames(&r.sum, r.opts.notice)
	if r.opts.Dumped != nil {
		r.opts.Dumped(name, r.sum.Wakeups)
	}
	r.sum.Wakeups = 0
	r.file.out.DropOldest(name)
	r.switcher.switched()
	r.programs.all.NewFile()
	if err := r.file.create(); err != nil {
		return err
	}
	if err := r.file.write(r.successor.begin()); err != nil {
		return err
	}
	return r.file.finishInit()
}

// Package top divides a recording, which may still be made, into intervals of equal length: a Counter counts the
// samples of each.
//
// An interval is one of the samples' own time: figures do not depend on how fast records
// arrive, and a recording from another machine has its clock. The reader's clock only decides
// when an interval without later samples ends.
package top

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gperf/format"
	"gperf/internal/session"
	"gperf/report"
)

// Options define the intervals.
type Options struct {
	Delay time.Duration // length of an interval
	// Past means that the recording is complete: intervals are named by the samples' time, as --time
	// takes it, and not by the time of day.
	Past bool
	// Tick is called ten times per second, between two samples. It may be nil.
	Tick func()
}

// Interval is a part of a recording.
type Interval struct {
	Time   string // when the interval was shown, or its end in a past recording
	Length time.Duration
	Lost   uint64 // records lost in the interval
}

// Counter counts the samples of one interval after another.
type Counter interface {
	Count(s *session.Sample)
	// Stacks returns the number of distinct stacks in the interval, which determines the memory.
	Stacks() int
	// Show shows the interval, and begins the next one.
	Show(i Interval) error
}

const (
	// patience is how long after its end an interval waits for samples that are on their way:
	// the recorder drains its rings at least five times a second.
	patience = 500 * time.Millisecond
	// tick is how often the end of an interval is checked while no samples arrive.
	tick = 100 * time.Millisecond
	// maxStacks limits the memory for an interval: it ends early with this many distinct
	// stacks.
	maxStacks = 1 << 19
)

// errStopped ends a walk early, without an error for the caller.
var errStopped = errors.New("stopped")

// Run shows each interval, with the last, shorter one, until the recording ends or ctx is done. The result counts the
// skipped parts of the file. Without any sample, the error is report.ErrNoSamples.
func Run(ctx context.Context, s *session.Session, o Options, c Counter) (format.Skipped, error) {
	r := &runner{Options: o, counter: c, session: s,
		clock: clock{delay: uint64(o.Delay), end: uint64(o.Delay), seen: time.Now()}}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	skipped, err := s.Walk(session.WalkOptions{Names: true, KeepChains: true, Ticks: ticker.C,
		Tick: func() error { return r.tick(ctx) }}, r.batch)
	if err == nil || errors.Is(err, errStopped) {
		err = r.last()
	}
	return skipped, err
}

// runner passes samples to the counter, and shows each interval at its end.
type runner struct {
	Options
	counter Counter
	session *session.Session
	clock   clock
	samples int    // of the interval
	any     bool   // there was a sample
	lost    uint64 // up to the start of the interval
}

// clock keeps the time of the samples, in ns.
type clock struct {
	delay      uint64
	start, end uint64    // of the interval
	newest     uint64    // time of the newest sample; 0: none yet
	seen       time.Time // when it arrived
}

// sample reads the time of a sample. It reports whether the interval has ended before.
func (c *clock) sample(t uint64) (ended bool) {
	if c.newest == 0 {
		c.start, c.end = t, t+c.delay
	}
	c.newest = max(c.newest, t)
	return t >= c.end
}

// next begins the interval that contains t, or the next one if t is earlier.
func (c *clock) next(t uint64) {
	c.start = c.end
	if t >= c.end+c.delay {
		c.start += (t - c.end) / c.delay * c.delay
	}
	c.end = c.start + c.delay
}

// now returns the time of a sample that would arrive now.
func (c *clock) now() uint64 { return c.newest + uint64(max(time.Since(c.seen), 0)) }

func (r *runner) batch(b *session.Batch) error {
	for i := range b.Samples {
		s := &b.Samples[i]
		if r.clock.sample(s.Time) {
			if err := r.show(r.clock.end); err != nil {
				return err
			}
			r.clock.next(s.Time)
		} else if r.counter.Stacks() >= maxStacks {
			if err := r.show(s.Time); err != nil {
				return err
			}
			r.clock.start = s.Time
		}
		r.counter.Count(s)
		r.samples++
		r.any = true
	}
	if len(b.Samples) > 0 {
		r.clock.seen = time.Now()
	}
	b.Release()
	return nil
}

// tick ends an interval whose samples have all arrived.
func (r *runner) tick(ctx context.Context) error {
	if ctx.Err() != nil {
		return errStopped
	}
	if r.Tick != nil {
		r.Tick()
	}
	for now := r.clock.now(); now >= r.clock.end+uint64(patience); {
		if err := r.show(r.clock.end); err != nil {
			return err
		}
		r.clock.next(now - uint64(patience))
	}
	return nil
}

// last shows the interval that the end of the recording cuts short. Its length is not known
// better than by the newest sample.
func (r *runner) last() error {
	switch {
	case !r.any:
		return report.ErrNoSamples
	case r.samples == 0:
		return nil
	}
	return r.show(min(max(r.clock.newest, r.clock.start+uint64(time.Millisecond)), r.clock.end))
}

// timeOf names an interval by its end.
func (r *runner) timeOf(end uint64) string {
	if r.Past {
		return fmt.Sprintf("until %d.%06d", end/1e9, end%1e9/1e3)
	}
	return time.Now().Format(time.TimeOnly)
}

// show shows the interval as if it ended at end.
func (r *runner) show(end uint64) error {
	i := Interval{Time: r.timeOf(end), Length: time.Duration(end - min(r.clock.start, end))}
	lost := max(r.session.Lost.Samples, r.session.Lost.Records)
	i.Lost, r.lost, r.samples = lost-r.lost, lost, 0
	return r.counter.Show(i)
}

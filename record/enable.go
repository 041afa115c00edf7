package record

import (
	"gperf/record/perfevent"
	"gperf/record/programs"
)

// enabler starts and stops the events of a recording: counters, and BPF programs.
type enabler struct {
	opts     *plan
	set      *perfevent.Set
	programs *bpfPrograms
}

// counters starts or stops all counters. For hundreds of events this takes long enough to fill
// the rings of the first ones.
func (e *enabler) counters(on bool) work {
	return func(yield func(error) bool) {
		for i := range e.set.Counters {
			if a := &e.set.Attrs[e.set.Counters[i].Event]; e.opts.Count && !programs.CounterEnabled(a) {
				continue
			}
			err := e.set.Enable(&e.set.Counters[i], on)
			if step := i%64 == 63; !step && err == nil {
				continue
			}
			if !yield(err) {
				return
			}
			e.opts.progress("switching counters", i, len(e.set.Counters))
		}
	}
}

// recording stops, or starts again, all events and the side band.
func (e *enabler) recording(on bool) work {
	programs := once(func() error { return e.runPrograms(on) })
	if on {
		return sequence(programs, e.counters(true))
	}
	return sequence(e.counters(false), programs)
}

// runPrograms starts or stops the BPF programs.
func (e *enabler) runPrograms(on bool) error {
	if (e.programs.sampler != nil || e.programs.offcpu != nil) && e.opts.NoSamples {
		return nil
	}
	return e.programs.all.Enable(on)
}

// all starts or stops all events. Programs run while counters do.
func (e *enabler) all(on bool) work {
	return sequence(once(func() error {
		if sampler := e.programs.sampler; on && sampler != nil {
			return sampler.EnableEvents(e.set.Events)
		}
		return nil
	}), e.recording(on), once(func() error {
		e.opts.say("Events " + onOff[on])
		return nil
	}))
}

// one starts or stops one event. BPF programs on disabled counters do nothing; those that make samples are
// stopped by event.
func (e *enabler) one(event int, on bool) error {
	if e.opts.Count && !programs.CounterEnabled(&e.set.Attrs[event]) {
		e.opts.say("failed: with --count, tracepoints and probes are enabled and disabled together")
		return nil
	}
	if sampler := e.programs.sampler; sampler != nil {
		if err := sampler.EnableEvent(e.set.Events, event, on); err != nil {
			return err
		}
	}
	if on {
		if err := e.runPrograms(true); err != nil {
			return err
		}
	}
	for i := range e.set.Counters {
		if c := &e.set.Counters[i]; c.Event == event {
			if err := e.set.Enable(c, on); err != nil {
				return err
			}
		}
	}
	return nil
}

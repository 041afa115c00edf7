package record

import (
	"context"
	"gperf/format"
	"gperf/record/perfevent"
	"gperf/record/programs"
)

// enabler starts and stops the events of a recording: counters, and BPF programs. Two causes stop an event: the user
// (-D, --control), and a pause of the recording. An event runs while neither does.
type enabler struct {
	opts     *plan
	set      *perfevent.Set
	programs *bpfPrograms
	off      []bool // by event: the user has disabled it
	paused   bool   // by the governor, or at the end: nothing is recorded, not even side band
}

// newEnabler returns an enabler of disabled events.
func newEnabler(o *plan, set *perfevent.Set, programs *bpfPrograms) enabler {
	e := enabler{opts: o, set: set, programs: programs, off: make([]bool, len(set.Events))}
	e.disableAll(true)
	return e
}

// disableAll disables or enables all events, when apply is called. Members of groups run only while their leader does.
// Side band goes on while events are disabled, because later samples need it; but rings that are overwritten must keep
// their samples.
func (e *enabler) disableAll(off bool) {
	for i := range e.off {
		stays := e.set.Events[i].Member || e.sideBandOnly(i) && !e.opts.Overwrite
		if !off || !stays {
			e.off[i] = off
		}
	}
}

// sideBandOnly reports whether an event writes side band, and no samples.
func (e *enabler) sideBandOnly(event int) bool {
	return e.set.Events[event].IsDummy() && perfevent.Tracks(&e.set.Attrs[event])
}

// apply starts and stops counters and BPF programs as off and paused say. Programs run while any counter of samples
// does.
func (e *enabler) apply() work {
	run := false
	for i, off := range e.off {
		run = run || !off && !e.paused && !e.set.Events[i].Member && !e.sideBandOnly(i)
	}
	programs := once(func() error { return e.runPrograms(run) })
	if run {
		return sequence(programs, e.counters)
	}
	return sequence(e.counters, programs)
}

// counters starts and stops the counters. For hundreds of events this takes long enough to fill the rings of the first
// ones.
func (e *enabler) counters(yield func(error) bool) {
	for i := range e.set.Counters {
		c := &e.set.Counters[i]
		if e.opts.Count && !programs.CounterEnabled(&e.set.Attrs[c.Event]) {
			continue
		}
		err := e.set.Enable(c, !e.paused && !e.off[c.Event])
		if step := i%64 == 63; !step && err == nil {
			continue
		}
		if !yield(err) {
			return
		}
		e.opts.progress("switching counters", i, len(e.set.Counters))
	}
}

// runPrograms starts or stops the BPF programs. Those that make samples leave out the disabled events.
func (e *enabler) runPrograms(on bool) error {
	if sampler := e.programs.sampler; sampler != nil && on {
		if err := sampler.PauseEvents(e.set.Events, e.off); err != nil {
			return err
		}
	}
	if (e.programs.sampler != nil || e.programs.offcpu != nil) && e.opts.NoSamples {
		return nil
	}
	return e.programs.all.Enable(on)
}

// pause stops all events and the side band, or ends that.
func (e *enabler) pause(on bool) work {
	e.paused = on
	return e.apply()
}

// track starts the side band, unless the exec of the recorded command does that.
func (e *enabler) track() error {
	if e.opts.Target.ownCommand() || e.opts.Overwrite {
		return nil
	}
	return run(context.Background(), e.apply())
}

// start starts all events, except with a delay.
func (e *enabler) start() work {
	for i := range e.set.Counters {
		c := &e.set.Counters[i]
		onExec := e.set.Attrs[c.Event].Flags&format.FlagEnableOnExec != 0
		c.Enabled = c.Enabled || onExec && e.opts.Target.ownCommand()
	}
	if e.opts.Delay == 0 {
		e.disableAll(false)
	}
	return e.apply()
}

// all enables or disables all events.
func (e *enabler) all(on bool) work {
	e.disableAll(!on)
	return sequence(e.apply(), once(func() error {
		e.opts.say("Events " + onOff[on])
		return nil
	}))
}

// one enables or disables one event.
func (e *enabler) one(event int, on bool) work {
	if e.opts.Count && !programs.CounterEnabled(&e.set.Attrs[event]) {
		e.opts.say("failed: with --count, tracepoints and probes are enabled and disabled together")
		return nothing
	}
	e.off[event] = !on
	return e.apply()
}

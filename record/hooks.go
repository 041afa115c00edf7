package record

import (
	"context"

	"gperf/format"
)

// Hooks are the functions that the recorder calls, and the channel that ends its waiting. Each may be nil.
type Hooks struct {
	// Notice receives warnings as they occur.
	Notice func(what error)
	// Progress receives the progress of a step that can take long: n of so many.
	Progress func(step string, n, of int)
	// Step is called when a step begins that can take long, and its result when the step ends.
	Step func(name string) (done func())
	// Status receives the state of the recording, about once a second.
	Status func(Status)
	// Hurry, when it is closed, ends all waiting: for unwind tables, for the command to exit,
	// for probes to be removed. All data recorded so far is written.
	Hurry <-chan struct{}
	// Dumped receives the path of each finished file when output is switched, and how often the
	// rings had data to write to it.
	Dumped func(path string, wakeups uint64)
	// Verbose receives messages about the events and programs in use.
	Verbose func(msg string)
	// Say receives perf's messages about commands of Control.
	Say func(msg string)
	// List prints the events when Control asks for it, with the flags of evlist.
	List func(attrs []format.Attr, flags string)
}

func (h *Hooks) say(msg string) {
	if h.Say != nil {
		h.Say(msg)
	}
}

func (h *Hooks) notice(what error) {
	if h.Notice != nil {
		h.Notice(what)
	}
}

func (h *Hooks) verbose(msg string) {
	if h.Verbose != nil {
		h.Verbose(msg)
	}
}

func (h *Hooks) progress(step string, n, of int) {
	if h.Progress != nil {
		h.Progress(step, n, of)
	}
}

// step reports the progress of a step before the recording starts. Its error ends that step.
func (h *Hooks) step(ctx context.Context, name string, n, of int) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	h.progress(name, n, of)
	return nil
}

// begin begins a step that may take long, until the caller calls done.
func (h *Hooks) begin(step string) (done func()) {
	if h.Step == nil {
		return func() {}
	}
	return h.Step(step)
}

// hurried reports whether the caller has closed Hurry.
func (h *Hooks) hurried() bool {
	select {
	case <-h.Hurry:
		return true
	default:
		return false
	}
}

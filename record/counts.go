package record

import (
	"context"
	"errors"
	"fmt"
)

// CountError means that an event cannot be counted in the kernel.
type CountError struct {
	Event, Why string
}

func (e *CountError) Error() string { return fmt.Sprintf("--count: %s: %s", e.Event, e.Why) }

// checkCount returns an error for events and options that counting does not support.
func checkCount(o *plan) error {
	switch {
	case !o.Count:
		return nil
	case o.Overwrite, o.NoSamples:
		return errors.New("--count makes no samples: --overwrite and --no-samples are not possible")
	case o.Packets.Chosen():
		return errors.New("--count does not select packets: --packet, --netns, --dev and --snap are not possible")
	case o.dumpsStacks():
		return errors.New("--count cannot count copies of stacks, use --call-graph dwarf or fp")
	}
	for i := range o.Events {
		ev := &o.Events[i]
		why := ""
		switch {
		case ev.Span != nil:
			why = "spans are counted by histograms, as in span:syscalls/hist/"
		case ev.Raw != nil && ev.Raw.Drops != nil:
			why = "packets that BPF programs drop are not counted"
		case ev.Raw != nil:
			why = "raw tracepoints are not counted, use the tracepoint without arguments"
		case ev.Filter != "":
			why = "filters are not possible; tracepoints, probes and other events without filters are counted"
		case ev.Cgroup != "":
			why = "cgroups are not possible, use -p PID, a command or -a"
		case ev.SampleRead:
			why = "counts of groups are not possible, remove the modifier S"
		default:
			continue
		}
		return &CountError{ev.Name, why}
	}
	return nil
}

// followSnapshots makes the loop write the counts since the last time at each signal.
func (r *recorder) followSnapshots(ctx context.Context) {
	if r.opts.Snapshot == nil || !r.programs.keepSamples() {
		return
	}
	go func() {
		for {
			select {
			case <-r.opts.Snapshot:
				r.control.ask(ctx, func() (work, bool) { return r.snapshot(), false })
			case <-ctx.Done():
				return
			}
		}
	}()
}

// snapshot writes the counts since the last time.
func (r *recorder) snapshot() work { return sequence(step(r.programs.all.Snapshot), once(r.flush)) }

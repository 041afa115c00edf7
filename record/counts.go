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

// snapshots writes the counts so far at each signal.
type snapshots struct {
	opts     *plan
	programs *bpfPrograms
	control  *controller
	drain    func() error
	flush    func() error
}

// follow makes the loop write the counts at each signal.
func (s *snapshots) follow(ctx context.Context) {
	if s.opts.Snapshot == nil || !s.programs.keepSamples() {
		return
	}
	go func() {
		for {
			select {
			case <-s.opts.Snapshot:
				s.control.ask(ctx, func() (bool, error) { return false, s.write() })
			case <-ctx.Done():
				return
			}
		}
	}()
}

// write writes the counts since the last time.
func (s *snapshots) write() error {
	if err := s.programs.snapshot(); err != nil {
		return err
	}
	if err := s.drain(); err != nil {
		return err
	}
	return s.flush()
}

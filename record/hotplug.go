package record

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"gperf/record/perfevent"
)

// followCPUs makes the loop reopen the events of a CPU that comes online.
func (r *recorder) followCPUs(ctx context.Context) {
	if !r.opts.Target.byCPU() || r.opts.Overwrite { // rings to be overwritten are mapped read-only
		return
	}
	perfevent.FollowCPUs(ctx, func(cpu int) {
		r.ask(ctx, func() (bool, error) { r.cameOnline(cpu); return false, nil })
	})
}

// cameOnline reopens the events of a CPU. If that fails, the other CPUs are still recorded.
func (r *recorder) cameOnline(cpu int) {
	if err := r.reopen(cpu); err != nil {
		r.opts.notice(fmt.Errorf("CPU %d is online again, but cannot be recorded: %w", cpu, err))
	}
}

// reopen opens the events of a CPU in place of the counters that the kernel removed, and watches
// one of them. It does nothing for a CPU without counters.
func (r *recorder) reopen(cpu int) error {
	first, err := r.set.Reopen(cpu, r.rings)
	if err != nil || first == nil {
		return err
	}
	if err := r.watchFD(first.FD, unix.EPOLLIN); err != nil {
		return err
	}
	for _, n := range r.joiners {
		if n.cpu == cpu {
			return r.reopenOutput(n)
		}
	}
	return nil
}

// reopenOutput opens the events again to which BPF programs write on a CPU.
func (r *recorder) reopenOutput(n *joiner) error {
	if r.dwarf != nil {
		if err := r.dwarf.output(n, &r.set.Attrs[0]); err != nil {
			return err
		}
	}
	if r.emit == nil {
		return nil
	}
	for i := range r.emit.counters {
		removed := &r.emit.counters[i]
		if removed.CPU != n.cpu {
			continue
		}
		fresh, err := r.emit.output(r, n)
		if err != nil {
			return err
		}
		fresh.Replace(removed, &r.set.Attrs[removed.Event], len(r.set.Events))
		unix.Close(removed.FD)
		*removed = fresh
	}
	return nil
}

package record

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"gperf/record/perfevent"
)

// followCPUs makes the loop reopen the events of a CPU that comes online. Rings that are to be
// overwritten are mapped read-only, and cannot be used again.
func (r *recorder) followCPUs(ctx context.Context) {
	if !r.opts.Target.byCPU() || r.opts.Overwrite {
		return
	}
	perfevent.FollowCPUs(ctx, func(cpu int) {
		r.control.ask(ctx, func() (work, bool) {
			if err := r.reopen(cpu); err != nil { // the other CPUs are still recorded
				r.opts.notice(fmt.Errorf("CPU %d is online again, but cannot be recorded: %w", cpu, err))
			}
			r.governor.apply()
			return nothing, false
		})
	})
}

// reopen opens the events of a CPU in place of the counters that the kernel removed, and watches
// one of them. It does nothing for a CPU without counters.
func (r *opened) reopen(cpu int) error {
	first, err := r.set.Reopen(cpu, r.rings)
	if err != nil || first == nil {
		return err
	}
	if err := r.poller.watch(first.FD, unix.EPOLLIN); err != nil {
		return err
	}
	return r.programs.reopen(cpu, len(r.set.Events))
}

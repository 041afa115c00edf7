package record

import (
	"context"
	"slices"

	"golang.org/x/sys/unix"

	"gperf/record/perfevent"
)

// followCPUs makes the loop reopen the events of a CPU that comes online.
func (r *recorder) followCPUs(ctx context.Context) {
	if !r.opts.Target.byCPU() {
		return
	}
	perfevent.FollowCPUs(ctx, func(cpu int) {
		r.control.ask(ctx, func() (work, bool) {
			r.cameOnline(cpu)
			return nothing, false
		})
	})
}

// cameOnline records a CPU that came online, or warns, once for each CPU, that it does not. The other CPUs are still
// recorded.
func (r *recorder) cameOnline(cpu int) {
	if err := r.reopen(cpu); err != nil && !r.unrecorded[cpu] {
		if r.unrecorded == nil {
			r.unrecorded = map[int]bool{}
		}
		r.unrecorded[cpu] = true
		r.opts.notice(&UnrecordedCPUError{cpu, err})
	}
	r.governor.apply()
}

// reopen opens the events of a CPU in place of the counters that the kernel removed, and watches
// one of them. It does nothing for a CPU that the user did not choose. Rings that are to be overwritten are mapped
// read-only, and cannot be used again.
func (r *opened) reopen(cpu int) error {
	recorded := slices.ContainsFunc(r.rings, func(ring *perfevent.Ring) bool { return ring.CPU == cpu })
	switch {
	case !recorded && len(r.opts.Target.CPUs) == 0:
		return ErrNewCPU
	case !recorded:
		return nil
	case r.opts.Overwrite:
		return errOldRing
	}
	first, err := r.set.Reopen(cpu, r.rings)
	if err != nil || first == nil {
		return err
	}
	if err := r.poller.watch(first.FD, unix.EPOLLIN); err != nil {
		return err
	}
	return r.programs.reopen(cpu, len(r.set.Events))
}

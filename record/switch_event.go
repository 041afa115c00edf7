package record

import (
	"fmt"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/event"
	"gperf/record/perfevent"
)

// trigger holds the events that switch the output. They are not recorded, and have their own
// rings of one page.
type trigger struct {
	set   *perfevent.Set
	rings []*perfevent.Ring
}

// openTrigger opens the events that switch the output, if there are any.
func (r *recorder) openTrigger(threads []int) (err error) {
	t := &r.trigger
	events := r.opts.Switch.Events
	if len(events) == 0 {
		return nil
	}
	t.set = &perfevent.Set{Config: r.opts.counterConfig(), Events: events}
	t.set.SideBandCPUs = r.set.SideBandCPUs
	for i := range events {
		ev := &events[i]
		if ev.Probe != nil || ev.Raw != nil {
			return fmt.Errorf("--switch-output-event %s: probes and raw tracepoints cannot switch the output", ev.Name)
		}
		t.set.Attrs = append(t.set.Attrs, r.opts.triggerAttr(ev))
	}
	if err := t.set.Open(r.cpus, threads); err != nil {
		return err
	}
	if t.rings, err = t.set.Map(1, false); err != nil {
		return err
	}
	for _, ring := range t.rings {
		if err := r.watchFD(ring.FD, unix.EPOLLIN); err != nil {
			return err
		}
	}
	return nil
}

// triggerAttr returns the attr of an event that wakes the recorder at each occurrence.
func (o *Options) triggerAttr(ev *event.Event) format.Attr {
	a := o.commonAttr(ev)
	a.Flags &^= format.FlagWriteBackward
	a.Wakeup = 1
	a.SamplePeriod = max(1, ev.Terms.Period)
	if o.Target.ownCommand() {
		a.Flags |= format.FlagDisabled | format.FlagEnableOnExec
	}
	return a
}

// ring returns the trigger's ring of a counter, nil for another counter.
func (t *trigger) ring(fd int) *perfevent.Ring {
	for _, ring := range t.rings {
		if ring.FD == fd {
			return ring
		}
	}
	return nil
}

// triggered switches the output if a trigger's ring has records, and empties the ring.
func (r *recorder) triggered(ring *perfevent.Ring, events uint32) {
	if head := ring.Written(); head != ring.Read {
		ring.Release(head)
		r.due.Store(true)
	}
	if events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		unix.EpollCtl(r.epoll, unix.EPOLL_CTL_DEL, ring.FD, nil)
	}
}

func (t *trigger) close() {
	perfevent.Unmap(t.rings)
	if t.set != nil {
		t.set.Close()
	}
}

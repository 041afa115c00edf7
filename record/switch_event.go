package record

import (
	"fmt"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/event"
)

// trigger holds the events that switch the output. They are not recorded, and have their own
// rings of one page.
type trigger struct {
	opener
	rings []*Ring
}

// openTrigger opens the events that switch the output, if there are any.
func (r *recorder) openTrigger(threads []int) (err error) {
	t := &r.trigger
	t.opener = opener{opts: r.opts, events: r.opts.Switch.Events, sideBandCPUs: r.sideBandCPUs}
	for i := range t.events {
		ev := &t.events[i]
		if ev.Probe != nil || ev.Raw != nil {
			return fmt.Errorf("--switch-output-event %s: probes and raw tracepoints cannot switch the output", ev.Name)
		}
		t.attrs = append(t.attrs, r.opts.triggerAttr(ev))
	}
	if err := t.open(r.cpus, threads); err != nil {
		return err
	}
	if t.rings, err = t.mapCounters(1, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	for _, ring := range t.rings {
		if err := r.watchFD(ring.fd, unix.EPOLLIN); err != nil {
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
func (t *trigger) ring(fd int) *Ring {
	for _, ring := range t.rings {
		if ring.fd == fd {
			return ring
		}
	}
	return nil
}

// triggered switches the output if a trigger's ring has records, and empties the ring.
func (r *recorder) triggered(ring *Ring, events uint32) {
	if head := ring.written(); head != ring.read {
		ring.release(head)
		r.due.Store(true)
	}
	if events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		unix.EpollCtl(r.epoll, unix.EPOLL_CTL_DEL, ring.fd, nil)
	}
}

func (t *trigger) close() {
	for _, ring := range t.rings {
		ring.close()
	}
	t.opener.close()
}

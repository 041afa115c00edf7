package record

import (
	"fmt"
	"slices"

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

// open opens the events that switch the output, if there are any, on the CPUs and threads of
// the recording, and makes the poller wait for them.
func (t *trigger) open(o *plan, cpus, sideBandCPUs, threads []int, p *poller) (err error) {
	events := o.Output.Switch.Events
	if len(events) == 0 {
		return nil
	}
	t.set = &perfevent.Set{Config: o.counterConfig(), Events: events}
	t.set.SideBandCPUs = sideBandCPUs
	for i := range events {
		ev := &events[i]
		if ev.Probe != nil || ev.BPFSampled() {
			return fmt.Errorf("--switch-output-event %s: probes, raw tracepoints and spans cannot switch the output",
				ev.Name)
		}
		t.set.Attrs = append(t.set.Attrs, o.triggerAttr(ev))
	}
	if err := t.set.Open(cpus, threads); err != nil {
		return err
	}
	if t.rings, err = t.set.Map(1, false); err != nil {
		return err
	}
	for _, ring := range t.rings {
		if err := p.watch(ring.FD, unix.EPOLLIN); err != nil {
			return err
		}
	}
	return nil
}

// triggerAttr returns the attr of an event that wakes the recorder at each occurrence.
func (o *plan) triggerAttr(ev *event.Event) format.Attr {
	a := o.commonAttr(ev)
	a.Flags &^= format.FlagWriteBackward
	a.Wakeup = 1
	a.SamplePeriod = max(1, ev.Terms.Period)
	if o.Target.ownCommand() {
		a.Flags |= format.FlagDisabled | format.FlagEnableOnExec
	}
	return a
}

// check requests a switch if a ring has records, and empties the rings.
func (t *trigger) check(w *switcher) {
	for _, ring := range t.rings {
		if head := ring.Written(); head != ring.Read {
			ring.Release(head)
			w.due.Store(true)
		}
	}
}

// has reports whether a file is a counter of the trigger.
func (t *trigger) has(fd int) bool {
	return slices.ContainsFunc(t.rings, func(ring *perfevent.Ring) bool { return ring.FD == fd })
}

func (t *trigger) close() {
	perfevent.Unmap(t.rings)
	if t.set != nil {
		t.set.Close()
	}
	*t = trigger{}
}

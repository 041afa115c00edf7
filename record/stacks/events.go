package stacks

import (
	"slices"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/tracefs"
)

// eventPrograms are the programs that walk the stacks of events.
type eventPrograms struct {
	bpf         *bpf.Unwinder
	tracepoints map[uint64]int  // by config: the counter with the program
	probes      map[uint64]bool // tracepoints that are kprobes and uprobes
}

// needed returns the distinct programs of the events.
func (p *eventPrograms) needed(fs *tracefs.FS, events []event.Event, attrs []format.Attr) (l []bpf.Program) {
	for i := range events {
		if events[i].Tracepoint != "" {
			p.probes[events[i].Config] = fs.IsProbe(events[i].Tracepoint)
		}
		if program, ok := p.of(&events[i], &attrs[i]); ok && !slices.Contains(l, program) {
			l = append(l, program)
		}
	}
	return l
}

// of returns the BPF program that walks an event's stacks, and whether there is one.
func (p *eventPrograms) of(e *event.Event, a *format.Attr) (bpf.Program, bool) {
	switch {
	case !perfevent.Walked(a), e.BPFSampled():
		return "", false
	case e.Type == format.TypeTracepoint && p.probes[e.Config]:
		return bpf.OnProbe, true
	case e.Type == format.TypeTracepoint:
		return bpf.OnTracepoint, true
	}
	return bpf.OnEvent, true
}

// Opened attaches a program to a counter right after it is opened: counters inherited from it later run the
// program too.
func (p *eventPrograms) Opened(ev *event.Event, a *format.Attr, c *perfevent.Counter) error {
	program, ok := p.of(ev, a)
	switch {
	case !ok:
		return nil
	case ev.Type == format.TypeTracepoint:
		return p.attachTracepoint(ev, program)
	}
	return p.bpf.Attach(c.FD, program)
}

// attachTracepoint attaches a program to a tracepoint or probe, once, to a counter of the program's own.
func (p *eventPrograms) attachTracepoint(ev *event.Event, program bpf.Program) error {
	if _, attached := p.tracepoints[ev.Config]; attached {
		return nil
	}
	fd, err := perfevent.OpenForProgram(ev.Type, ev.Config)
	if err != nil {
		return err
	}
	p.tracepoints[ev.Config] = fd
	return p.bpf.Attach(fd, program)
}

// Tracepoints returns the recorder's own counters of tracepoints and probes, by config.
func (p *eventPrograms) Tracepoints() map[uint64]int { return p.tracepoints }

func (p *eventPrograms) close() {
	for _, fd := range p.tracepoints {
		unix.Close(fd)
	}
	p.bpf.Close()
}

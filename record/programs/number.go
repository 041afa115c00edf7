package programs

import (
	"fmt"

	"gperf/format"
	"gperf/record/event"
)

// Numbers of BPF-sampled events begin at the highest tracepoint number and go down: the kernel
// assigns the lowest free ones.
const (
	lastTracepoint = 1<<16 - 1
	maxEvents      = 1 << 15
)

// firstID is the lowest id of BPF-sampled events: the kernel counts from 1.
const firstID = 1 << 62

// ID returns the id of the samples of the event with this number.
func ID(number uint64) uint64 { return firstID | number }

// IDOf returns the id of the samples of a numbered event, or of one of waits.
func IDOf(ev *event.Event) uint64 {
	if ev.OffCPU != 0 {
		return ID(uint64(ev.OffCPU))
	}
	return ID(ev.Config)
}

// NumberEvents numbers the events whose samples BPF programs make: Config becomes the number.
func NumberEvents(events []event.Event) error {
	taken := map[uint64]bool{}
	for i := range events {
		if ev := &events[i]; ev.Type == format.TypeTracepoint && !ev.BPFSampled() {
			taken[ev.Config] = true
		}
	}
	next := uint64(lastTracepoint)
	for i := range events {
		ev := &events[i]
		if !ev.BPFSampled() || ev.OffCPU != 0 {
			continue
		}
		for taken[next] {
			next--
		}
		if next <= lastTracepoint-maxEvents {
			return fmt.Errorf("%s: more than %d functions are too many for one recording", ev.Name, maxEvents)
		}
		ev.Config = next
		next--
	}
	return nil
}

// SampleFormat returns the format text of the event's raw data.
func SampleFormat(ev *event.Event) ([]byte, error) {
	switch {
	case ev.Span != nil && ev.Span.Hist:
		return histogramFormat(ev), nil
	case ev.Span != nil:
		return spanFormat(ev), nil
	case ev.Raw == nil:
		return ev.Probe.Format(uint16(ev.Config)), nil
	}
	l, err := ev.Raw.Layout()
	if err != nil {
		return nil, &SamplerError{ev.Name, err}
	}
	return l.Format(uint16(ev.Config)), nil
}

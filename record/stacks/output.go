package stacks

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/perfevent"
)

// The BPF output events for stacks produce samples of this type.
const outputSample = format.SampleIdentifier | format.SampleTID | format.SampleTime | format.SampleRaw

// outputEvent describes these samples.
var outputEvent = Event{SampleLayout: format.NewSampleLayout(&format.Attr{SampleType: outputSample}), output: true}

// Output is a sample of an event that OpenOutput opened.
type Output struct {
	TID  uint64 // pid and tid, as in records, of the thread that ran
	Time uint64
	Raw  []byte // the BPF program's output, and padding
}

// ParseOutput parses a sample.
func ParseOutput(rec []byte) (o Output, ok bool) {
	body := rec[format.HeaderSize:]
	at := outputEvent.Raw(body)
	if at < 0 {
		return o, false
	}
	le := binary.LittleEndian
	return Output{le.Uint64(body[outputEvent.TID:]), le.Uint64(body[outputEvent.Time:]), body[at+4:]}, true
}

// Outputs are the counters of BPF output events, by CPU. The zero value is empty.
type Outputs struct{ byCPU map[int][]int }

// Replace adds the counters of a CPU. It closes earlier ones, which the kernel removed when the CPU went offline.
func (o *Outputs) Replace(cpu int, fds []int) {
	if o.byCPU == nil {
		o.byCPU = map[int][]int{}
	}
	for _, fd := range o.byCPU[cpu] {
		unix.Close(fd)
	}
	o.byCPU[cpu] = fds
}

// Close closes all counters.
func (o *Outputs) Close() {
	for cpu := range o.byCPU {
		o.Replace(cpu, nil)
	}
}

// OpenOutput opens an event for the output of BPF programs, on a ring. The event uses the clock
// of like. wakeups is 1 if each output wakes the recorder, 0 if it waits for the next drain.
func OpenOutput(ring *perfevent.Ring, like *format.Attr, wakeups uint32) (fd int, id uint64, err error) {
	a := format.Attr{Type: format.TypeSoftware, Config: format.SWBPFOutput, SampleType: outputSample, SamplePeriod: 1,
		ReadFormat: like.ReadFormat & (format.ReadID | format.ReadLost),
		Wakeup:     wakeups,
		Flags:      like.Flags & format.FlagUseClockID, ClockID: like.ClockID}
	if fd, err = perfevent.Open(&a, -1, ring.CPU, -1, 0); err != nil {
		return -1, 0, fmt.Errorf("BPF output of CPU %d: %w", ring.CPU, err)
	}
	if err = ring.Attach(fd); err == nil {
		id, err = perfevent.KernelID(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, 0, fmt.Errorf("BPF output of CPU %d: %w", ring.CPU, err)
	}
	return fd, id, nil
}

package programs

import (
	"gperf/bpf"
	"gperf/format"
)

// thread is the thread of a sample.
type thread struct{ pid, tid uint32 }

// sample returns a sample of an event, for a wait.
func (w *wait) sample(a *format.Attr, of thread, stack *bpf.Stack) []byte {
	one := sampleOf(a, stack)
	if w.Runnable {
		one.Misc |= format.MiscRunnable
	}
	one.Addr = w.Goroutine
	one.PID, one.TID, one.Time, one.CPU, one.Period = int32(of.pid), int32(of.tid), w.time, w.cpu, w.Duration
	return one.AppendTo(nil, a.SampleType)
}

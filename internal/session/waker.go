package session

import "gperf/format"

// The events of `gperf record --off-cpu --waker`. The sample of a waker directly precedes the sample of the wait
// that it ended, with the same time, CPU and period.
const (
	WaitEvent  = "offcpu-time"
	wakerEvent = "offcpu-waker"
	// goroutineEvent is the event of record --goroutines. The samples' addresses are the numbers of the goroutines.
	goroutineEvent = "goroutine-wait"
)

// Waker is the thread that ended a wait, or an interrupt, whose TID is 0.
type Waker struct {
	PID, TID int32
	Comm     string
	HadCPU   bool   // of a wait for a CPU: the thread that had it until then
	Leaf     *Frame // of the sample's IP
	Chain    Chain  // only with WalkOptions.KeepChains
}

// Text says in words how the waker ended the wait.
func (w *Waker) Text() string {
	if w.HadCPU {
		return "after " + w.Comm
	}
	return "woken by " + w.Comm
}

// isOffCPU reports whether an event is one of waits, with this name.
func isOffCPU(a *format.Attr, name string) bool {
	return a.Type == format.TypeSoftware && a.Config == format.SWBPFOutput && a.Name == name
}

// IsWait reports whether the samples of an event are waits, of threads or goroutines.
func IsWait(a *format.Attr) bool { return IsThreadWait(a) || IsGoroutineWait(a) }

// IsThreadWait reports whether the samples of an event are waits of threads.
func IsThreadWait(a *format.Attr) bool { return isOffCPU(a, WaitEvent) }

// IsGoroutineWait reports whether the samples of an event are waits of goroutines.
func IsGoroutineWait(a *format.Attr) bool { return isOffCPU(a, goroutineEvent) }

// IsWaker reports whether the samples of an event are wakers.
func IsWaker(a *format.Attr) bool { return isOffCPU(a, wakerEvent) }

// HasWakers reports whether a recording contains samples of wakers.
func HasWakers(f *format.File) bool {
	for i := range f.Attrs {
		if IsWaker(&f.Attrs[i]) {
			return true
		}
	}
	return false
}

// wakers holds the wakers whose waits come next, by CPU.
type wakers map[uint32]waking

type waking struct {
	time, period uint64
	waker        *Waker
}

// add adds the waker of a sample. chain says whether to keep the sample's callchain.
func (l wakers) add(s *Sample, chain bool) {
	by := &Waker{PID: s.PID, TID: s.TID, Comm: s.Comm, HadCPU: s.Runnable(), Leaf: s.Leaf}
	if chain {
		by.Chain = s.Chain
	}
	l[s.CPU] = waking{s.Time, s.Period, by}
}

// take returns the waker of a wait, nil if it is unknown.
func (l wakers) take(s *Sample) *Waker {
	w := l[s.CPU]
	delete(l, s.CPU)
	if w.time != s.Time || w.period != s.Period {
		return nil
	}
	return w.waker
}

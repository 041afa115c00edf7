package session

import (
	"slices"

	"gperf/format"
)

// Filter selects samples by fields. A nil list selects all.
type Filter struct {
	CPUs       []int
	PIDs, TIDs []int32
	Comms      []string
	Times      Times
	NoGuests   bool // no samples of virtual machines
	// Parallelism is how many threads ran.
	Parallelism []int

	matched bool
	missed  rejected // while no sample matched
}

// Match reports whether the filter selects the sample. The frames need not be resolved: use it as Options.Keep.
func (f *Filter) Match(s *Sample) bool {
	is := f.selects(s)
	if !is && !f.matched && !(f.NoGuests && s.Guest()) {
		f.missed.add(f, s)
	}
	f.matched = f.matched || is
	return is
}

func (f *Filter) selects(s *Sample) bool {
	return !(f.NoGuests && s.Guest()) &&
		(f.CPUs == nil || slices.Contains(f.CPUs, int(s.CPU))) &&
		(f.PIDs == nil || slices.Contains(f.PIDs, s.PID)) &&
		(f.TIDs == nil || slices.Contains(f.TIDs, s.TID)) &&
		(f.Comms == nil || slices.Contains(f.Comms, s.Comm)) &&
		(f.Times == nil || f.Times.Contain(s.Time)) &&
		(f.Parallelism == nil || slices.Contains(f.Parallelism, s.Parallelism))
}

// WithoutCPU returns the name of an event whose samples lack the CPU, or "".
func WithoutCPU(f *format.File) string {
	for i := range f.Attrs {
		name := f.EventName(i)
		if f.Attrs[i].SampleType&format.SampleCPU == 0 && name != "dummy" && name != "dummy:u" {
			return name
		}
	}
	return ""
}

package session

import "gperf/format"

// Sampled is the thread that was sampled, and where its instruction lies. Records
// before the sample have been applied.
func (h *History) Sampled(s *format.Sample) (*Thread, *Frame) {
	h.jitUntil(s.Time)
	th := h.thread(s.PID, s.TID)
	if s.Misc&format.MiscCPUModeMask == format.MiscKernel {
		return th, h.kernelFrame(s.IP)
	}
	return th, h.userFrame(th.space.maps, s.IP)
}

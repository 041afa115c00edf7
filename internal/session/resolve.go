package session

import "gperf/format"

// Resolve returns the frame of an address without cpumode, for example of a
// branch: in the process if it had mapped the address, else in the kernel, else a
// frame without a Map. Call it before Walk's use returns.
func (h *History) Resolve(s *Sample, ip uint64) *Frame {
	if m := s.maps.find(ip); m != nil {
		return h.frame(m, ip, false)
	}
	if f := h.kernelFrame(ip); f.Map != nil && !s.Guest() {
		return f
	}
	return h.foreignFrame(ip)
}

// ResolveData returns the frame of the data that the sample accessed, in the
// address space of its instruction. Call it before Walk's use returns.
func (h *History) ResolveData(s *Sample) *Frame { return h.modeFrame(s, s.Addr) }

// modeFrame returns the frame of an address of what ran: the kernel or the process.
// Addresses of hypervisors and guests are not resolved.
func (h *History) modeFrame(s *Sample, ip uint64) *Frame {
	switch s.Misc & format.MiscCPUModeMask {
	case format.MiscKernel:
		return h.kernelFrame(ip)
	case format.MiscUser:
		return h.userFrame(s.maps, ip)
	}
	return h.foreignFrame(ip)
}

// IsKernel reports whether the DSO is the kernel itself: it has addresses, modules
// have offsets.
func (d *DSO) IsKernel() bool { return d.Name == kernelName || d.Short == kernelShort }

// MapSize returns the size of the frame's mapping, in bytes. As in perf, the
// kernel's is the span of its symbols, if known.
func (h *History) MapSize(f *Frame) uint64 {
	if f.Map.DSO.IsKernel() {
		if start, end := h.sym.KernelRange(); end > start {
			return end - start
		}
	}
	return f.Map.End - f.Map.Start
}

// Rank returns the position of the DSO's name in the order of the recording: 1 is
// the first, 0 an unknown name.
func (h *History) Rank(name string) int32 { return h.ranks[name] }

func (h *History) rank(m *Map) {
	if h.ranks == nil {
		h.ranks = map[string]int32{}
	}
	if _, ok := h.ranks[m.DSO.Name]; !ok {
		h.ranks[m.DSO.Name] = int32(len(h.ranks) + 1)
	}
}

// DSOs returns the DSOs mapped by processes so far, unordered.
func (h *History) DSOs() (l []*DSO) {
	for _, d := range h.dsos {
		l = append(l, d)
	}
	return l
}

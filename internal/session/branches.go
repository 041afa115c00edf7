package session

import "gperf/format"

// BranchCallStack is PERF_SAMPLE_BRANCH_CALL_STACK: the branch stack holds the
// calls that have not returned, which is the user part of the callchain.
const BranchCallStack = 1 << 11

// lbrChain resolves the callchain of an event recorded with --call-graph lbr:
// the kernel's part from the callchain, then the sampled address and where the
// branches of the stack came from (resolve_lbr_callchain_sample of
// tools/perf/util/machine.c). It returns false if the sample has no user part: use
// the callchain alone then.
func (h *History) lbrChain(s *Sample, m *maps) bool {
	a := &h.file.Attrs[s.Event]
	if a.SampleType&format.SampleBranchStack == 0 || a.BranchSampleType&BranchCallStack == 0 {
		return false
	}
	user, n := 0, s.Callchain.Len()
	for user < n && s.Callchain.At(user) != format.ContextUser {
		user++
	}
	if user == n {
		return false
	}
	if !h.chain(s, s.Callchain.Slice(0, user), m) {
		return true
	}
	s.User = append(s.User[:len(s.User):len(s.User)], h.userFrame(m, s.IP))
	branches := s.Branch(a)
	for i := range branches.Len() {
		s.User = append(s.User, h.userFrame(m, branches.From(i)))
	}
	return true
}

func (h *History) resolveBranches(s *Sample) {
	b := s.Branch(&h.file.Attrs[s.Event])
	if b.Len() == 0 {
		return
	}
	s.Branches = make([]*Frame, 0, 2*b.Len())
	for i := range b.Len() {
		s.Branches = append(s.Branches, h.anyFrame(s, b.From(i)), h.anyFrame(s, b.To(i)))
	}
}

// anyFrame resolves an address that may be the kernel's or the process's.
func (h *History) anyFrame(s *Sample, ip uint64) *Frame {
	if h.inKernel(s, ip) {
		return h.kernelFrame(ip)
	}
	return h.userFrame(s.maps, ip)
}

// inKernel reports whether ip is the kernel's: it is mapped there and so was the
// sample, or it lies in the upper half (thread__find_map_fb of
// tools/perf/util/event.c).
func (h *History) inKernel(s *Sample, ip uint64) bool {
	if s.Misc&format.MiscCPUModeMask == format.MiscKernel {
		return ip >= 1<<63 || h.kernel.find(ip) != nil
	}
	return ip >= 1<<63 && s.maps.find(ip) == nil && !s.Guest()
}

// dataFrame resolves the address of data. It does not cache the frame, since these
// addresses rarely repeat.
func (h *History) dataFrame(s *Sample, m *maps) *Frame {
	f := &Frame{ID: -1, IP: s.Addr, Kernel: h.inKernel(s, s.Addr), symbols: h.sym}
	if f.Kernel {
		f.Map = h.kernel.find(s.Addr)
	} else {
		f.Map = m.find(s.Addr)
	}
	return f
}

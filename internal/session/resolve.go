package session

import (
	"slices"

	"gperf/format"
)

// resolver finds the frames of samples.
type resolver struct {
	file   *format.File
	frames *frames
	opts   *WalkOptions
	called []bool // by event: see isCalled
}

// resolve sets the frames of the sample: of the IP and callchain and, if the walk wants them, of the branches and
// data address.
func (r *resolver) resolve(s *Sample) {
	s.maps, s.frames = s.Thread.space.maps, r.frames
	if s.Guest() {
		s.maps = &r.frames.guestMaps
	}
	s.Leaf = r.frames.mode(s, s.IP, r.called[s.Event])
	s.Chain = Chain{}
	switch {
	case r.opts.LeafOnly:
	case r.lbrChain(s):
		r.frames.chains.count(s.User.IDs, 1)
	case s.parts.whole:
		for _, p := range s.parts.list[:s.parts.n] {
			r.part(s, s.Callchain, p)
		}
	default:
		r.chain(s, s.Callchain)
	}
	r.frames.resolved++
	if s.Chain.Len() == 0 && (len(s.UserStack) == 0 || r.opts.LeafOnly) {
		r.frames.chains.count([]int32{int32(s.Leaf.ID)}, 1)
	}
	if r.opts.Branches {
		r.branches(s)
	}
	if r.opts.Data {
		s.Data = r.frames.data(s)
	}
}

// chain cuts the callchain at the context marks and resolves the parts, except addresses of a hypervisor. It drops
// a chain with any other mark, also of a guest, completely, as perf does (add_callchain_ip), and returns false.
func (r *resolver) chain(s *Sample, chain format.Words) bool {
	ok := cut(chain, func(p part) bool {
		r.part(s, chain, p)
		return true
	})
	if !ok {
		s.Chain = Chain{}
	}
	return ok
}

// part resolves a part of a callchain.
func (r *resolver) part(s *Sample, chain format.Words, p part) {
	fs, ips := r.frames, chain.Slice(p.start, p.end)
	switch p.mode {
	case format.ContextKernel:
		if s.Kernel.Len() == 0 {
			s.Kernel = fs.resolveKernel(ips, p.hash, r.called[s.Event])
			return
		}
		fs.join(&s.Kernel, fs.resolveKernel(ips, p.hash, true))
	case format.ContextUser, format.ContextUserDeferred:
		fs.addUser(s, ips, p.hash)
	default:
		fs.join(&s.User, fs.resolve(&s.maps.foreign, ips, p.hash, false, fs.foreign))
	}
}

func isContext(mark uint64) bool {
	switch mark {
	case format.ContextHV, format.ContextKernel, format.ContextUser, format.ContextUserDeferred:
		return true
	}
	return false
}

// lbrChain resolves the callchain of an event recorded with --call-graph lbr: the kernel's part from the callchain,
// then the sampled address and the sources of the branches (resolve_lbr_callchain_sample of
// tools/perf/util/machine.c). It returns false for a sample without user part: only the callchain counts then.
func (r *resolver) lbrChain(s *Sample) bool {
	a := &r.file.Attrs[s.Event]
	user := s.lbrStart(a)
	if user < 0 {
		return false
	}
	if !r.chain(s, s.Callchain.Slice(0, user)) {
		return true
	}
	ids := append(slices.Clip(s.User.IDs), int32(r.frames.user(s.maps, s.IP, false).ID))
	branches := s.Branch(a)
	for i := range branches.Len() {
		ids = append(ids, int32(r.frames.user(s.maps, branches.From(i), false).ID))
	}
	s.User = r.frames.newPart(ids)
	return true
}

// HasLBRChain reports whether the branch stack is the user part of the sample's callchain. a is the event's attr.
func (s *Sample) HasLBRChain(a *format.Attr) bool { return s.lbrStart(a) >= 0 }

// lbrStart returns the word of the callchain from which on the branch stack replaces it, -1 if it does not.
func (s *Sample) lbrStart(a *format.Attr) int {
	if a.SampleType&format.SampleBranchStack == 0 || a.BranchSampleType&BranchCallStack == 0 {
		return -1
	}
	for i := range s.Callchain.Len() {
		if s.Callchain.At(i) == format.ContextUser {
			return i
		}
	}
	return -1
}

// BranchCallStack is PERF_SAMPLE_BRANCH_CALL_STACK: the branch stack holds the calls in progress, which are the
// user part of the callchain.
const BranchCallStack = 1 << 11

// branches resolves both ends of each branch.
func (r *resolver) branches(s *Sample) {
	b := s.Branch(&r.file.Attrs[s.Event])
	if b.Len() == 0 {
		return
	}
	s.Branches = make([]*Frame, 0, 2*b.Len())
	for i := range b.Len() {
		s.Branches = append(s.Branches, r.frames.either(s, b.From(i)), r.frames.either(s, b.To(i)))
	}
}

// unwind adds the frames found in the stack copies.
func (w *walk) unwind(samples []Sample) {
	w.stacks = w.stacks[:0]
	for i := range samples {
		if len(samples[i].UserStack) > 0 {
			w.stacks = append(w.stacks, stackSample{sample: &samples[i]})
		}
	}
	if len(w.stacks) == 0 {
		return
	}
	u := w.session.unwinder()
	u.walkAll(w.stacks, w.file.Attrs)
	for _, t := range w.stacks {
		s := t.sample
		if u.onlyLeaf(s) {
			w.session.OnlyLeaf++
		}
		if t.cut {
			w.session.Cut++
			w.session.CutSize = max(w.session.CutSize, w.file.Attrs[s.Event].SampleStackUser)
		}
		ips := format.NewWords(t.ips, format.LittleEndian)
		w.frames.addUser(s, ips, hashOf(ips))
	}
}

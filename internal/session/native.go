package session

// hideNative leaves out the frames of machine code from the user part of a sample's callchain, if the part contains
// functions of a runtime. If the sampled instruction is one of these frames, the innermost function takes its
// place.
func (w *walk) hideNative(s *Sample) {
	if s.User.Len() == 0 {
		return
	}
	user, known := w.frames.interpreted[s.User.Number]
	if !known {
		user = w.frames.newPart(onlyRuntime(s.User))
		if w.opts.KeepChains {
			w.frames.interpreted[s.User.Number] = user
		}
	}
	if user.Len() == 0 {
		return
	}
	s.User = user
	if !s.inKernel() {
		s.Leaf = user.At(0)
		s.IP = s.Leaf.IP
	}
}

// onlyRuntime returns the IDs of functions of a runtime.
func onlyRuntime(part Part) (ids []int32) {
	for i, f := range part.All() {
		if f.Kind() == KindRuntime {
			ids = append(ids, part.IDs[i])
		}
	}
	return ids
}

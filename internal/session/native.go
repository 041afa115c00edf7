package session

// hideNative leaves out the frames of machine code from the user part of a sample's callchain, if the part contains
// functions of a runtime. If the sampled instruction is one of these frames, the innermost function takes its
// place.
func (w *walk) hideNative(s *Sample) {
	if len(s.User) == 0 {
		return
	}
	k := (&Chain{User: s.User}).Key()
	user, known := w.frames.interpreted[k]
	if !known {
		user = onlyRuntime(s.User)
		if w.opts.KeepChains {
			w.frames.interpreted[k] = user
		}
	}
	if len(user) == 0 {
		return
	}
	s.User = user
	if !s.inKernel() {
		s.Leaf, s.IP = user[0], user[0].IP
	}
}

// onlyRuntime returns the frames of functions of a runtime.
func onlyRuntime(chain []*Frame) (l []*Frame) {
	for _, f := range chain {
		if f.Kind() == KindRuntime {
			l = append(l, f)
		}
	}
	return l
}

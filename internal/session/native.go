package session

import "gperf/internal/dso"

// hideNative leaves out the frames of machine code from the user part of a sample's callchain, if the part has
// functions that an interpreter runs. If the sampled instruction is one of these frames, the innermost function takes
// its place.
func (w *walk) hideNative(s *Sample) {
	if len(s.User) == 0 {
		return
	}
	k := (&Chain{User: s.User}).Key()
	user, known := w.frames.interpreted[k]
	if !known {
		user = onlyInterpreted(s.User)
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

// onlyInterpreted returns the frames of functions that an interpreter runs.
func onlyInterpreted(chain []*Frame) (l []*Frame) {
	for _, f := range chain {
		if f.Map != nil && dso.IsFunctions(f.Map.DSO.Name) {
			l = append(l, f)
		}
	}
	return l
}

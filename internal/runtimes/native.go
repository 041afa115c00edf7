package runtimes

import (
	"io"
	"maps"
	"time"
)

// nativeFrames is a runtime whose functions run in native frames of their own, rather than in the frames of the
// interpreter's function.
type nativeFrames struct {
	binder
	bound map[nativeFrame]Part // the latest results of Bind
	renew time.Time            // when to call Stale
}

// binder knows the functions of native frames.
type binder interface {
	// Bind returns the functions that a native frame runs. It is called for frames in generated code, and for
	// frames with an interpreted frame from BPF. An error costs the names of this frame.
	Bind(mem io.ReaderAt, f nativeFrame) (Part, error)
	// Stale reports whether earlier results of Bind may be wrong now, and after which time to call Stale again.
	Stale(mem io.ReaderAt) (stale bool, pause time.Duration)
	// Function is Process.Function.
	Function(mem io.ReaderAt, f Interpreted) (*Function, error)
}

// maxBound limits the results of Bind that are kept.
const maxBound = 1 << 16

// nativeFrame is a native frame of a process.
type nativeFrame struct {
	ip         uint64 // Stack.ip's
	generation uint32 // Stack's
	generated  bool   // the code is in no file
	// passed is the interpreted frame that BPF read, if has is true.
	passed Interpreted
	has    bool
}

// Frames implements Process. Functions come in the place of generated code, or after the frame that runs them.
func (n *nativeFrames) Frames(s *Stack) []Part {
	n.forget(s)
	parts, from, passed := s.parts[:0], 0, s.Interpreted
	for i := range s.len() {
		f := nativeFrame{ip: s.ip(i), generation: s.Generation}
		for len(passed) > 0 && int(passed[0].Native) <= i {
			f.has, f.passed = int(passed[0].Native) == i, passed[0]
			passed = passed[1:]
		}
		if f.generated = s.Mem.Generated(f.ip); f.has || f.generated {
			p := n.bind(s.Mem, f)
			p.Native, from = s.Native[8*from:8*(i+1)], i+1
			parts = append(parts, p)
		}
	}
	s.parts = append(parts, Part{Native: s.Native[8*from:]})
	return s.parts
}

// forget forgets the frames that Bind could not read, if s.Retry is set, and all frames if functions may have changed.
func (n *nativeFrames) forget(s *Stack) {
	if s.Retry {
		maps.DeleteFunc(n.bound, func(_ nativeFrame, p Part) bool { return p.Partial })
	}
	if now := time.Now(); now.After(n.renew) {
		stale, pause := n.Stale(s.Mem)
		n.renew = now.Add(pause)
		if stale {
			clear(n.bound)
		}
	}
}

// bind returns the functions of a native frame, of which it remembers the latest.
func (n *nativeFrames) bind(mem io.ReaderAt, f nativeFrame) Part {
	if p, ok := n.bound[f]; ok {
		p.Partial = false
		return p
	}
	p, err := n.Bind(mem, f)
	if err != nil {
		p = Part{Partial: true, Err: err}
	}
	if n.bound == nil || len(n.bound) >= maxBound {
		n.bound = map[nativeFrame]Part{}
	}
	n.bound[f] = Part{Functions: p.Functions, Replaces: p.Replaces, Partial: p.Partial}
	return p
}

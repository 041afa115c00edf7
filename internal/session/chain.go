package session

import (
	"iter"

	"gperf/format"
	"gperf/internal/parallel"
	"gperf/symbolize/srcline"
)

// Chain is a callchain, the innermost frame first: the kernel's part, then the
// process's. Samples share both parts, so the caller must not change them.
type Chain struct {
	Kernel, User []*Frame
	// Called means that Kernel's first frame is a return address, in the function
	// with the tracepoint. Otherwise it is the interrupted or probed instruction, as
	// the first frame of User always is.
	Called bool
	// KernelPart and UserPart are the numbers of the parts among those of the walk that occurred more than once, dense
	// from 1. A part without a number, 0, can be equal to others.
	KernelPart, UserPart int32
}

// ChainFrame is a frame at its place in a callchain.
type ChainFrame struct {
	Frame  *Frame
	Caller bool // the frame's IP is a return address
}

// Calls returns the frame's functions with file and line, as Frame.Calls does.
func (f ChainFrame) Calls() []srcline.InlineFrame { return f.Frame.Calls(f.Caller) }

// LookUpCalls looks up the functions and lines of the distinct frames on all CPUs. Calls
// looks up a frame on first use, and would do so on one CPU.
func LookUpCalls(frames iter.Seq[ChainFrame]) {
	known := map[ChainFrame]bool{}
	var list []ChainFrame
	for f := range frames {
		if !known[f] {
			known[f] = true
			list = append(list, f)
		}
	}
	parallel.Do(len(list), func(i int) { list[i].Calls() })
}

// Len returns the number of frames.
func (c *Chain) Len() int { return len(c.Kernel) + len(c.User) }

// Frame returns frame i, where 0 is the innermost one, and whether its IP is a return
// address.
func (c *Chain) Frame(i int) (f *Frame, caller bool) {
	if i < len(c.Kernel) {
		return c.Kernel[i], i > 0 || c.Called
	}
	i -= len(c.Kernel)
	return c.User[i], i > 0
}

// Cut returns the innermost frames, at most n.
func (c Chain) Cut(n int) Chain {
	if n < c.Len() {
		c.Kernel = c.Kernel[:min(n, len(c.Kernel))]
		c.User = c.User[:min(n-len(c.Kernel), len(c.User))]
		c.KernelPart, c.UserPart = 0, 0
	}
	return c
}

// ChainKey identifies a chain of one event by the addresses of its parts in memory,
// which are valid with WalkOptions.KeepChains. Equal chains may have several keys.
type ChainKey struct {
	kernel, user   **Frame // the first ones, nil for none
	nkernel, nuser int
}

// Key returns the chain's key.
func (c *Chain) Key() (k ChainKey) {
	if k.nkernel = len(c.Kernel); k.nkernel > 0 {
		k.kernel = &c.Kernel[0]
	}
	if k.nuser = len(c.User); k.nuser > 0 {
		k.user = &c.User[0]
	}
	return k
}

// StackKey identifies the stack of a sample: its callchain as ChainKey does, or without one the sampled
// frame.
type StackKey struct {
	chain  ChainKey
	leaf   *Frame // nil if there is a callchain
	called bool
}

// StackKey returns the key of the sample's stack.
func (s *Sample) StackKey() StackKey {
	k := StackKey{chain: s.Chain.Key(), called: s.Called}
	if s.Chain.Len() == 0 {
		k.leaf = s.Leaf
	}
	return k
}

// Stack yields the sample's frames, innermost first: up to max frames of the callchain, or without any of them the
// sampled frame.
func (s *Sample) Stack(max int) iter.Seq[ChainFrame] {
	return func(yield func(ChainFrame) bool) {
		chain := s.Chain.Cut(max)
		if chain.Len() == 0 && s.Leaf != nil {
			yield(ChainFrame{Frame: s.Leaf, Caller: s.Called})
			return
		}
		for i := range chain.Len() {
			f, caller := chain.Frame(i)
			if !yield(ChainFrame{Frame: f, Caller: caller}) {
				return
			}
		}
	}
}

// isCalled reports whether an event's chains are Called: those of tracepoints, except
// of probes, which the kernel treats as tracepoints.
func isCalled(f *format.File, event int) bool {
	tp := f.Tracepoint(event)
	return f.Attrs[event].Type == format.TypeTracepoint && (tp == nil || tp.Field("__probe_ip") == nil)
}

package session

import (
	"iter"

	"gperf/format"
	"gperf/internal/parallel"
)

// Chain is a callchain, the innermost frame first: the kernel's part, then the
// process's. Samples share both parts, so the caller must not change them.
type Chain struct {
	Kernel, User []*Frame
	// KernelPart and UserPart number the parts that occurred more than once in the walk, dense from 1. A part
	// without a number, 0, can be equal to other parts.
	KernelPart, UserPart int32
}

// LookUpCalls looks up the functions and lines of the distinct frames on all CPUs. Calls
// looks up a frame on first use, and would do so on one CPU. Nobody else must look up the same frames meanwhile.
func LookUpCalls(frames iter.Seq[*Frame]) {
	var list []*Frame
	for f := range frames {
		if !f.listed {
			f.listed = true
			list = append(list, f)
		}
	}
	parallel.Do(len(list), func(i int) { list[i].Calls() })
	for _, f := range list {
		f.listed = false
	}
}

// Len returns the number of frames.
func (c *Chain) Len() int { return len(c.Kernel) + len(c.User) }

// Frame returns frame i, where 0 is the innermost one.
func (c *Chain) Frame(i int) *Frame {
	if i < len(c.Kernel) {
		return c.Kernel[i]
	}
	return c.User[i-len(c.Kernel)]
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

// ChainKey identifies a chain of one event by the addresses of the parts in memory, which are valid with
// WalkOptions.KeepChains. Equal chains may get several keys.
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

// StackKey identifies the stack of a sample: the callchain as ChainKey does, or without callchain the sampled
// frame.
type StackKey struct {
	chain ChainKey
	leaf  *Frame // nil if there is a callchain
}

// StackKey returns the key of the sample's stack.
func (s *Sample) StackKey() StackKey {
	k := StackKey{chain: s.Chain.Key()}
	if s.Chain.Len() == 0 {
		k.leaf = s.Leaf
	}
	return k
}

// Stack yields the sample's frames, innermost first: up to max frames of the callchain, or without any of them the
// sampled frame.
func (s *Sample) Stack(max int) iter.Seq[*Frame] {
	return func(yield func(*Frame) bool) {
		chain := s.Chain.Cut(max)
		if chain.Len() == 0 && s.Leaf != nil {
			yield(s.Leaf)
			return
		}
		for i := range chain.Len() {
			if !yield(chain.Frame(i)) {
				return
			}
		}
	}
}

// isCalled reports whether the first address of an event in the kernel is a return address, in the function with
// the tracepoint. This is so for tracepoints, but not for probes, which the kernel treats as tracepoints. The first
// address of other events, and of every user callchain, is the interrupted or probed instruction.
func isCalled(f *format.File, event int) bool {
	tp := f.Tracepoint(event)
	return f.Attrs[event].Type == format.TypeTracepoint && (tp == nil || tp.Field("__probe_ip") == nil)
}

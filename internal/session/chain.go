package session

import (
	"iter"

	"gperf/format"
	"gperf/internal/parallel"
)

// Chain is a callchain, the innermost frame first: the kernel's part, then the process's.
type Chain struct{ Kernel, User Part }

// Part is a part of a callchain. Samples share parts, so the caller must not change them.
type Part struct {
	IDs []int32 // of the frames, the innermost first
	// Number numbers the parts that occurred more than once in the walk, or all with WalkOptions.KeepChains, dense from
	// 1. A part without a number, 0, can be equal to other parts.
	Number int32
	in     *Callchains
}

// Len returns the number of frames.
func (p Part) Len() int { return len(p.IDs) }

// At returns frame i, where 0 is the innermost one.
func (p Part) At(i int) *Frame { return p.in.frame(p.IDs[i]) }

// All yields the frames with their indexes, the innermost first.
func (p Part) All() iter.Seq2[int, *Frame] {
	return func(yield func(int, *Frame) bool) {
		for i := range p.IDs {
			if !yield(i, p.At(i)) {
				return
			}
		}
	}
}

// Cut returns the innermost frames, at most n.
func (p Part) Cut(n int) Part {
	if n >= p.Len() {
		return p
	}
	return Part{IDs: p.IDs[:n], in: p.in}
}

func (p Part) skip(n int) Part {
	if n == 0 {
		return p
	}
	return Part{IDs: p.IDs[n:], in: p.in}
}

// NewChain returns a chain of frames, which differ in ID.
func NewChain(kernel, user []*Frame) Chain {
	in := newCallchains()
	part := func(frames []*Frame) Part {
		var ids []int32
		for _, f := range frames {
			in.set(f)
			ids = append(ids, int32(f.ID))
		}
		return in.keep(ids)
	}
	return Chain{part(kernel), part(user)}
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
func (c *Chain) Len() int { return c.Kernel.Len() + c.User.Len() }

// Frame returns frame i, where 0 is the innermost one.
func (c *Chain) Frame(i int) *Frame {
	if n := c.Kernel.Len(); i >= n {
		return c.User.At(i - n)
	}
	return c.Kernel.At(i)
}

// Skip leaves out the n innermost frames.
func (c Chain) Skip(n int) Chain {
	kernel := min(n, c.Kernel.Len())
	return Chain{c.Kernel.skip(kernel), c.User.skip(n - kernel)}
}

// Cut returns the innermost frames, at most n.
func (c Chain) Cut(n int) Chain {
	return Chain{c.Kernel.Cut(n), c.User.Cut(max(n-c.Kernel.Len(), 0))}
}

// In returns the callchains that have the frames of the chain, nil without frames.
func (c *Chain) In() *Callchains {
	if c.Kernel.in != nil {
		return c.Kernel.in
	}
	return c.User.in
}

// FramesOf yields each frame of chains once, with the callchains that have it by ID.
func FramesOf(chains iter.Seq[Chain]) iter.Seq2[*Frame, *Callchains] {
	return func(yield func(*Frame, *Callchains) bool) {
		known := ByFrame[bool]{}
		for c := range chains {
			in := c.In()
			list := known[in]
			for _, part := range [...]Part{c.Kernel, c.User} {
				for i, id := range part.IDs {
					if int(id) < len(list) && list[id] {
						continue
					}
					f := part.At(i)
					known.Set(in, f, true)
					list = known[in]
					if !yield(f, in) {
						return
					}
				}
			}
		}
	}
}

// FramesOfStacks yields the frames of stacks, at most max of each callchain: those of callchains as FramesOf does, and
// then the sampled frames of stacks without callchain, each once, with nil.
func FramesOfStacks(stacks iter.Seq[StackKey], max int) iter.Seq2[*Frame, *Callchains] {
	return func(yield func(*Frame, *Callchains) bool) {
		for f, in := range FramesOf(func(yield func(Chain) bool) {
			for k := range stacks {
				if !yield(k.Chain.Cut(max)) {
					return
				}
			}
		}) {
			if !yield(f, in) {
				return
			}
		}
		known := map[*Frame]bool{nil: true}
		for k := range stacks {
			if known[k.Leaf] {
				continue
			}
			known[k.Leaf] = true
			if !yield(k.Leaf, nil) {
				return
			}
		}
	}
}

// ByFrame holds values of the frames of callchains, by Frame.ID.
type ByFrame[T any] map[*Callchains][]T

// Set sets the value of a frame.
func (b ByFrame[T]) Set(in *Callchains, f *Frame, v T) {
	list := b[in]
	if f.ID >= len(list) {
		list = append(list, make([]T, 1+f.ID-len(list))...)
		b[in] = list
	}
	list[f.ID] = v
}

// Get returns the value of a frame, zero if it was not set.
func (b ByFrame[T]) Get(in *Callchains, f *Frame) (v T) {
	if list := b[in]; f.ID < len(list) {
		v = list[f.ID]
	}
	return v
}

// ChainKey identifies a chain that is kept (WalkOptions.KeepChains), in the least memory. Equal chains of one event and
// process have equal keys.
type ChainKey struct {
	In           *Callchains // nil without frames
	kernel, user int32
}

// Key returns the chain's key.
func (c *Chain) Key() ChainKey { return ChainKey{c.In(), c.Kernel.Number, c.User.Number} }

// Chain returns the chain of a key.
func (k ChainKey) Chain() Chain {
	if k.In == nil {
		return Chain{}
	}
	return Chain{k.In.part(k.kernel), k.In.part(k.user)}
}

// Cut returns the innermost frames of the chain, at most n.
func (k ChainKey) Cut(n int) Chain { return k.Chain().Cut(n) }

// Number returns the numbers of both parts.
func (k ChainKey) Number() uint64 { return uint64(k.kernel)<<32 | uint64(k.user) }

// StackKey identifies the stack of a sample: the callchain, or without callchain the sampled frame.
type StackKey struct {
	Chain ChainKey
	Leaf  *Frame // nil if there is a callchain
}

// StackKey returns the key of the sample's stack, with WalkOptions.KeepChains.
func (s *Sample) StackKey() StackKey { return stackKey(&s.Chain, s.Leaf) }

// StackKey returns the key of the waker's stack, with WalkOptions.KeepChains.
func (w *Waker) StackKey() StackKey { return stackKey(&w.Chain, w.Leaf) }

func stackKey(c *Chain, leaf *Frame) StackKey {
	if c.Len() == 0 {
		return StackKey{Leaf: leaf}
	}
	return StackKey{Chain: c.Key()}
}

// Hash returns a hash of the key and of the number of something else.
func (k StackKey) Hash(number uint32) uint32 {
	h := uint64(number)
	if k.Leaf != nil {
		h |= uint64(k.Leaf.ID+1) << 32
	}
	for range 2 {
		h = (h ^ k.Chain.Number()) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return uint32(h)
}

// Stack yields the frames of the stack as Sample.Stack does.
func (k StackKey) Stack(max int) iter.Seq[*Frame] { return stackOf(k.Chain.Chain(), k.Leaf, max) }

// Stack yields the sample's frames, innermost first: up to max frames of the callchain, or without any of them the
// sampled frame.
func (s *Sample) Stack(max int) iter.Seq[*Frame] { return stackOf(s.Chain, s.Leaf, max) }

func stackOf(chain Chain, leaf *Frame, max int) iter.Seq[*Frame] {
	return func(yield func(*Frame) bool) {
		chain := chain.Cut(max)
		if chain.Len() == 0 && leaf != nil {
			yield(leaf)
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

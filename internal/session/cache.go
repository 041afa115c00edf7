package session

import (
	"bytes"
	"hash/maphash"

	"gperf/format"
)

// Caches of resolved addresses: a frame for each address of a mapping, and the
// frames of each part of a callchain. Every sample looks them up once per address
// and once per chain, so they are hash tables with open addressing, doubled when
// three quarters full, which allocate in blocks.

// frameTable holds the frames of one mapping by their address.
type frameTable struct {
	slots []frameSlot // 0, or a power of two
	n     int
}

type frameSlot struct {
	ip    uint64
	frame *Frame // nil: the slot is free
}

// slot returns the place of ip: its frame's, or a free one.
func (t *frameTable) slot(ip uint64) *frameSlot {
	mask := uint64(len(t.slots) - 1)
	for i := ip * 0x9e3779b97f4a7c15 >> 32; ; i++ {
		if s := &t.slots[i&mask]; s.frame == nil || s.ip == ip {
			return s
		}
	}
}

func (t *frameTable) grow() {
	old := t.slots
	t.slots = make([]frameSlot, max(16, 2*len(old)))
	for _, s := range old {
		if s.frame != nil {
			*t.slot(s.ip) = s
		}
	}
}

// frame returns the one frame of ip in m, which is nil or holds it.
func (h *History) frame(m *Map, ip uint64, kernel bool) *Frame {
	t := &h.unmapped
	if m != nil {
		t = &m.frames
	}
	if 4*t.n >= 3*len(t.slots) {
		t.grow()
	}
	s := t.slot(ip)
	if s.frame == nil {
		t.n++
		*s = frameSlot{ip, h.newFrame(m, ip, kernel)}
	}
	return s.frame
}

// newFrame returns a frame with the next ID.
func (h *History) newFrame(m *Map, ip uint64, kernel bool) *Frame {
	if len(h.frames) == 0 {
		h.frames = make([]Frame, 64)
		h.frameBlocks = append(h.frameBlocks, h.frames)
	}
	f := &h.frames[0]
	h.frames = h.frames[1:]
	f.ID, f.IP, f.Kernel, f.Map, f.symbols = h.made, ip, kernel, m, h.sym
	h.made++
	h.kernelSeen = h.kernelSeen || kernel
	if m != nil && !kernel && h.Also.Names && !h.named[m.DSO] {
		h.named[m.DSO] = true
		go h.sym.Problem(m.DSO.Name, m.DSO.BuildID) // reads its symbols
	}
	return f
}

// chains keeps resolved parts of callchains by their bytes.
type chains struct {
	slots []chainSlot // 0, or a power of two
	used  int
}

type chainSlot struct {
	hash  uint64
	chain *chain // nil: the slot is free, or its chain came only once
	seen  bool
}

type chain struct {
	part    []byte
	frames  []*Frame
	samples int
}

var chainSeed = maphash.MakeSeed()

// slot returns the place of part: its chain's, or a free one.
func (c *chains) slot(hash uint64, part []byte) *chainSlot {
	mask := uint64(len(c.slots) - 1)
	for i := hash; ; i++ {
		s := &c.slots[i&mask]
		if !s.seen || s.hash == hash && (s.chain == nil || bytes.Equal(s.chain.part, part)) {
			return s
		}
	}
}

func (c *chains) grow() {
	old := c.slots
	c.slots = make([]chainSlot, max(8, 2*len(old)))
	mask := uint64(len(c.slots) - 1)
	for _, s := range old {
		if s.seen {
			i := s.hash
			for c.slots[i&mask].seen {
				i++
			}
			c.slots[i&mask] = s
		}
	}
}

// resolve returns the frames of part. They belong to the cache, or to the batch if
// the chain is new: most chains of a busy machine come only once.
func (h *History) resolve(c *chains, part format.Words, frame func(uint64) *Frame) []*Frame {
	b := part.Bytes()
	if 4*c.used >= 3*len(c.slots) {
		c.grow()
	}
	hash := maphash.Bytes(chainSeed, b)
	s := c.slot(hash, b)
	if s.chain != nil {
		s.chain.samples++
		return s.chain.frames
	}
	keep := s.seen || h.KeepChains
	if !s.seen {
		c.used++
		s.hash, s.seen = hash, true
	}
	var frames []*Frame
	if keep {
		frames = take(&h.chainFrames, part.Len())
		kept := take(&h.chainBytes, len(b))
		copy(kept, b)
		s.chain = h.newChain()
		*s.chain = chain{kept, frames, 1}
	} else {
		frames = h.batchFrames.take(part.Len())
	}
	for i := range frames {
		frames[i] = frame(part.At(i))
	}
	if !keep {
		h.countFrames(frames, 1)
	}
	return frames
}

func (h *History) newChain() *chain {
	if len(h.chainBlock) == 0 {
		h.chainBlock = make([]chain, 4096)
		h.chainBlocks = append(h.chainBlocks, h.chainBlock)
	}
	c := &h.chainBlock[0]
	h.chainBlock = h.chainBlock[1:]
	return c
}

// arena is memory that is used again from the start.
type arena struct {
	block []*Frame
	used  int
}

func (a *arena) take(n int) []*Frame {
	if a.used+n > len(a.block) {
		a.block, a.used = make([]*Frame, max(n, 2*len(a.block), 4096)), 0
	}
	a.used += n
	return a.block[a.used-n : a.used : a.used]
}

// take cuts n values off a block, or off a new one if it has too few.
func take[T any](block *[]T, n int) []T {
	if n > len(*block) {
		*block = make([]T, max(n, 4096))
	}
	part := (*block)[:n:n]
	*block = (*block)[n:]
	return part
}

package replay

import (
	"bytes"
	"hash/maphash"

	"gperf/format"
)

// What is resolved once is kept here: a frame for each address of a mapping, and
// the frames of each part of a callchain. Both are asked for once per address or
// once per chain of every sample, so they are tables of their own: open
// addressing, doubled when three quarters full, and memory that is taken in
// blocks.

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
	}
	f := &h.frames[0]
	h.frames = h.frames[1:]
	f.ID, f.IP, f.Kernel, f.Map, f.symbols = h.made, ip, kernel, m, h.sym
	h.made++
	h.kernelSeen = h.kernelSeen || kernel
	return f
}

// chains keeps resolved parts of callchains by their bytes.
type chains struct {
	slots []int32 // index in list, from 1 on; 0, or a power of two of them
	list  []chain
}

type chain struct {
	hash   uint64
	part   []byte
	frames []*Frame
}

var chainSeed = maphash.MakeSeed()

// slot returns the place of part: its chain's, or a free one.
func (c *chains) slot(hash uint64, part []byte) *int32 {
	mask := uint64(len(c.slots) - 1)
	for i := hash; ; i++ {
		s := &c.slots[i&mask]
		if *s == 0 {
			return s
		}
		if k := &c.list[*s-1]; k.hash == hash && bytes.Equal(k.part, part) {
			return s
		}
	}
}

func (c *chains) grow() {
	c.slots = make([]int32, max(8, 2*len(c.slots)))
	mask := uint64(len(c.slots) - 1)
	for n := range c.list {
		i := c.list[n].hash
		for c.slots[i&mask] != 0 {
			i++
		}
		c.slots[i&mask] = int32(n + 1)
	}
}

// resolve returns the frames of part, which belong to the cache.
func (h *History) resolve(c *chains, part format.Words, frame func(uint64) *Frame) []*Frame {
	b := part.Bytes()
	if 4*len(c.list) >= 3*len(c.slots) {
		c.grow()
	}
	hash := maphash.Bytes(chainSeed, b)
	s := c.slot(hash, b)
	if *s == 0 {
		frames := take(&h.chainFrames, part.Len())
		for i := range frames {
			frames[i] = frame(part.At(i))
		}
		kept := take(&h.chainBytes, len(b))
		copy(kept, b)
		c.list = append(c.list, chain{hash, kept, frames})
		*s = int32(len(c.list))
	}
	return c.list[*s-1].frames
}

// take cuts n values off a block, which is made anew when it has too few.
func take[T any](block *[]T, n int) []T {
	if n > len(*block) {
		*block = make([]T, max(n, 4096))
	}
	part := (*block)[:n:n]
	*block = (*block)[n:]
	return part
}

package session

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"
)

// Callchains holds the frames of a walk, or of a Pool, by ID, and the parts of callchains that are kept. The parts are
// lists of IDs: there can be a hundred million of these, which the garbage collector need not look at. One goroutine
// adds to it; any may read the parts that it was given.
type Callchains struct {
	frames atomic.Pointer[[]*Frame] // by ID; as long as its capacity
	made   int                      // number of frames

	parts  []keptPart // by Part.Number - 1
	blocks [][]int32  // memory of the parts
	used   int        // of the last block
	lists  chains     // parts by their IDs, see keep

	counted int // number of calls of count
	buf     []byte
}

// keptPart is where a part lies in Callchains.blocks.
type keptPart struct {
	block, at, n int32
	samples      uint32
}

// Blocks of IDs grow from the first size to the last, in IDs.
const firstBlock, lastBlock = 1 << 8, 1 << 16

func newCallchains() *Callchains {
	c := &Callchains{}
	c.frames.Store(new([]*Frame))
	return c
}

// frame returns the frame with an ID.
func (c *Callchains) frame(id int32) *Frame { return (*c.frames.Load())[id] }

// add gives a frame the next ID.
func (c *Callchains) add(f *Frame) {
	f.ID = c.made
	c.set(f)
}

// set makes frame return f for its ID.
func (c *Callchains) set(f *Frame) {
	all := c.frames.Load()
	if f.ID >= len(*all) {
		grown := make([]*Frame, max(64, 2*len(*all), f.ID+1))
		copy(grown, *all)
		all = &grown
		c.frames.Store(all)
	}
	(*all)[f.ID] = f
	c.made = max(c.made, f.ID+1)
}

// reserve returns the number of a new part of n frames, and its IDs for the caller to set.
func (c *Callchains) reserve(n int) (number int32, ids []int32) {
	last := len(c.blocks) - 1
	if last < 0 || c.used+n > len(c.blocks[last]) {
		size := firstBlock
		if last >= 0 {
			size = min(2*len(c.blocks[last]), lastBlock)
		}
		last, c.blocks, c.used = last+1, append(c.blocks, make([]int32, max(n, size))), 0
	}
	p := keptPart{block: int32(last), at: int32(c.used), n: int32(n)}
	c.parts, c.used = append(c.parts, p), c.used+n
	return int32(len(c.parts)), c.ids(&p)
}

// keptPart returns a part by its number, until the next call of reserve.
func (c *Callchains) keptPart(number int32) *keptPart { return &c.parts[number-1] }

func (c *Callchains) ids(p *keptPart) []int32 { return c.blocks[p.block][p.at : p.at+p.n : p.at+p.n] }

// Drop frees the parts. Nobody may use a key of them or walk with them any more.
func (c *Callchains) Drop() {
	c.countParts()
	c.parts, c.blocks, c.lists, c.buf = nil, nil, chains{}, nil
}

// count adds samples to the innermost frame of each DSO in a part of a callchain.
func (c *Callchains) count(part []int32, samples int) {
	c.counted++
	for _, id := range part {
		f := c.frame(id)
		if f.Map != nil && !f.Kernel && f.Map.counted != c.counted {
			f.Map.counted = c.counted
			f.samples += samples
		}
	}
}

// countParts adds the samples of the parts to their frames.
func (c *Callchains) countParts() {
	for i := range c.parts {
		p := &c.parts[i]
		c.count(c.ids(p), int(p.samples))
		p.samples = 0
	}
}

// part returns the part with a number, without frames for 0.
func (c *Callchains) part(number int32) Part {
	if number == 0 {
		return Part{}
	}
	return Part{c.ids(c.keptPart(number)), number, c}
}

// keep returns the part of frames with these IDs, the same for the same list.
func (c *Callchains) keep(ids []int32) Part {
	if len(ids) == 0 {
		return Part{}
	}
	b := c.buf[:0]
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	c.buf = b
	s := c.lists.slot(maphash.Bytes(chainSeed, b), maphash.Bytes(chainSeed2, b))
	if s.number == 0 {
		number, own := c.reserve(len(ids))
		copy(own, ids)
		s.number = number
	}
	return c.part(s.number)
}

// chains holds the numbers of parts of callchains by two hashes, with seeds that are new for each process: that two of
// a billion parts have both in common is less likely than an error of the memory.
type chains struct {
	slots []chainSlot // 0, or a power of two
	used  int
}

type chainSlot struct {
	hash, second uint64
	number       int32 // Part.Number; 0: the slot is free; seenOnce
}

// seenOnce is the number of a part that occurred once and was not kept.
const seenOnce = -1

// slot returns the slot of a part with these hashes. It is a free one for a new part: the caller sets the number.
func (c *chains) slot(hash, second uint64) *chainSlot {
	if 4*c.used >= 3*len(c.slots) {
		c.grow()
	}
	mask := uint64(len(c.slots) - 1)
	for i := hash; ; i++ {
		s := &c.slots[i&mask]
		if s.number == 0 {
			s.hash, s.second = hash, second
			c.used++
			return s
		}
		if s.hash == hash && s.second == second {
			return s
		}
	}
}

func (c *chains) grow() {
	old := c.slots
	c.slots = make([]chainSlot, max(8, 2*len(old)))
	mask := uint64(len(c.slots) - 1)
	for _, s := range old {
		if s.number != 0 {
			i := s.hash
			for c.slots[i&mask].number != 0 {
				i++
			}
			c.slots[i&mask] = s
		}
	}
}

// arena is memory that a batch uses again from the start.
type arena struct {
	block []int32
	used  int
}

func (a *arena) take(n int) []int32 {
	if a.used+n > len(a.block) {
		a.block, a.used = make([]int32, max(n, 2*len(a.block), 4096)), 0
	}
	a.used += n
	return a.block[a.used-n : a.used : a.used]
}

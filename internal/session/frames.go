package session

import (
	"hash/maphash"

	"gperf/format"
	"gperf/symbolize"
)

// frames resolves addresses and caches the results: a frame for each address of a
// mapping, and the frames of each part of a callchain. Every sample looks them up
// once per address and once per chain. The caches are therefore hash tables with
// open addressing, doubled when three quarters full, which allocate in blocks.
type frames struct {
	machine    *machine
	symbols    *symbolize.Symbolizer
	names      bool // see WalkOptions.Names
	asPerf     bool // see WalkOptions.AsPerf
	keepChains bool // see WalkOptions.KeepChains

	blocks     [][]Frame // all frames, for unresolved
	free       []Frame   // the unused rest of the last block
	made       int       // the next frame's ID
	unmapped   frameTables
	kernelSeen bool          // a frame is the kernel's
	loading    map[*DSO]bool // DSOs whose symbols are being read

	chainBlocks [][]chain // all cached parts of callchains, for unresolved
	chainFree   []chain   // the unused rest of the last block
	chainFrames []*Frame  // memory for chains
	parts       int32     // number of cached parts
	called      chains    // parts of the kernel whose first address is a return address
	batch       *arena    // memory for chains of the current batch
	counted     int       // number of calls of count
	resolved    int       // number of resolved samples

	// interpreted are parts of callchains without the frames of machine code, with WalkOptions.KeepChains.
	interpreted map[ChainKey][]*Frame

	guestMaps maps  // always empty
	lastMaps  *maps // of the last user frame
	lastMap   *Map
}

func newFrames(m *machine, opts *WalkOptions) *frames {
	return &frames{machine: m, symbols: m.symbols, names: opts.Names, asPerf: opts.AsPerf && !m.file.OfGperf(),
		keepChains: opts.KeepChains,
		loading:    map[*DSO]bool{}, interpreted: map[ChainKey][]*Frame{}}
}

// kernel returns the frame of a kernel address. callee is the frame before it in the stack, nil if there is none.
func (fs *frames) kernel(ip uint64, isReturn bool, callee *Frame) *Frame {
	m := fs.machine.kernelMap(ip - fs.before(isReturn))
	if m == nil && isReturn {
		m = fs.machine.kernelMap(ip)
	}
	return fs.frame(m, ip, isReturn, true, callee)
}

// user returns the frame of an address in a process. Most addresses lie in the same
// mapping as the previous one.
func (fs *frames) user(ms *maps, ip uint64, isReturn bool) *Frame {
	at := ip - fs.before(isReturn)
	if m := fs.lastMap; fs.lastMaps != ms || m == nil || at-m.Start >= m.End-m.Start {
		fs.lastMaps, fs.lastMap = ms, ms.find(at)
		if fs.lastMap == nil && isReturn {
			fs.lastMap = ms.find(ip)
		}
	}
	return fs.frame(fs.lastMap, ip, isReturn, false, nil)
}

// before returns how far before an address the code lies in whose mapping it is, in bytes: the call before a return
// address may be the mapping's last instruction.
func (fs *frames) before(isReturn bool) uint64 {
	if isReturn && !fs.asPerf {
		return 1
	}
	return 0
}

// foreign returns the frame, without Map, of an address of a hypervisor or guest.
func (fs *frames) foreign(ip uint64, isReturn bool, _ *Frame) *Frame {
	return fs.frame(nil, ip, isReturn, false, nil)
}

// mode returns the frame of an address in the address space of the sample's
// instruction. called says that one of the kernel is a return address.
func (fs *frames) mode(s *Sample, ip uint64, called bool) *Frame {
	switch s.Misc & format.MiscCPUModeMask {
	case format.MiscKernel:
		return fs.kernel(ip, called, nil)
	case format.MiscUser:
		return fs.user(s.maps, ip, false)
	}
	return fs.foreign(ip, false, nil)
}

// either returns the frame of an address that may be the kernel's or the process's, such as a branch address.
func (fs *frames) either(s *Sample, ip uint64) *Frame {
	if fs.inKernel(s, ip) {
		return fs.kernel(ip, false, nil)
	}
	return fs.user(s.maps, ip, false)
}

// inKernel reports whether ip is the kernel's: both ip and the sample are, or ip lies in the upper half and is not
// mapped in the process (thread__find_map_fb of tools/perf/util/event.c).
func (fs *frames) inKernel(s *Sample, ip uint64) bool {
	if s.inKernel() {
		return ip >= 1<<63 || fs.machine.kernel.maps.find(ip) != nil
	}
	return ip >= 1<<63 && s.maps.find(ip) == nil && !s.Guest()
}

// data returns the frame of the sample's data address. It does not cache the frame,
// since these addresses rarely repeat.
func (fs *frames) data(s *Sample) *Frame {
	f := &Frame{ID: -1, IP: s.Addr, Kernel: fs.inKernel(s, s.Addr), symbols: fs.symbols}
	if f.Kernel {
		f.Map = fs.machine.kernel.maps.find(s.Addr)
	} else {
		f.Map = s.maps.find(s.Addr)
	}
	return f
}

// frame returns the cached frame of ip in m, which is nil or contains ip, or the call before it.
func (fs *frames) frame(m *Map, ip uint64, isReturn, kernel bool, callee *Frame) *Frame {
	tables := &fs.unmapped
	if m != nil {
		tables = &m.frames
	}
	t := &tables.at
	if isReturn {
		t = &tables.returns
	}
	if 4*t.n >= 3*len(t.slots) {
		t.grow()
	}
	s := t.slot(ip)
	if s.frame == nil {
		t.n++
		*s = frameSlot{ip, fs.add(m, ip, isReturn, kernel)}
		s.frame.callee = callee
	}
	return s.frame
}

// add returns a frame with the next ID, which it does not cache.
func (fs *frames) add(m *Map, ip uint64, isReturn, kernel bool) *Frame {
	if len(fs.free) == 0 {
		fs.free = make([]Frame, 64)
		fs.blocks = append(fs.blocks, fs.free)
	}
	f := &fs.free[0]
	fs.free = fs.free[1:]
	f.ID, f.IP, f.Return, f.Kernel, f.Map = fs.made, ip, isReturn, kernel, m
	f.symbols, f.asPerf = fs.symbols, fs.asPerf
	fs.made++
	fs.kernelSeen = fs.kernelSeen || kernel
	if m != nil && !kernel && fs.names && !fs.loading[m.DSO] {
		fs.loading[m.DSO] = true
		go fs.symbols.Problem(m.DSO.Name, m.DSO.BuildID) // reads the symbols
	}
	return f
}

// resolve returns the frames of a part of a callchain, whose hashOf is hash. They belong to the cache c,
// or to the batch if the part is new: most chains of a busy machine occur only once. number is Chain.UserPart's. called
// says that the first address is a return address, as the others are.
func (fs *frames) resolve(c *chains, part format.Words, hash uint64, called bool,
	frame func(ip uint64, isReturn bool, callee *Frame) *Frame) (list []*Frame, number int32) {
	b := part.Bytes()
	if 4*c.used >= 3*len(c.slots) {
		c.grow()
	}
	second := maphash.Bytes(chainSeed2, b)
	s := c.slot(hash, second)
	if s.chain != nil {
		s.chain.samples++
		return s.chain.frames, s.chain.number
	}
	keep := s.used || fs.keepChains
	if !s.used {
		c.used++
		s.hash, s.used = hash, true
	}
	if keep {
		list = take(&fs.chainFrames, part.Len())
		s.chain = fs.newChain()
		fs.parts++
		number = fs.parts
		*s.chain = chain{second, list, 1, number}
	} else {
		list = fs.batch.take(part.Len())
	}
	var callee *Frame
	for i := range list {
		callee = frame(part.At(i), i > 0 || called, callee)
		list[i] = callee
	}
	if !keep {
		fs.count(list, 1)
	}
	return list, number
}

// resolveKernel returns the frames of a part of a callchain in the kernel.
func (fs *frames) resolveKernel(part format.Words, hash uint64, called bool) (list []*Frame, number int32) {
	c := &fs.machine.kernel.maps.chains
	if called {
		c = &fs.called
	}
	return fs.resolve(c, part, hash, called, fs.kernel)
}

// resolveUser returns the frames of a part of a callchain in the sample's process.
func (fs *frames) resolveUser(s *Sample, part format.Words, hash uint64) (list []*Frame, number int32) {
	ms := s.maps
	frame := func(ip uint64, isReturn bool, _ *Frame) *Frame { return fs.user(ms, ip, isReturn) }
	if len(s.User) > 0 { // the caller of the part before, such as of the function of a span
		return fs.resolve(&ms.called, part, hash, true, frame)
	}
	return fs.resolve(&ms.chains, part, hash, false, frame)
}

func (fs *frames) newChain() *chain {
	if len(fs.chainFree) == 0 {
		fs.chainFree = make([]chain, 4096)
		fs.chainBlocks = append(fs.chainBlocks, fs.chainFree)
	}
	c := &fs.chainFree[0]
	fs.chainFree = fs.chainFree[1:]
	return c
}

// count adds samples to the innermost frame of each DSO in a part of a callchain.
func (fs *frames) count(part []*Frame, samples int) {
	fs.counted++
	for _, f := range part {
		if f.Map != nil && !f.Kernel && f.Map.counted != fs.counted {
			f.Map.counted = fs.counted
			f.samples += samples
		}
	}
}

// unresolved implements Session.Unresolved.
func (fs *frames) unresolved() map[DSOFile]float64 {
	for _, block := range fs.chainBlocks {
		for i := range block {
			c := &block[i]
			fs.count(c.frames, c.samples)
			c.samples = 0
		}
	}
	shares := map[DSOFile]float64{}
	for _, block := range fs.blocks {
		for i := range block {
			if f := &block[i]; f.samples > 0 && f.why != symbolize.Found {
				shares[DSOFile{f.Map.DSO.Name, f.Map.DSO.BuildID}] += float64(f.samples) / float64(fs.resolved)
			}
		}
	}
	return shares
}

// frameTables hold the frames of one mapping, apart for return addresses: an ip can be both.
type frameTables struct{ at, returns frameTable }

// frameTable holds frames by address.
type frameTable struct {
	slots []frameSlot // 0, or a power of two
	n     int
}

type frameSlot struct {
	ip    uint64
	frame *Frame // nil: the slot is free
}

// slot returns the slot of an ip, or the free one where it belongs.
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

// chains caches resolved parts of callchains by two hashes of their encoded bytes, with seeds that are new for each
// process: that two of a billion parts have both in common is less likely than an error of the memory.
type chains struct {
	slots []chainSlot // 0, or a power of two
	used  int
}

type chainSlot struct {
	hash  uint64
	chain *chain // nil: the slot is free, or the chain occurred only once
	used  bool
}

type chain struct {
	hash    uint64 // by chainSeed2
	frames  []*Frame
	samples int
	number  int32 // see Chain.UserPart
}

// slot returns the slot of a part with these hashes, or the free one where it belongs.
func (c *chains) slot(hash, second uint64) *chainSlot {
	mask := uint64(len(c.slots) - 1)
	for i := hash; ; i++ {
		s := &c.slots[i&mask]
		if !s.used || s.hash == hash && (s.chain == nil || s.chain.hash == second) {
			return s
		}
	}
}

func (c *chains) grow() {
	old := c.slots
	c.slots = make([]chainSlot, max(8, 2*len(old)))
	mask := uint64(len(c.slots) - 1)
	for _, s := range old {
		if s.used {
			i := s.hash
			for c.slots[i&mask].used {
				i++
			}
			c.slots[i&mask] = s
		}
	}
}

// arena is memory that a batch uses again from the start.
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

// take returns n values of a block, or of a new block if the block holds fewer.
func take[T any](block *[]T, n int) []T {
	if n > len(*block) {
		*block = make([]T, max(n, 4096))
	}
	part := (*block)[:n:n]
	*block = (*block)[n:]
	return part
}

package session

import (
	"hash/maphash"
	"slices"

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
	unmapped   frameTables
	kernelSeen bool          // a frame is the kernel's
	loading    map[*DSO]bool // DSOs whose symbols are being read

	chains   *Callchains
	called   chains // parts of the kernel whose first address is a return address
	batch    *arena // memory for chains of the current batch
	resolved int    // number of resolved samples

	// interpreted are parts of callchains without the frames of machine code, by the numbers of whole parts, with
	// WalkOptions.KeepChains.
	interpreted map[int32]Part

	guestMaps maps  // always empty
	lastMaps  *maps // of the last user frame
	lastMap   *Map
}

func newFrames(m *machine, opts *WalkOptions) *frames {
	return &frames{machine: m, symbols: m.symbols, names: opts.Names, asPerf: opts.AsPerf && !m.file.OfGperf(),
		keepChains: opts.KeepChains, chains: newCallchains(), loading: map[*DSO]bool{}, interpreted: map[int32]Part{}}
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
	f.IP, f.Return, f.Kernel, f.Map, f.symbols, f.asPerf = ip, isReturn, kernel, m, fs.symbols, fs.asPerf
	fs.chains.add(f)
	fs.kernelSeen = fs.kernelSeen || kernel
	if m != nil && !kernel && fs.names && !fs.loading[m.DSO] {
		fs.loading[m.DSO] = true
		go fs.symbols.Problem(m.DSO.Name, m.DSO.BuildID) // reads the symbols
	}
	return f
}

// resolve returns a part of a callchain, whose hashOf is hash. It belongs to the cache c, or to the batch if it is new:
// most chains of a busy machine occur only once. called says that the first address is a return address, as the others
// are.
func (fs *frames) resolve(c *chains, part format.Words, hash uint64, called bool,
	frame func(ip uint64, isReturn bool, callee *Frame) *Frame) Part {
	n := part.Len()
	if n == 0 {
		return Part{}
	}
	s := c.slot(hash, maphash.Bytes(chainSeed2, part.Bytes()))
	if s.number > 0 {
		kept := fs.chains.keptPart(s.number)
		kept.samples++
		return Part{fs.chains.ids(kept), s.number, fs.chains}
	}
	p := Part{in: fs.chains}
	keep := s.number == seenOnce || fs.keepChains
	if keep {
		p.Number, p.IDs = fs.chains.reserve(n)
		fs.chains.keptPart(p.Number).samples = 1
		s.number = p.Number
	} else {
		p.IDs, s.number = fs.batch.take(n), seenOnce
	}
	var callee *Frame
	for i := range p.IDs {
		callee = frame(part.At(i), i > 0 || called, callee)
		p.IDs[i] = int32(callee.ID)
	}
	if !keep {
		fs.chains.count(p.IDs, 1)
	}
	return p
}

// resolveKernel returns a part of a callchain in the kernel.
func (fs *frames) resolveKernel(part format.Words, hash uint64, called bool) Part {
	c := &fs.machine.kernel.maps.chains
	if called {
		c = &fs.called
	}
	return fs.resolve(c, part, hash, called, fs.kernel)
}

// addUser appends a part of a callchain in the sample's process.
func (fs *frames) addUser(s *Sample, part format.Words, hash uint64) {
	ms := s.maps
	frame := func(ip uint64, isReturn bool, _ *Frame) *Frame { return fs.user(ms, ip, isReturn) }
	if s.User.Len() == 0 {
		s.User = fs.resolve(&ms.chains, part, hash, false, frame)
		return
	}
	// It is the caller of the part before, such as of the function of a span.
	fs.join(&s.User, fs.resolve(&ms.called, part, hash, true, frame))
}

// join appends the frames of a part to another. Nearly all chains have one part, which is not copied.
func (fs *frames) join(to *Part, p Part) {
	switch {
	case to.Len() == 0:
		*to = p
	case p.Len() > 0:
		*to = fs.newPart(slices.Concat(to.IDs, p.IDs))
	}
}

// newPart returns a part of frames with these IDs, which the caller does not use again.
func (fs *frames) newPart(ids []int32) Part {
	if fs.keepChains {
		return fs.chains.keep(ids)
	}
	return Part{IDs: ids, in: fs.chains}
}

// unresolved implements Session.Unresolved.
func (fs *frames) unresolved() map[DSOFile]float64 {
	fs.chains.countParts()
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

package format

// CPUTopology returns the CPU_TOPOLOGY section. Files of perf before 5.2 say
// nothing of dies: Dies is then empty, and so is each CPU's.
func (f *File) CPUTopology() (t CPUTopology, ok bool) {
	n, _ := f.NrCPUs()
	t, ok, _ = feature(f, FeatureCPUTopology, func(c *cursor) (t CPUTopology) {
		t.Packages, t.Cores = c.strings(), c.strings()
		for i := uint32(0); i < n.Available && !c.short; i++ {
			t.CPUs = append(t.CPUs, CPUPlace{Core: c.u32(), Package: c.u32()})
		}
		if len(c.b) == 0 {
			return t
		}
		t.Dies = c.strings()
		for i := range t.CPUs {
			t.CPUs[i].Die = c.u32()
		}
		return t
	})
	return t, ok
}

func (c *cursor) strings() (l []string) {
	for n := c.u32(); n > 0 && !c.short; n-- {
		l = append(l, c.str())
	}
	return l
}

// NUMATopology returns the NUMA_TOPOLOGY section.
func (f *File) NUMATopology() (l []NUMANode, ok bool) {
	l, ok, _ = feature(f, FeatureNUMATopology, func(c *cursor) (l []NUMANode) {
		for n := c.u32(); n > 0 && !c.short; n-- {
			l = append(l, NUMANode{c.u32(), c.u64(), c.u64(), c.str()})
		}
		return l
	})
	return l, ok
}

// Caches returns the CACHE section.
func (f *File) Caches() (l []Cache, ok bool) {
	l, ok, _ = feature(f, FeatureCache, func(c *cursor) (l []Cache) {
		if c.u32() != 1 { // version
			return nil
		}
		for n := c.u32(); n > 0 && !c.short; n-- {
			l = append(l, Cache{c.u32(), c.u32(), c.u32(), c.u32(), c.str(), c.str(), c.str()})
		}
		return l
	})
	return l, ok
}

// MemNode is an entry of the MEM_TOPOLOGY section: the memory blocks that a
// node has, as a bitmap.
type MemNode struct {
	Node   uint64
	Blocks Words
}

// MemTopology returns the MEM_TOPOLOGY section, and the size of a block in
// bytes.
func (f *File) MemTopology() (blockSize uint64, l []MemNode, ok bool) {
	l, ok, _ = feature(f, FeatureMemTopology, func(c *cursor) (l []MemNode) {
		if c.u64() != 1 { // version
			return nil
		}
		blockSize = c.u64()
		for n := c.u64(); n > 0 && !c.short; n-- {
			node := c.u64()
			c.u64() // the number of blocks, which the bitmap's size repeats
			bits := c.u64()
			l = append(l, MemNode{node, Words{c.words(bits/64 + min(bits%64, 1)), c.order}})
		}
		return l
	})
	return blockSize, l, ok
}

// ClockData is the CLOCK_DATA section: one moment in the recording's clock and
// in the time of day, both in ns.
type ClockData struct {
	ClockID              uint32
	TimeOfDay, ClockTime uint64
}

// ClockData returns the CLOCK_DATA section.
func (f *File) ClockData() (d ClockData, ok bool) {
	d, ok, _ = feature(f, FeatureClockData, func(c *cursor) ClockData {
		c.u32() // version
		return ClockData{c.u32(), c.u64(), c.u64()}
	})
	return d, ok
}

// PMUCaps returns the CPU_PMU_CAPS section: "name=value" of each capability.
func (f *File) PMUCaps() (l []string, ok bool) {
	l, ok, _ = feature(f, FeatureCPUPMUCaps, func(c *cursor) (l []string) {
		for n := c.u32(); n > 0 && !c.short; n-- {
			l = append(l, c.str()+"="+c.str())
		}
		return l
	})
	return l, ok
}

// Uint32s returns n values of a section of u32s, nil when it is absent or
// shorter.
func (f *File) Uint32s(feat Feature, n int) []uint32 {
	v, ok, _ := feature(f, feat, func(c *cursor) (l []uint32) {
		for range n {
			l = append(l, c.u32())
		}
		return l
	})
	if !ok {
		return nil
	}
	return v
}

// Has tells whether the file has a feature.
func (f *File) Has(n Feature) bool { return f.hdr.features.has(n) }

// LastFeature is the highest feature of perf 7.3.
const LastFeature = FeatureCacheLine

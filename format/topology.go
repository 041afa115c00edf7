package format

// CPUTopology returns the CPU_TOPOLOGY section. In files of perf before 5.2, Dies and each
// CPU's Die are empty. In files of perf before 4.0, CPUs is empty.
func (f *File) CPUTopology() (CPUTopology, bool) {
	return decoded(f, FeatureCPUTopology, f.cpuTopology)
}

func (f *File) cpuTopology(c *cursor) CPUTopology {
	n, _ := f.NrCPUs()
	return reading(func(c *codec, t *CPUTopology) { t.pass(c, int(n.Available)) })(c)
}

// NUMATopology returns the NUMA_TOPOLOGY section.
func (f *File) NUMATopology() ([]NUMANode, bool) {
	return decoded(f, FeatureNUMATopology, reading(passNUMANodes))
}

// Caches returns the CACHE section.
func (f *File) Caches() ([]Cache, bool) { return decoded(f, FeatureCache, reading(passCaches)) }

// MemTopology is the MEM_TOPOLOGY section: the memory blocks of each node.
type MemTopology struct {
	BlockSize uint64 // bytes
	Nodes     []MemNode
}

// MemNode is a node's memory: a bitmap of its blocks.
type MemNode struct {
	Node   uint64
	Blocks Words
}

// MemTopology returns the MEM_TOPOLOGY section.
func (f *File) MemTopology() (MemTopology, bool) {
	return decoded(f, FeatureMemTopology, parseMemTopology)
}

func parseMemTopology(c *cursor) (t MemTopology) {
	if c.u64() != 1 { // version
		return t
	}
	t.BlockSize = c.u64()
	for n := c.u64(); n > 0 && !c.short; n-- {
		node := c.u64()
		c.u64() // the number of blocks
		bits := c.u64()
		t.Nodes = append(t.Nodes, MemNode{node, Words{c.words(bits/64 + min(bits%64, 1)), c.order}})
	}
	return t
}

// HybridNode is an entry of the HYBRID_TOPOLOGY section: a kind of CPU and its CPUs.
type HybridNode struct{ PMU, CPUs string } // "cpu_core", "0-3"

// HybridTopology returns the HYBRID_TOPOLOGY section.
func (f *File) HybridTopology() ([]HybridNode, bool) {
	return decoded(f, FeatureHybrid, parseHybridNodes)
}

func parseHybridNodes(c *cursor) (l []HybridNode) {
	for n := c.u32(); n > 0 && !c.short; n-- {
		l = append(l, HybridNode{c.str(), c.str()})
	}
	return l
}

// CPUDomains is the CPU_DOMAIN_INFO section: the scheduler's domains, from /proc/schedstat
// and debugfs.
type CPUDomains struct {
	Version uint32 // of /proc/schedstat
	Max     uint32 // maximum number of domains of a CPU
	CPUs    []DomainCPU
}

// DomainCPU lists the domains of one CPU.
type DomainCPU struct {
	CPU     uint32
	Domains []Domain
}

// Domain is a group of CPUs. The scheduler balances load among them.
type Domain struct {
	Level         uint32
	Name          string // "MC"; empty before version 17
	CPUMask, CPUs string // "0000000f", "0-3"
}

// CPUDomains returns the CPU_DOMAIN_INFO section.
func (f *File) CPUDomains() (CPUDomains, bool) {
	return decoded(f, FeatureCPUDomain, f.cpuDomains)
}

func (f *File) cpuDomains(c *cursor) (d CPUDomains) {
	n, _ := f.NrCPUs()
	d.Version, d.Max = c.u32(), c.u32()
	for i := uint32(0); i < n.Online && !c.short; i++ {
		cpu := DomainCPU{CPU: c.u32()}
		for m := c.u32(); m > 0 && !c.short; m-- {
			dom := Domain{Level: c.u32()}
			if d.Version >= 17 {
				dom.Name = c.str()
			}
			dom.CPUMask, dom.CPUs = c.str(), c.str()
			cpu.Domains = append(cpu.Domains, dom)
		}
		d.CPUs = append(d.CPUs, cpu)
	}
	return d
}

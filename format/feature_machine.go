package format

// The feature sections that describe the recording machine's processors and memory. Package record collects their
// contents.

// CPUTopology is the CPU_TOPOLOGY section: lists of CPUs that share a package, a die and a core, and each CPU's place.
type CPUTopology struct {
	Packages, Dies, Cores []string // "0-3"
	CPUs                  []CPUPlace
}

// CPUPlace is the place of a CPU in the topology. The IDs come from sysfs.
type CPUPlace struct{ Core, Die, Package uint32 }

func (t *CPUTopology) Section() Section {
	return sectionOf(FeatureCPUTopology, t, func(c *codec, t *CPUTopology) { t.pass(c, len(t.CPUs)) })
}

// pass passes over the section of a number of CPUs. It may end before the CPUs' places, and before the dies.
func (t *CPUTopology) pass(c *codec, cpus int) {
	passStrings(c, &t.Packages)
	passStrings(c, &t.Cores)
	if !c.more() {
		return
	}
	for i := 0; i < cpus && !c.short; i++ {
		if !c.writes {
			t.CPUs = append(t.CPUs, CPUPlace{})
		}
		c.fields(&t.CPUs[i].Core, &t.CPUs[i].Package)
	}
	if !c.more() {
		return
	}
	passStrings(c, &t.Dies)
	for i := range t.CPUs {
		c.fields(&t.CPUs[i].Die)
	}
}

// NUMANode is an entry of the NUMA_TOPOLOGY section.
type NUMANode struct {
	Node        uint32
	Total, Free uint64 // kB
	CPUs        string // "0-3"
}

// NUMASection returns the NUMA_TOPOLOGY section: the nodes' memory and CPUs.
func NUMASection(nodes []NUMANode) Section {
	return sectionOf(FeatureNUMATopology, &nodes, passNUMANodes)
}

func passNUMANodes(c *codec, l *[]NUMANode) {
	listOf(c, l, func(c *codec, n *NUMANode) {
		c.fields(&n.Node, &n.Total, &n.Free)
		c.str(&n.CPUs)
	})
}

// Cache is an entry of the CACHE section, with the texts of sysfs.
type Cache struct {
	Level, LineSize, Sets, Ways uint32
	Type, Size, CPUs            string // "Data", "48K", "0-1"
}

// CacheSection returns the CACHE section: the processors' caches.
func CacheSection(caches []Cache) Section { return sectionOf(FeatureCache, &caches, passCaches) }

func passCaches(c *codec, l *[]Cache) {
	version := uint32(1)
	if c.fields(&version); version != 1 {
		return
	}
	listOf(c, l, func(c *codec, v *Cache) {
		c.fields(&v.Level, &v.LineSize, &v.Sets, &v.Ways)
		for _, s := range [...]*string{&v.Type, &v.Size, &v.CPUs} {
			c.str(s)
		}
	})
}

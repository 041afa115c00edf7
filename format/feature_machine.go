package format

import "encoding/binary"

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
	le := binary.LittleEndian
	b := appendStrings(nil, t.Packages)
	b = appendStrings(b, t.Cores)
	for _, c := range t.CPUs {
		b = le.AppendUint32(le.AppendUint32(b, c.Core), c.Package)
	}
	b = appendStrings(b, t.Dies)
	for _, c := range t.CPUs {
		b = le.AppendUint32(b, c.Die)
	}
	return Section{FeatureCPUTopology, b}
}

func appendStrings(b []byte, l []string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(l)))
	for _, s := range l {
		b = appendString(b, s)
	}
	return b
}

// NUMANode is an entry of the NUMA_TOPOLOGY section.
type NUMANode struct {
	Node        uint32
	Total, Free uint64 // kB
	CPUs        string // "0-3"
}

// NUMASection returns the NUMA_TOPOLOGY section: the nodes' memory and CPUs.
func NUMASection(nodes []NUMANode) Section {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(nodes)))
	for _, n := range nodes {
		b = le.AppendUint32(b, n.Node)
		b = le.AppendUint64(le.AppendUint64(b, n.Total), n.Free)
		b = appendString(b, n.CPUs)
	}
	return Section{FeatureNUMATopology, b}
}

// Cache is an entry of the CACHE section, with the texts of sysfs.
type Cache struct {
	Level, LineSize, Sets, Ways uint32
	Type, Size, CPUs            string // "Data", "48K", "0-1"
}

// CacheSection returns the CACHE section: the processors' caches.
func CacheSection(caches []Cache) Section {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 1) // version
	b = le.AppendUint32(b, uint32(len(caches)))
	for _, c := range caches {
		for _, v := range [...]uint32{c.Level, c.LineSize, c.Sets, c.Ways} {
			b = le.AppendUint32(b, v)
		}
		for _, s := range [...]string{c.Type, c.Size, c.CPUs} {
			b = appendString(b, s)
		}
	}
	return Section{FeatureCache, b}
}

// ClockDataSection returns the CLOCK_DATA section: the times of a clock and of the wall clock at the same moment, in
// ns.
func ClockDataSection(clockID int32, wall, clock uint64) Section {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 1) // version
	b = le.AppendUint32(b, uint32(clockID))
	return Section{FeatureClockData, le.AppendUint64(le.AppendUint64(b, wall), clock)}
}

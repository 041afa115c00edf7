package format

// Feature sections about perf's options and PMUs.

// AuxtraceEntry is an entry of the AUXTRACE section: the offset of an AUXTRACE
// record in the file, and its size including the data after it.
type AuxtraceEntry struct{ Off, Size uint64 }

// AuxtraceIndex returns the AUXTRACE section.
func (f *File) AuxtraceIndex() ([]AuxtraceEntry, bool) {
	return decoded(f, FeatureAuxtrace, parseAuxtraceIndex)
}

func parseAuxtraceIndex(c *cursor) (l []AuxtraceEntry) {
	n := uint64(len(c.b)) / 16
	if len(c.b)%16 != 0 { // simpleperf writes no count
		n = c.u64()
	}
	for ; n > 0 && !c.short; n-- {
		l = append(l, AuxtraceEntry{c.u64(), c.u64()})
	}
	return l
}

// Compression is the COMPRESSED section.
type Compression struct {
	Version uint32
	Type    uint32 // CompressionZstd
	Level   uint32
	Ratio   uint32 // uncompressed to compressed size, rounded
	MmapLen uint32 // size of the ring: the maximum size of a decompressed record, in bytes
}

// CompressionZstd is PERF_COMP_ZSTD, the only type.
const CompressionZstd = 1

// Compression returns the COMPRESSED section.
func (f *File) Compression() (Compression, bool) {
	return decoded(f, FeatureCompressed, reading(passCompression))
}

func passCompression(c *codec, v *Compression) {
	c.fields(&v.Version, &v.Type, &v.Level, &v.Ratio, &v.MmapLen)
}

// ClockData is the CLOCK_DATA section: the recording's clock and the time of day at the same moment, both in ns.
type ClockData struct {
	ClockID              uint32
	TimeOfDay, ClockTime uint64
}

// Offset returns the ns to add to the recording's times, to get ns since 1970.
func (d ClockData) Offset() uint64 { return d.TimeOfDay - d.ClockTime }

// ClockPerf is the ClockID of the clock that perf uses by default, which has no number in Linux. It begins at the boot,
// is not corrected, and stands still in suspend.
const ClockPerf = 1<<32 - 1

// ClockData returns the CLOCK_DATA section.
func (f *File) ClockData() (ClockData, bool) {
	return decoded(f, FeatureClockData, reading(passClockData))
}

// ClockDataSection returns the CLOCK_DATA section: the times of a clock and of the wall clock at the same moment, in
// ns.
func ClockDataSection(clockID int32, wall, clock uint64) Section {
	return sectionOf(FeatureClockData, &ClockData{uint32(clockID), wall, clock}, passClockData)
}

func passClockData(c *codec, d *ClockData) {
	version := uint32(1)
	c.fields(&version, &d.ClockID, &d.TimeOfDay, &d.ClockTime)
}

// PMUCaps is the capabilities of one PMU.
type PMUCaps struct {
	PMU  string
	Caps []string // "name=value"
}

// CPUPMUCaps returns the CPU_PMU_CAPS section: the capabilities of the PMU "cpu".
func (f *File) CPUPMUCaps() (PMUCaps, bool) {
	return decoded(f, FeatureCPUPMUCaps, parseCPUPMUCaps)
}

func parseCPUPMUCaps(c *cursor) PMUCaps { return PMUCaps{"cpu", parseCaps(c)} }

// PMUCaps returns the PMU_CAPS section: the capabilities of several PMUs. perf 5.12 to 5.19 wrote only the capabilities
// of the kinds of CPU of a hybrid machine.
func (f *File) PMUCaps() ([]PMUCaps, bool) {
	return decoded(f, FeaturePMUCaps, parsePMUCaps)
}

func parsePMUCaps(c *cursor) []PMUCaps {
	return list(c, func(c *cursor) PMUCaps {
		caps := parseCaps(c)
		return PMUCaps{c.str(), caps}
	})
}

func parseCaps(c *cursor) []string {
	return list(c, func(c *cursor) string { return c.str() + "=" + c.str() })
}

// FeatureError returns why a section cannot be decoded, or nil. It is nil also for
// a missing section, or one that gperf does not decode.
func (f *File) FeatureError(n Feature) error {
	switch n {
	case FeatureHostname, FeatureOSRelease, FeatureVersion, FeatureArch, FeatureCPUDesc, FeatureCPUID:
		return try(f, n, (*cursor).str)
	case FeatureTotalMem, FeatureClockID, FeatureDirFormat:
		return try(f, n, (*cursor).u64)
	case FeatureSampleTime:
		return try(f, n, func(c *cursor) [2]uint64 { return [2]uint64{c.u64(), c.u64()} })
	case FeatureCacheLine:
		return try(f, n, (*cursor).u32)
	case FeatureEMachine:
		return try(f, n, func(c *cursor) [2]uint32 { return [2]uint32{c.u32(), c.u32()} })
	case FeatureBuildID:
		_, err := f.BuildIDs()
		return err
	}
	if check, ok := featureChecks[n]; ok {
		return check(f)
	}
	return nil
}

func try[T any](f *File, n Feature, decode func(*cursor) T) error {
	_, _, err := feature(f, n, decode)
	return err
}

// featureChecks decode the sections that have a decoder of their own.
var featureChecks = map[Feature]func(*File) error{
	FeatureNrCPUs:       func(f *File) error { return try(f, FeatureNrCPUs, reading(passNrCPUs)) },
	FeatureCmdline:      func(f *File) error { return try(f, FeatureCmdline, reading(passStrings)) },
	FeatureEventDesc:    func(f *File) error { return try(f, FeatureEventDesc, parseEventDesc) },
	FeatureCPUTopology:  func(f *File) error { return try(f, FeatureCPUTopology, f.cpuTopology) },
	FeatureNUMATopology: func(f *File) error { return try(f, FeatureNUMATopology, reading(passNUMANodes)) },
	FeaturePMUMappings:  func(f *File) error { return try(f, FeaturePMUMappings, reading(passPMUs)) },
	FeatureGroupDesc:    func(f *File) error { return try(f, FeatureGroupDesc, reading(passGroups)) },
	FeatureAuxtrace:     func(f *File) error { return try(f, FeatureAuxtrace, parseAuxtraceIndex) },
	FeatureCache:        func(f *File) error { return try(f, FeatureCache, reading(passCaches)) },
	FeatureMemTopology:  func(f *File) error { return try(f, FeatureMemTopology, parseMemTopology) },
	FeatureBPFProgInfo:  func(f *File) error { return try(f, FeatureBPFProgInfo, parseBPFProgs) },
	FeatureBPFBTF:       func(f *File) error { return try(f, FeatureBPFBTF, parseBTFs) },
	FeatureCompressed:   func(f *File) error { return try(f, FeatureCompressed, reading(passCompression)) },
	FeatureCPUPMUCaps:   func(f *File) error { return try(f, FeatureCPUPMUCaps, parseCPUPMUCaps) },
	FeatureClockData:    func(f *File) error { return try(f, FeatureClockData, reading(passClockData)) },
	FeatureHybrid:       func(f *File) error { return try(f, FeatureHybrid, parseHybridNodes) },
	FeaturePMUCaps:      func(f *File) error { return try(f, FeaturePMUCaps, parsePMUCaps) },
	FeatureCPUDomain:    func(f *File) error { return try(f, FeatureCPUDomain, f.cpuDomains) },
	FeatureFile:         func(f *File) error { return try(f, FeatureFile, parseSymbolFiles) },
	FeatureMetaInfo:     func(f *File) error { return try(f, FeatureMetaInfo, parseMetaInfo) },
	FeatureDebugUnwind:  func(f *File) error { return try(f, FeatureDebugUnwind, parseUnwindFiles) },
	FeatureHiperfFiles:  func(f *File) error { return try(f, FeatureHiperfFiles, parseHiperfFiles) },
	FeatureHiperfStacks: func(f *File) error { return try(f, FeatureHiperfStacks, parseHiperfStacks) },
	FeatureCost:         func(f *File) error { return try(f, FeatureCost, parseCost) },
	FeatureFile2:        func(f *File) error { return try(f, FeatureFile2, parseSymbolFiles2) },
}

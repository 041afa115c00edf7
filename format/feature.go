package format

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Feature is the number of a feature section (HEADER_* of
// tools/perf/util/header.h).
type Feature uint8

const (
	FeatureTracingData  Feature = 1
	FeatureBuildID      Feature = 2
	FeatureHostname     Feature = 3
	FeatureOSRelease    Feature = 4
	FeatureVersion      Feature = 5
	FeatureArch         Feature = 6
	FeatureNrCPUs       Feature = 7
	FeatureCPUDesc      Feature = 8
	FeatureCPUID        Feature = 9
	FeatureTotalMem     Feature = 10
	FeatureCmdline      Feature = 11
	FeatureEventDesc    Feature = 12
	FeatureCPUTopology  Feature = 13
	FeatureNUMATopology Feature = 14
	FeatureBranchStack  Feature = 15
	FeaturePMUMappings  Feature = 16
	FeatureGroupDesc    Feature = 17
	FeatureAuxtrace     Feature = 18
	FeatureStat         Feature = 19
	FeatureCache        Feature = 20
	FeatureSampleTime   Feature = 21
	FeatureMemTopology  Feature = 22
	FeatureClockID      Feature = 23
	FeatureDirFormat    Feature = 24
	FeatureBPFProgInfo  Feature = 25
	FeatureBPFBTF       Feature = 26
	FeatureCompressed   Feature = 27
	FeatureCPUPMUCaps   Feature = 28
	FeatureClockData    Feature = 29
	FeatureHybrid       Feature = 30
	FeaturePMUCaps      Feature = 31
	FeatureCPUDomain    Feature = 32
	FeatureEMachine     Feature = 33
	FeatureCacheLine    Feature = 34

	// Features of simpleperf (FEAT_* of system/extras/simpleperf/record_file_format.h).
	FeatureFile            Feature = 128
	FeatureMetaInfo        Feature = 129
	FeatureDebugUnwind     Feature = 130
	FeatureDebugUnwindFile Feature = 131
	FeatureFile2           Feature = 132

	// FeatureHiperfFiles is the section with symbols of OpenHarmony's hiperf.
	FeatureHiperfFiles Feature = 192
	// FeatureHiperfStacks is its section with the stacks that samples refer to.
	FeatureHiperfStacks Feature = 197
)

// LastFeature is the highest feature of perf 7.3.
const LastFeature = FeatureCacheLine

// featureNames are perf's names of the features, by number.
var featureNames = [...]string{
	FeatureTracingData:  "TRACING_DATA",
	FeatureBuildID:      "BUILD_ID",
	FeatureHostname:     "HOSTNAME",
	FeatureOSRelease:    "OSRELEASE",
	FeatureVersion:      "VERSION",
	FeatureArch:         "ARCH",
	FeatureNrCPUs:       "NRCPUS",
	FeatureCPUDesc:      "CPUDESC",
	FeatureCPUID:        "CPUID",
	FeatureTotalMem:     "TOTAL_MEM",
	FeatureCmdline:      "CMDLINE",
	FeatureEventDesc:    "EVENT_DESC",
	FeatureCPUTopology:  "CPU_TOPOLOGY",
	FeatureNUMATopology: "NUMA_TOPOLOGY",
	FeatureBranchStack:  "BRANCH_STACK",
	FeaturePMUMappings:  "PMU_MAPPINGS",
	FeatureGroupDesc:    "GROUP_DESC",
	FeatureAuxtrace:     "AUXTRACE",
	FeatureStat:         "STAT",
	FeatureCache:        "CACHE",
	FeatureSampleTime:   "SAMPLE_TIME",
	FeatureMemTopology:  "MEM_TOPOLOGY",
	FeatureClockID:      "CLOCKID",
	FeatureDirFormat:    "DIR_FORMAT",
	FeatureBPFProgInfo:  "BPF_PROG_INFO",
	FeatureBPFBTF:       "BPF_BTF",
	FeatureCompressed:   "COMPRESSED",
	FeatureCPUPMUCaps:   "CPU_PMU_CAPS",
	FeatureClockData:    "CLOCK_DATA",
	FeatureHybrid:       "HYBRID_TOPOLOGY",
	FeaturePMUCaps:      "PMU_CAPS",
	FeatureCPUDomain:    "CPU_DOMAIN_INFO",
	FeatureEMachine:     "E_MACHINE",
	FeatureCacheLine:    "CLN_SIZE",
}

// String returns perf's name of the feature, "UNKNOWN" after LastFeature.
func (n Feature) String() string {
	if n > LastFeature {
		return "UNKNOWN"
	}
	return featureNames[n]
}

// Section is one feature section's bytes.
type Section struct {
	Feature Feature
	Data    []byte
}

// StringSection returns a section with one string: hostname, OS release, version, arch, CPU description or CPU id.
func StringSection(f Feature, s string) Section {
	return Section{f, appendString(nil, s)}
}

// sectionOf returns the section with the fields that pass passes over.
func sectionOf[T any](f Feature, v *T, pass func(*codec, *T)) Section {
	c := &codec{writes: true}
	pass(c, v)
	return Section{f, c.out}
}

func appendString(b []byte, s string) []byte {
	n := (len(s) + 64) &^ 63
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	b = append(b, s...)
	return append(b, make([]byte, n-len(s))...)
}

// StringsSection returns a section with a u32 count and that number of strings: the command line.
func StringsSection(f Feature, list []string) Section { return sectionOf(f, &list, passStrings) }

func passStrings(c *codec, l *[]string) { listOf(c, l, (*codec).str) }

// NrCPUs is the NRCPUS section.
type NrCPUs struct{ Available, Online uint32 }

func (n NrCPUs) Section() Section { return sectionOf(FeatureNrCPUs, &n, passNrCPUs) }

func passNrCPUs(c *codec, n *NrCPUs) { c.fields(&n.Available, &n.Online) }

// Uint64Section returns a section of u64 values: total memory (kB), sample time (first and last, ns), or the clock's
// resolution (ns).
func Uint64Section(f Feature, values ...uint64) Section {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return Section{f, b}
}

// EventDescSection returns the EVENT_DESC section: the attrs and their names.
func EventDescSection(attrs []Attr) Section {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(attrs)))
	b = le.AppendUint32(b, AttrSize)
	for i := range attrs {
		a := &attrs[i]
		b = a.Append(b)
		b = le.AppendUint32(b, uint32(len(a.IDs)))
		b = appendString(b, a.Name)
		for _, id := range a.IDs {
			b = le.AppendUint64(b, id)
		}
	}
	return Section{FeatureEventDesc, b}
}

// PMU is an entry of the PMU_MAPPINGS section.
type PMU struct {
	Type uint32
	Name string
}

// PMUMappingsSection returns the PMU_MAPPINGS section: the PMUs of /sys/bus/event_source/devices.
func PMUMappingsSection(pmus []PMU) Section { return sectionOf(FeaturePMUMappings, &pmus, passPMUs) }

func passPMUs(c *codec, l *[]PMU) {
	listOf(c, l, func(c *codec, p *PMU) {
		c.fields(&p.Type)
		c.str(&p.Name)
	})
}

// BuildIDEntry is an entry of the BUILD_ID section.
type BuildIDEntry struct {
	Misc     Misc
	PID      int32 // -1, or 0 for the host's kernel
	BuildID  BuildID
	Filename string
}

// pass passes over all but the file name. The size of the build ID follows it; perf before 5.12 did not write the size.
func (e *BuildIDEntry) pass(c *codec) {
	sized, id, size := true, []byte(e.BuildID), uint8(min(len(e.BuildID), maxBuildID))
	c.allMisc(&e.Misc)
	c.flag(&sized, miscBuildIDSize)
	c.fields(&e.PID)
	c.bytes(&id, maxBuildID)
	c.fields(&size)
	c.pad(3)
	if !c.writes {
		e.Misc &^= miscBuildIDSize
		if !sized {
			size = maxBuildID
		}
		e.BuildID = id[:min(int(size), len(id))]
	}
}

// misc bit of entries with the size of the build ID.
const miscBuildIDSize Misc = 1 << 15

// BuildIDSection returns the BUILD_ID section: the build IDs of the DSOs with samples, for kernels that do not write
// them to MMAP2 records.
func BuildIDSection(entries []BuildIDEntry) Section {
	var b []byte
	for i := range entries { // the type of their headers is 0, as in perf since 2.6.36
		b = appendRecord(b, 0, &HeaderBuildID{entries[i]}, 0, 0)
	}
	return Section{FeatureBuildID, b}
}

// feature decodes one section. ok is false if the file does not have it.
func feature[T any](f *File, n Feature, decode func(*cursor) T) (v T, ok bool, err error) {
	data, ok := f.Sections[n]
	if !ok {
		return v, false, nil
	}
	c := &cursor{b: data, order: f.Order}
	v = decode(c)
	if c.short {
		return v, false, errorf(-1, nil, "feature section %d (%d bytes) is truncated", n, len(data))
	}
	return v, true, nil
}

// reading returns the function that decodes the fields that pass passes over.
func reading[T any](pass func(*codec, *T)) func(*cursor) T {
	return func(c *cursor) (v T) {
		r := codec{cursor: *c}
		pass(&r, &v)
		*c = r.cursor
		return v
	}
}

// decoded is feature without the error.
func decoded[T any](f *File, n Feature, decode func(*cursor) T) (T, bool) {
	v, ok, _ := feature(f, n, decode)
	return v, ok
}

// String returns the string of a section with one string, or "" if the section is absent.
func (f *File) String(n Feature) string {
	s, _, _ := feature(f, n, (*cursor).str)
	return s
}

// NrCPUs returns the NRCPUS section.
func (f *File) NrCPUs() (NrCPUs, bool) { return decoded(f, FeatureNrCPUs, reading(passNrCPUs)) }

// Uint64s returns the first n values of a section of u64 values, or nil if the section is absent or shorter.
func (f *File) Uint64s(feat Feature, n int) []uint64 { return numbersOf(f, feat, n, (*cursor).u64) }

// Uint32s returns the first n values of a section of u32 values, or nil if the section is absent or shorter.
func (f *File) Uint32s(feat Feature, n int) []uint32 { return numbersOf(f, feat, n, (*cursor).u32) }

func numbersOf[T any](f *File, feat Feature, n int, number func(*cursor) T) []T {
	v, ok := decoded(f, feat, func(c *cursor) (l []T) {
		for range n {
			l = append(l, number(c))
		}
		return l
	})
	if !ok {
		return nil
	}
	return v
}

// Has reports whether the file has a readable section of the feature.
func (f *File) Has(n Feature) bool {
	_, ok := f.Sections[n]
	return ok
}

// Cmdline returns the recorder's command line.
func (f *File) Cmdline() []string {
	l, _ := decoded(f, FeatureCmdline, reading(passStrings))
	return l
}

// PMUMappings returns the PMUs of the recording machine.
func (f *File) PMUMappings() []PMU {
	l, _ := decoded(f, FeaturePMUMappings, reading(passPMUs))
	return l
}

// BuildIDs returns the BUILD_ID section. With an error, it returns the entries before the error.
func (f *File) BuildIDs() ([]BuildIDEntry, error) {
	l, err := f.parseBuildIDs(0)
	for _, e := range l {
		// perf before 2.6.35 wrote no pid: the build IDs are in its place, so that the start of the kernel's name seems
		// to be missing.
		if strings.HasPrefix(e.Filename, "nel.kallsyms]") {
			return f.parseBuildIDs(4)
		}
	}
	return l, err
}

// parseBuildIDs reads the entries; missing is 4 if they have no pid, otherwise 0.
func (f *File) parseBuildIDs(missing int) (l []BuildIDEntry, err error) {
	data := f.Sections[FeatureBuildID]
	for len(data) > 0 {
		c := codec{cursor: cursor{b: data, order: f.Order}}
		c.u32()
		c.misc = Misc(c.u16())
		size := int(c.u16())
		if size < HeaderSize || size > len(data) {
			return l, errorf(-1, nil, "build ID entry of %d bytes in a section with %d left", size, len(data))
		}
		c.b = data[HeaderSize-missing : size]
		var e BuildIDEntry
		if e.pass(&c); c.short {
			return l, errorf(-1, nil, "build ID entry of %d bytes is too short", size)
		}
		if missing > 0 {
			e.PID = -1
		}
		e.Filename = c.cstring()
		l = append(l, e)
		data = data[size:]
	}
	return l, nil
}

// EventDesc returns the EVENT_DESC section: the attrs with their names and IDs. Attr.Size is the recorder's, not the
// size in this section.
func (f *File) EventDesc() ([]Attr, bool) { return decoded(f, FeatureEventDesc, parseEventDesc) }

func parseEventDesc(c *cursor) (l []Attr) {
	n, size := c.u32(), int(c.u32())
	for ; n > 0 && !c.short; n-- {
		b := c.take(size)
		ids := uint64(c.u32())
		name := c.str()
		words := Words{c.words(ids), c.order}
		if c.short || len(b) < minAttrSize {
			c.short = true
			break
		}
		a, _ := parseAttr(b, c.order) // an error means that it is too short
		a.Name = name
		for i := range words.Len() {
			a.IDs = append(a.IDs, words.At(i))
		}
		l = append(l, a)
	}
	return l
}

// nameAttrs sets the attrs' names from the EVENT_DESC section, or from simpleperf's META_INFO.
func (f *File) nameAttrs() error {
	l, _, err := feature(f, FeatureEventDesc, parseEventDesc)
	for i := range min(len(l), len(f.Attrs)) {
		f.Attrs[i].Name = l[i].Name
	}
	f.nameSimpleperf()
	if err != nil {
		return fmt.Errorf("event descriptions: %w", err)
	}
	return nil
}

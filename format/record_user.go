package format

import (
	"fmt"
	"math"
	"strings"
)

// The records of this file are perf's own: enum perf_user_event_type of
// tools/lib/perf/include/perf/event.h. Each comment names the C struct. These records end
// without a sample id; the reader skips the space that some versions of perf reserve for
// one.

// HeaderAttr is perf_record_header_attr: an event's attr and its ids, in pipe mode.
type HeaderAttr struct{ Attr Attr }

// HeaderEventType is perf_record_header_event_type: an event's name. In the record, the
// name is padded to 64 bytes or ends the record.
type HeaderEventType struct {
	EventID uint64
	Name    string
}

// HeaderTracing is perf_record_header_tracing_data: Size bytes of tracepoint
// formats follow the record.
type HeaderTracing struct{ Size uint32 }

// HeaderBuildID is perf_record_header_build_id.
type HeaderBuildID struct{ BuildIDEntry }

// FinishedRound is PERF_RECORD_FINISHED_ROUND: see RoundSorter.
type FinishedRound struct{}

// FinishedInit is PERF_RECORD_FINISHED_INIT: perf has written all processes and mappings
// that are older than the recording.
type FinishedInit struct{}

// IDIndex is perf_record_id_index: the CPU and thread of each counter's id.
type IDIndex struct {
	Entries []IDIndexEntry
	// Guests reports whether the entries have MachinePID and VCPU.
	Guests bool
}

// IDIndexEntry is struct id_index_entry with its id_index_entry_2.
type IDIndexEntry struct {
	ID, Index        uint64
	CPU, TID         int64 // -1: any CPU or thread
	MachinePID, VCPU int64
}

// AuxtraceInfo is perf_record_auxtrace_info: how the AUX area was set up.
type AuxtraceInfo struct {
	Type AuxtraceType
	Priv Words // in the layout of the decoder of Type
}

// AuxtraceType is enum auxtrace_type of tools/perf/util/auxtrace.h.
type AuxtraceType uint32

func (t AuxtraceType) String() string {
	names := [...]string{"unknown", "Intel PT", "Intel BTS", "CoreSight ETM", "ARM SPE", "s390 CPUMSF",
		"HiSilicon PTT", "PowerPC VPA DTL"}
	if int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// DecodedByPerf reports whether every perf for the architecture makes samples of such traces. It needs a library for
// CoreSight ETM, and prints HiSilicon PTT only as a dump.
func (t AuxtraceType) DecodedByPerf() bool {
	const intelPT, intelBTS, armSPE, s390CPUMSF, vpaDTL = 1, 2, 4, 5, 7
	return t == intelPT || t == intelBTS || t == armSPE || t == s390CPUMSF || t == vpaDTL
}

// Auxtrace is perf_record_auxtrace: Size bytes of the AUX area follow the
// record.
type Auxtrace struct {
	Size      uint64
	Off       uint64 // bytes, in the AUX area
	Reference uint64 // distinguishes snapshots
	Index     uint32 // number of the AUX area
	TID       int32  // -1: the AUX area belongs to a CPU
	CPU       int32  // -1: the AUX area belongs to a thread
}

// AuxtraceError is perf_record_auxtrace_error: trace data that was lost or cannot be
// decoded. Format is 0 to 2; fields that a Format does not have are zero.
type AuxtraceError struct {
	Type, Code       uint32
	CPU, PID, TID    int32
	Format           uint32
	IP               uint64
	Time             uint64 // ns; 0: unknown
	Msg              string
	MachinePID, VCPU int32
}

// ThreadMap is perf_record_thread_map: the threads that `perf stat` counts.
type ThreadMap struct{ Threads []ThreadMapEntry }

// ThreadMapEntry is perf_record_thread_map_entry.
type ThreadMapEntry struct {
	TID  int64 // -1: all threads
	Comm string
}

// CPUMap is perf_record_cpu_map: a set of CPUs, in the order of the file.
type CPUMap struct{ CPUs CPUSet }

// CPUSet is a set of CPUs.
type CPUSet []CPURange

// CPURange is the CPUs First to Last. First is -1 for "any".
type CPURange struct{ First, Last int }

// String lists the CPUs as perf does, "0-3,6", with -1 for any.
func (s CPUSet) String() string {
	var parts []string
	for _, r := range s {
		if r.First == r.Last {
			parts = append(parts, fmt.Sprint(r.First))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", r.First, r.Last))
		}
	}
	return strings.Join(parts, ",")
}

// StatConfig is perf_record_stat_config.
type StatConfig struct{ Terms []StatConfigTerm }

// StatConfigTerm is perf_record_stat_config_entry; Tag is 0 aggr_mode, 1
// interval, 2 scale, 3 aggr_level.
type StatConfigTerm struct{ Tag, Value uint64 }

// Stat is perf_record_stat: the value of a counter of `perf stat`.
type Stat struct {
	ID               uint64
	CPU, Thread      uint32 // indexes in CPUMap and ThreadMap
	Value            uint64
	Enabled, Running uint64 // ns
}

// StatRound is perf_record_stat_round.
type StatRound struct {
	Type uint64 // 0 interval, 1 final
	Time uint64 // ns
}

// EventUpdate is perf_record_event_update: a property of an event that the attr does not
// contain. It identifies the event by a counter's id. Kind selects the field that is set.
type EventUpdate struct {
	Kind  uint64
	ID    uint64
	Unit  string
	Scale float64
	Name  string
	CPUs  CPUSet
}

// Values of EventUpdate.Kind.
const (
	EventUpdateUnit uint64 = iota
	EventUpdateScale
	EventUpdateName
	EventUpdateCPUs
)

// TimeConv is perf_record_time_conv: the parameters that convert time stamp counters to
// ns. Fields that perf before 5.8 did not write are zero.
type TimeConv struct {
	Shift, Mult, Zero, Cycles, Mask uint64
	CapZero, CapShort               bool
}

// HeaderFeature is perf_record_header_feature: a feature section, in pipe mode.
type HeaderFeature struct {
	Feature Feature
	Data    []byte
}

// Compressed is perf_record_compressed or perf_record_compressed2: records compressed by
// zstd.
type Compressed struct{ Data []byte }

// BPFMetadata is perf_record_bpf_metadata: the variables of a BPF program whose names
// begin with bpf_metadata_.
type BPFMetadata struct {
	Prog    string
	Entries []BPFMetadataEntry
}

// BPFMetadataEntry is perf_record_bpf_metadata_entry.
type BPFMetadataEntry struct{ Key, Value string }

// SchedstatCPU is perf_record_schedstat_cpu: a cpu line of /proc/schedstat. The numbers
// have the order of Documentation/scheduler/sched-stats.rst.
type SchedstatCPU struct {
	Time    uint64
	CPU     uint32
	Version uint16
	Values  []uint64
}

// SchedstatDomain is perf_record_schedstat_domain: a domain line of
// /proc/schedstat.
type SchedstatDomain struct {
	Time    uint64
	CPU     uint32
	Version uint16
	Domain  uint16
	Values  []uint64
}

func (*HeaderAttr) sealed()      {}
func (*HeaderEventType) sealed() {}
func (*HeaderTracing) sealed()   {}
func (*HeaderBuildID) sealed()   {}
func (*FinishedRound) sealed()   {}
func (*FinishedInit) sealed()    {}
func (*IDIndex) sealed()         {}
func (*AuxtraceInfo) sealed()    {}
func (*Auxtrace) sealed()        {}
func (*AuxtraceError) sealed()   {}
func (*ThreadMap) sealed()       {}
func (*CPUMap) sealed()          {}
func (*StatConfig) sealed()      {}
func (*Stat) sealed()            {}
func (*StatRound) sealed()       {}
func (*EventUpdate) sealed()     {}
func (*TimeConv) sealed()        {}
func (*HeaderFeature) sealed()   {}
func (*Compressed) sealed()      {}
func (*BPFMetadata) sealed()     {}
func (*SchedstatCPU) sealed()    {}
func (*SchedstatDomain) sealed() {}

// decodeUser decodes perf's own records.
func decodeUser(r Raw, c *cursor) Record {
	switch r.Type {
	case TypeHeaderAttr:
		return parseHeaderAttr(c)
	case TypeHeaderEventType:
		return &HeaderEventType{EventID: c.u64(), Name: c.name()}
	case TypeHeaderTracing:
		return &HeaderTracing{Size: c.u32()}
	case TypeHeaderBuildID:
		return parseHeaderBuildID(r.Misc, c)
	case TypeFinishedRound:
		return &FinishedRound{}
	case TypeFinishedInit:
		return &FinishedInit{}
	case TypeIDIndex:
		return parseIDIndex(c)
	case TypeAuxtraceInfo:
		return parseAuxtraceInfo(c)
	case TypeAuxtrace:
		return &Auxtrace{Size: c.u64(), Off: c.u64(), Reference: c.u64(), Index: c.u32(), TID: int32(c.u32()),
			CPU: int32(c.u32())}
	case TypeAuxtraceError:
		return parseAuxtraceError(c)
	case TypeThreadMap:
		return parseThreadMap(c)
	case TypeCPUMap:
		return &CPUMap{CPUs: parseCPUs(c)}
	case TypeEventUpdate:
		return parseEventUpdate(c)
	case TypeTimeConv:
		return parseTimeConv(c)
	case TypeHeaderFeature:
		return &HeaderFeature{Feature: Feature(c.u64()), Data: c.rest()}
	case TypeCompressed:
		return &Compressed{Data: c.rest()}
	case TypeCompressed2:
		return &Compressed{Data: c.entries(c.u64(), 1).b}
	}
	return decodeStat(r, c)
}

// decodeStat decodes the records of `perf stat` and `perf sched stats`.
func decodeStat(r Raw, c *cursor) Record {
	switch r.Type {
	case TypeStatConfig:
		return parseStatConfig(c)
	case TypeStat:
		return &Stat{ID: c.u64(), CPU: c.u32(), Thread: c.u32(), Value: c.u64(), Enabled: c.u64(), Running: c.u64()}
	case TypeStatRound:
		return &StatRound{Type: c.u64(), Time: c.u64()}
	case TypeBPFMetadata:
		return parseBPFMetadata(c)
	case TypeSchedstatCPU:
		s := &SchedstatCPU{Time: c.u64(), CPU: c.u32(), Version: c.u16()}
		c.u16()
		s.Values = parseSchedstat(c, 6, 3)
		return s
	case TypeSchedstatDomain:
		s := &SchedstatDomain{Time: c.u64(), CPU: c.u32(), Version: c.u16(), Domain: c.u16()}
		if s.Version >= 17 {
			s.Values = parseSchedstat(c, 45, 0)
		} else {
			s.Values = parseSchedstat(c, 36, 0)
		}
		return s
	}
	return &Other{Raw: r}
}

// rest returns the remaining bytes.
func (c *cursor) rest() []byte { return c.take(len(c.b)) }

// parseHeaderAttr reads an attr, whose size field gives its length, and the ids that
// follow it.
func parseHeaderAttr(c *cursor) *HeaderAttr {
	size := cursor{b: c.b, order: c.order}
	size.u32()
	n := size.u32()
	if n == 0 {
		n = minAttrSize // perf before 2.6.33 wrote no size
	}
	a, err := parseAttr(c.take(int(n)), c.order)
	if err != nil {
		c.short = true
	}
	for len(c.b) >= 8 {
		a.IDs = append(a.IDs, c.u64())
	}
	return &HeaderAttr{Attr: a}
}

func parseHeaderBuildID(misc Misc, c *cursor) *HeaderBuildID {
	e := BuildIDEntry{Misc: misc &^ miscBuildIDSize, PID: int32(c.u32())}
	id := c.take(24)
	if c.short {
		return &HeaderBuildID{}
	}
	n := 20
	if misc&miscBuildIDSize != 0 {
		n = min(int(id[20]), n)
	}
	e.BuildID, e.Filename = BuildID(id[:n]), c.name()
	return &HeaderBuildID{e}
}

// parseIDIndex reads all entries, then the second parts of all entries (virtual machines),
// which perf before 6.0 did not write.
func parseIDIndex(c *cursor) *IDIndex {
	x := &IDIndex{}
	e := c.entries(c.u64(), 32)
	for len(e.b) > 0 {
		x.Entries = append(x.Entries, IDIndexEntry{ID: e.u64(), Index: e.u64(), CPU: int64(e.u64()),
			TID: int64(e.u64())})
	}
	if len(c.b) == 0 || len(c.b) < 16*len(x.Entries) {
		return x
	}
	x.Guests = true
	for i := range x.Entries {
		x.Entries[i].MachinePID, x.Entries[i].VCPU = int64(c.u64()), int64(c.u64())
	}
	return x
}

func parseAuxtraceInfo(c *cursor) *AuxtraceInfo {
	a := &AuxtraceInfo{Type: AuxtraceType(c.u32())}
	c.u32()
	a.Priv = Words{c.take(len(c.b) &^ 7), c.order}
	return a
}

func parseAuxtraceError(c *cursor) *AuxtraceError {
	e := &AuxtraceError{Type: c.u32(), Code: c.u32(), CPU: int32(c.u32()), PID: int32(c.u32()), TID: int32(c.u32()),
		Format: c.u32(), IP: c.u64()}
	if e.Format == 0 {
		e.Msg = c.cstring()
		return e
	}
	e.Time = c.u64()
	if e.Format == 1 || len(c.b) <= 64 {
		e.Msg = c.cstring()
		return e
	}
	e.Msg = cstring(c.take(64))
	e.MachinePID, e.VCPU = int32(c.u32()), int32(c.u32())
	return e
}

func parseThreadMap(c *cursor) *ThreadMap {
	m := &ThreadMap{}
	for e := c.entries(c.u64(), 24); len(e.b) > 0; {
		m.Threads = append(m.Threads, ThreadMapEntry{TID: int64(e.u64()), Comm: cstring(e.take(16))})
	}
	return m
}

// cpus reads struct perf_record_cpu_map_data in each of its encodings: a list, a mask of
// 32-bit or 64-bit words, or a range.
func parseCPUs(c *cursor) (s CPUSet) {
	switch kind := c.u16(); kind {
	case 0:
		for e := c.entries(uint64(c.u16()), 2); len(e.b) > 0; {
			cpu := int(e.u16())
			if cpu == math.MaxUint16 {
				cpu = -1
			}
			s.add(cpu, cpu)
		}
	case 1:
		nr, size := c.u16(), c.u16()
		s.mask(c, nr, size)
	case 2:
		any := c.u8()
		c.u8()
		if any != 0 {
			s.add(-1, -1)
		}
		first, last := int(c.u16()), int(c.u16())
		if !c.short && first <= last {
			s.add(first, last)
		}
	default:
		c.short = c.short || kind > 2
	}
	return s
}

// add appends CPUs. It extends the last range if they follow it.
func (s *CPUSet) add(first, last int) {
	if n := len(*s); n > 0 && first > 0 && (*s)[n-1].Last == first-1 {
		(*s)[n-1].Last = last
		return
	}
	*s = append(*s, CPURange{first, last})
}

// mask adds the CPUs of a bit mask. Padding precedes the first 64-bit word.
func (s *CPUSet) mask(c *cursor, nr, size uint16) {
	if size != 4 && size != 8 {
		c.short = true
		return
	}
	if size == 8 {
		c.take(4)
	}
	e := c.entries(uint64(nr), int(size))
	for cpu := 0; len(e.b) > 0; cpu += 8 * int(size) {
		var word uint64
		if size == 4 {
			word = uint64(e.u32())
		} else {
			word = e.u64()
		}
		for bit := 0; word>>bit != 0; bit++ {
			if word>>bit&1 != 0 {
				s.add(cpu+bit, cpu+bit)
			}
		}
	}
}

func parseEventUpdate(c *cursor) *EventUpdate {
	u := &EventUpdate{Kind: c.u64(), ID: c.u64()}
	switch u.Kind {
	case EventUpdateUnit:
		u.Unit = c.name()
	case EventUpdateScale:
		u.Scale = math.Float64frombits(c.u64())
	case EventUpdateName:
		u.Name = c.name()
	case EventUpdateCPUs:
		u.CPUs = parseCPUs(c)
	}
	return u
}

func parseTimeConv(c *cursor) *TimeConv {
	t := &TimeConv{Shift: c.u64(), Mult: c.u64(), Zero: c.u64()}
	if len(c.b) == 0 {
		return t
	}
	t.Cycles, t.Mask = c.u64(), c.u64()
	t.CapZero, t.CapShort = c.u8() != 0, c.u8() != 0
	return t
}

func parseStatConfig(c *cursor) *StatConfig {
	s := &StatConfig{}
	for e := c.entries(c.u64(), 16); len(e.b) > 0; {
		s.Terms = append(s.Terms, StatConfigTerm{Tag: e.u64(), Value: e.u64()})
	}
	return s
}

// bpfProgNameLen is BPF_PROG_NAME_LEN of perf's event.h.
const bpfProgNameLen = 512

func parseBPFMetadata(c *cursor) *BPFMetadata {
	m := &BPFMetadata{Prog: cstring(c.take(bpfProgNameLen))}
	for e := c.entries(c.u64(), 64+256); len(e.b) > 0; {
		m.Entries = append(m.Entries, BPFMetadataEntry{Key: cstring(e.take(64)), Value: cstring(e.take(256))})
	}
	return m
}

// schedstat reads numbers of 32 bits if short, and of 64 bits otherwise.
func parseSchedstat(c *cursor, short, long int) []uint64 {
	var l []uint64
	for range short {
		l = append(l, uint64(c.u32()))
	}
	for range long {
		l = append(l, c.u64())
	}
	return l
}

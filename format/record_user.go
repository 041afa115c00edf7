package format

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

// The records of this file are perf's own: enum perf_user_event_type of
// tools/lib/perf/include/perf/event.h. Each comment names the C struct. These records end
// without a sample id; the reader skips the space that some versions of perf reserve for
// one. gperf writes none of the records with sets of CPUs or numbers of /proc/schedstat.

// HeaderAttr is perf_record_header_attr: an event's attr and its ids, in pipe mode.
type HeaderAttr struct{ Attr Attr }

// layout has the ids after the attr, whose field size gives its length.
func (h *HeaderAttr) layout(c *codec) {
	if c.writes {
		c.out = h.Attr.Append(c.out)
	} else {
		h.read(c)
	}
	for i := range h.Attr.IDs {
		c.fields(&h.Attr.IDs[i])
	}
}

func (h *HeaderAttr) read(c *codec) {
	size := cursor{b: c.b, order: c.order}
	size.u32()
	n := cmp.Or(size.u32(), minAttrSize) // perf before 2.6.33 wrote no size
	a, err := parseAttr(c.take(int(n)), c.order)
	if err != nil {
		c.short = true
	}
	if len(c.b) >= 8 {
		a.IDs = make([]uint64, len(c.b)/8)
	}
	h.Attr = a
}

// HeaderEventType is perf_record_header_event_type: an event's name. In the record, the
// name is padded to 64 bytes or ends the record.
type HeaderEventType struct {
	EventID uint64
	Name    string
}

func (h *HeaderEventType) layout(c *codec) {
	c.fields(&h.EventID)
	c.name(&h.Name)
}

// HeaderTracing is perf_record_header_tracing_data: Size bytes of tracepoint
// formats follow the record.
type HeaderTracing struct{ Size uint32 }

func (h *HeaderTracing) layout(c *codec) {
	c.fields(&h.Size)
	if c.writes {
		c.pad(4) // which perf leaves out
	}
}

// HeaderBuildID is perf_record_header_build_id.
type HeaderBuildID struct{ BuildIDEntry }

func (h *HeaderBuildID) layout(c *codec) {
	h.BuildIDEntry.pass(c)
	c.name(&h.Filename)
}

// FinishedRound is PERF_RECORD_FINISHED_ROUND: see RoundSorter.
type FinishedRound struct{}

func (*FinishedRound) layout(*codec) {}

// FinishedInit is PERF_RECORD_FINISHED_INIT: perf has written all processes and mappings
// that are older than the recording.
type FinishedInit struct{}

func (*FinishedInit) layout(*codec) {}

// IDIndex is perf_record_id_index: the CPU and thread of each counter's id.
type IDIndex struct {
	Entries []IDIndexEntry
	// Guests reports whether the entries have MachinePID and VCPU.
	Guests bool
}

// layout has all entries, then the second parts of all entries (virtual machines), which perf before 6.0 did not write.
func (x *IDIndex) layout(c *codec) {
	entriesOf(c, 32, &x.Entries, func(c *codec, e *IDIndexEntry) { c.fields(&e.ID, &e.Index, &e.CPU, &e.TID) })
	if !c.writes {
		x.Guests = len(c.b) > 0 && len(c.b) >= 16*len(x.Entries)
	}
	for i := range x.Entries {
		if x.Guests {
			c.fields(&x.Entries[i].MachinePID, &x.Entries[i].VCPU)
		}
	}
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

func (a *AuxtraceInfo) layout(c *codec) {
	c.fields((*uint32)(&a.Type))
	c.pad(4)
	c.values(&a.Priv, uint64(len(c.b)/8))
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

func (a *Auxtrace) layout(c *codec) {
	c.fields(&a.Size, &a.Off, &a.Reference, &a.Index, &a.TID, &a.CPU)
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

func (e *AuxtraceError) layout(c *codec) {
	c.fields(&e.Type, &e.Code, &e.CPU, &e.PID, &e.TID, &e.Format, &e.IP)
	if e.Format > 0 {
		c.fields(&e.Time)
	}
	if e.Format <= 1 || !c.writes && len(c.b) <= 64 {
		c.ending(&e.Msg)
		return
	}
	c.text(&e.Msg, 64)
	c.fields(&e.MachinePID, &e.VCPU)
}

// ThreadMap is perf_record_thread_map: the threads that `perf stat` counts.
type ThreadMap struct{ Threads []ThreadMapEntry }

func (m *ThreadMap) layout(c *codec) {
	entriesOf(c, 24, &m.Threads, func(c *codec, e *ThreadMapEntry) {
		c.fields(&e.TID)
		c.text(&e.Comm, 16)
	})
}

// ThreadMapEntry is perf_record_thread_map_entry.
type ThreadMapEntry struct {
	TID  int64 // -1: all threads
	Comm string
}

// CPUMap is perf_record_cpu_map: a set of CPUs, in the order of the file.
type CPUMap struct{ CPUs CPUSet }

func (m *CPUMap) layout(c *codec) { c.cpus(&m.CPUs) }

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

func (s *StatConfig) layout(c *codec) {
	entriesOf(c, 16, &s.Terms, func(c *codec, t *StatConfigTerm) { c.fields(&t.Tag, &t.Value) })
}

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

func (s *Stat) layout(c *codec) {
	c.fields(&s.ID, &s.CPU, &s.Thread, &s.Value, &s.Enabled, &s.Running)
}

// StatRound is perf_record_stat_round.
type StatRound struct {
	Type uint64 // 0 interval, 1 final
	Time uint64 // ns
}

func (s *StatRound) layout(c *codec) { c.fields(&s.Type, &s.Time) }

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

func (u *EventUpdate) layout(c *codec) {
	c.fields(&u.Kind, &u.ID)
	switch u.Kind {
	case EventUpdateUnit:
		c.name(&u.Unit)
	case EventUpdateScale:
		c.fields(&u.Scale)
	case EventUpdateName:
		c.name(&u.Name)
	case EventUpdateCPUs:
		c.cpus(&u.CPUs)
	}
}

// TimeConv is perf_record_time_conv: the parameters that convert time stamp counters to
// ns. Fields that perf before 5.8 did not write are zero.
type TimeConv struct {
	Shift, Mult, Zero, Cycles, Mask uint64
	CapZero, CapShort               bool
}

func (t *TimeConv) layout(c *codec) {
	c.fields(&t.Shift, &t.Mult, &t.Zero)
	if c.more() {
		c.fields(&t.Cycles, &t.Mask, &t.CapZero, &t.CapShort)
	}
}

// HeaderFeature is perf_record_header_feature: a feature section, in pipe mode.
type HeaderFeature struct {
	Feature Feature
	Data    []byte
}

func (h *HeaderFeature) layout(c *codec) {
	feature := uint64(h.Feature)
	c.fields(&feature)
	c.rest(&h.Data)
	if !c.writes {
		h.Feature = Feature(feature)
	}
}

// Compressed is perf_record_compressed or perf_record_compressed2: records compressed by
// zstd.
type Compressed struct{ Data []byte }

func (x *Compressed) layout(c *codec) {
	if c.typ == TypeCompressed {
		c.rest(&x.Data)
		return
	}
	size := uint64(len(x.Data))
	c.fields(&size)
	c.counted(&x.Data, size)
}

// BPFMetadata is perf_record_bpf_metadata: the variables of a BPF program whose names
// begin with bpf_metadata_.
type BPFMetadata struct {
	Prog    string
	Entries []BPFMetadataEntry
}

// BPFMetadataEntry is perf_record_bpf_metadata_entry.
type BPFMetadataEntry struct{ Key, Value string }

// bpfProgNameLen is BPF_PROG_NAME_LEN of perf's event.h.
const bpfProgNameLen = 512

func (m *BPFMetadata) layout(c *codec) {
	c.text(&m.Prog, bpfProgNameLen)
	entriesOf(c, 64+256, &m.Entries, func(c *codec, e *BPFMetadataEntry) {
		c.text(&e.Key, 64)
		c.text(&e.Value, 256)
	})
}

// SchedstatCPU is perf_record_schedstat_cpu: a cpu line of /proc/schedstat. The numbers
// have the order of Documentation/scheduler/sched-stats.rst.
type SchedstatCPU struct {
	Time    uint64
	CPU     uint32
	Version uint16
	Values  []uint64
}

func (s *SchedstatCPU) layout(c *codec) {
	c.fields(&s.Time, &s.CPU, &s.Version)
	c.pad(2)
	c.schedstat(&s.Values, 6, 3)
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

func (s *SchedstatDomain) layout(c *codec) {
	c.fields(&s.Time, &s.CPU, &s.Version, &s.Domain)
	numbers := 36
	if s.Version >= 17 {
		numbers = 45
	}
	c.schedstat(&s.Values, numbers, 0)
}

// parseCPUs reads struct perf_record_cpu_map_data in each of its encodings: a list, a mask of
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

// schedstat reads numbers of 32 bits, and then numbers of 64 bits.
func (c *codec) schedstat(l *[]uint64, short, long int) {
	c.onlyRead()
	for range short {
		*l = append(*l, uint64(c.u32()))
	}
	for range long {
		*l = append(*l, c.u64())
	}
}

// cpus reads a set of CPUs.
func (c *codec) cpus(s *CPUSet) {
	c.onlyRead()
	*s = parseCPUs(&c.cursor)
}

// onlyRead panics if a record is written that gperf cannot write.
func (c *codec) onlyRead() {
	if c.writes {
		panic("format: " + c.typ.String() + " is not written")
	}
}

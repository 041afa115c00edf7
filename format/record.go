package format

import (
	"encoding/binary"
	"encoding/hex"
	"iter"
	"math/bits"
)

// Type is perf_event_header.type. Values up to 63 belong to the kernel (enum
// perf_event_type), values from 64 to perf (enum perf_user_event_type).
type Type uint32

// Types from 32768 belong to simpleperf (user_record_type of its record.h). gperf does not
// decode them.
const (
	TypeMmap              Type = 1
	TypeLost              Type = 2
	TypeComm              Type = 3
	TypeExit              Type = 4
	TypeThrottle          Type = 5
	TypeUnthrottle        Type = 6
	TypeFork              Type = 7
	TypeRead              Type = 8
	TypeSample            Type = 9
	TypeMmap2             Type = 10
	TypeAux               Type = 11
	TypeItraceStart       Type = 12
	TypeLostSamples       Type = 13
	TypeSwitch            Type = 14
	TypeSwitchCPUWide     Type = 15
	TypeNamespaces        Type = 16
	TypeKSymbol           Type = 17
	TypeBPFEvent          Type = 18
	TypeCgroup            Type = 19
	TypeTextPoke          Type = 20
	TypeAuxOutputHWID     Type = 21
	TypeCallchainDeferred Type = 22
	typeKernelEnd         Type = 64 // lower types are the kernel's: their records end with a sample id
	TypeHeaderAttr        Type = 64
	TypeHeaderEventType   Type = 65 // written by perf before 3.2
	TypeHeaderTracing     Type = 66
	TypeHeaderBuildID     Type = 67
	TypeFinishedRound     Type = 68
	TypeIDIndex           Type = 69
	TypeAuxtraceInfo      Type = 70
	TypeAuxtrace          Type = 71
	TypeAuxtraceError     Type = 72
	TypeThreadMap         Type = 73
	TypeCPUMap            Type = 74
	TypeStatConfig        Type = 75
	TypeStat              Type = 76
	TypeStatRound         Type = 77
	TypeEventUpdate       Type = 78
	TypeTimeConv          Type = 79
	TypeHeaderFeature     Type = 80
	TypeCompressed        Type = 81
	TypeFinishedInit      Type = 82
	TypeCompressed2       Type = 83
	TypeBPFMetadata       Type = 84
	TypeSchedstatCPU      Type = 85
	TypeSchedstatDomain   Type = 86
	TypePerfEnd           Type = 87 // PERF_RECORD_HEADER_MAX: higher types belong to other tools
	HeaderSize                 = 8  // sizeof(struct perf_event_header), in bytes
	maxRecordSize              = 1<<16 - 1
	auxtraceSizeFieldEnd       = 16 // PERF_RECORD_AUXTRACE.size ends here
)

// The types of simpleperf's own records.
const (
	TypeSimpleperfKernelSymbol Type = 32769 + iota
	TypeSimpleperfDSO
	TypeSimpleperfSymbol
	TypeSimpleperfSplit
	TypeSimpleperfSplitEnd
	TypeSimpleperfEventID
	TypeSimpleperfCallchain
	TypeSimpleperfUnwindingResult
	TypeSimpleperfTracingData
	TypeSimpleperfDebug
)

// Misc is perf_event_header.misc. The low three bits are the CPU's mode; the others depend on the record's type.
type Misc uint16

const (
	MiscCPUModeMask   Misc = 7
	MiscKernel        Misc = 1
	MiscUser          Misc = 2
	MiscHypervisor    Misc = 3
	MiscGuestKernel   Misc = 4
	MiscGuestUser     Misc = 5
	MiscMmapData      Misc = 1 << 13 // MMAP, MMAP2: not executable
	MiscCommExec      Misc = 1 << 13 // COMM: the process called exec
	MiscForkExec      Misc = 1 << 13 // FORK: the process existed before the recording and has its own mappings
	MiscSwitchOut     Misc = 1 << 13 // SWITCH
	MiscExactIP       Misc = 1 << 14 // SAMPLE
	MiscRunnable      Misc = 1 << 14 // SAMPLE of offcpu-time, by gperf only: the thread waited for a CPU
	MiscMmapBuildID   Misc = 1 << 14 // MMAP2: build ID instead of device and inode
	MiscSwitchPreempt Misc = 1 << 14 // SWITCH out
)

// Raw is one undecoded record. Data and all values that share its memory are valid until
// Release.
type Raw struct {
	Type Type
	Misc Misc
	Off  int64  // bytes, of the header in the file
	Time uint64 // ns; 0: the record has no time
	Data []byte // the body after the header, including the sample id

	chunk *chunk // owns the memory of Data; nil if Data has its own
}

// Records yields the records that a recorder on a little-endian machine writes, with their headers. It ends at an
// incomplete or invalid record: the file's reader reports that.
func Records(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(b) >= HeaderSize {
			size := int(binary.LittleEndian.Uint16(b[6:]))
			if size < HeaderSize || size > len(b) || !yield(b[:size:size]) {
				return
			}
			b = b[size:]
		}
	}
}

// ParseRecords yields the decoded records of Records, which end with a sample id of idSize bytes. It skips records that
// it cannot decode.
func ParseRecords(b []byte, idSize int) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for raw := range Records(b) {
			if rec, err := ParseRecord(RawOf(raw, idSize), 0); err == nil && !yield(rec) {
				return
			}
		}
	}
}

// RawOf returns a record of Records without its sample id of idSize bytes.
func RawOf(rec []byte, idSize int) Raw {
	le := binary.LittleEndian
	return Raw{Type: Type(le.Uint32(rec)), Misc: Misc(le.Uint16(rec[4:])),
		Data: rec[HeaderSize:max(HeaderSize, len(rec)-idSize)]}
}

// Release returns the memory of Data for reuse. The caller must not use Data after that. A
// caller that keeps a record need not call Release.
func (r *Raw) Release() {
	r.chunk.release(1)
	r.Data, r.chunk = nil, nil
}

// ReleaseAll releases several records. Most of consecutive records share the memory that is returned.
func ReleaseAll(l []Raw) {
	n := 0
	for i := range l {
		n++
		if i+1 == len(l) || l[i+1].chunk != l[i].chunk {
			l[i].chunk.release(n)
			n = 0
		}
	}
	clear(l)
}

// Append appends the record with its header.
func (r Raw) Append(b []byte, order Order) []byte {
	b = append(b, make([]byte, HeaderSize)...)
	putHeader(b[len(b)-HeaderSize:], order, r.Type, r.Misc, HeaderSize+len(r.Data))
	return append(b, r.Data...)
}

// Record is a decoded record: one of the pointer types of this file, record_counters.go and record_user.go. For samples
// use File.Sample, which reuses memory.
type Record interface{ layout(*codec) }

// RecordID is the sample id at the end of side-band records, if the attr has FlagSampleIDAll.
type RecordID struct {
	PID, TID int32
	Time     uint64
	ID       uint64
	StreamID uint64
	CPU      uint32
}

// layout is the order of perf_event__output_id_sample of kernel/events/core.c.
func (id *RecordID) layout(c *codec, st SampleType) {
	if st&SampleTID != 0 {
		c.fields(&id.PID, &id.TID)
	}
	if st&SampleTime != 0 {
		c.fields(&id.Time)
	}
	if st&SampleID != 0 {
		c.fields(&id.ID)
	}
	if st&SampleStreamID != 0 {
		c.fields(&id.StreamID)
	}
	if st&SampleCPU != 0 {
		c.fields(&id.CPU)
		c.pad(4)
	}
	if st&SampleIdentifier != 0 {
		c.fields(&id.ID)
	}
}

// BuildID is a DSO's build ID, 1 to 20 bytes; empty when unknown.
type BuildID []byte

const maxBuildID = 20 // bytes

func (id BuildID) String() string { return hex.EncodeToString(id) }

// Mmap is PERF_RECORD_MMAP or MMAP2: a new mapping. MMAP2 sets either BuildID, or the
// device and inode.
type Mmap struct {
	Misc     Misc
	PID, TID int32 // -1 and 0 in a synthesized mapping of the kernel
	Start    uint64
	Len      uint64
	Pgoff    uint64
	BuildID  BuildID
	Maj, Min uint32
	Ino      uint64
	InoGen   uint64
	Prot     uint32 // 0 in MMAP: use Executable
	Flags    uint32
	Filename string
	V2       bool // MMAP2
	ID       RecordID
}

// Prot and Flags of a mapping, as in mmap(2).
const (
	ProtExec   = 4       // PROT_EXEC
	MapShared  = 1       // MAP_SHARED
	MapHugeTLB = 0x40000 // MAP_HUGETLB
)

// Executable reports whether the mapping can contain code.
func (m *Mmap) Executable() bool {
	if m.V2 {
		return m.Prot&ProtExec != 0
	}
	return m.Misc&MiscMmapData == 0
}

// IsUser reports whether the mapping is a process's, not the kernel's or a guest's, and contains addresses.
func (m *Mmap) IsUser() bool { return m.Misc&MiscCPUModeMask == MiscUser && m.Start+m.Len > m.Start }

func (m *Mmap) layout(c *codec) {
	c.readAs(&m.V2, TypeMmap2)
	c.allMisc(&m.Misc)
	c.fields(&m.PID, &m.TID, &m.Start, &m.Len, &m.Pgoff)
	if c.typ == TypeMmap2 {
		m.layout2(c)
	}
	c.name(&m.Filename)
	c.end(&m.ID)
}

// layout2 is the part that MMAP2 has more than MMAP.
func (m *Mmap) layout2(c *codec) {
	hasID := len(m.BuildID) > 0
	c.flag(&hasID, MiscMmapBuildID)
	if hasID {
		id, size := []byte(m.BuildID), uint8(min(len(m.BuildID), maxBuildID))
		c.fields(&size)
		c.pad(3)
		c.bytes(&id, maxBuildID)
		if !c.writes {
			m.BuildID = id[:min(int(size), len(id))]
		}
	} else {
		c.fields(&m.Maj, &m.Min, &m.Ino, &m.InoGen)
	}
	c.fields(&m.Prot, &m.Flags)
}

// Comm is PERF_RECORD_COMM: a thread changed its name. Exec is set if exec(2) did it.
type Comm struct {
	PID, TID int32
	Exec     bool
	Comm     string
	ID       RecordID
}

func (x *Comm) layout(c *codec) {
	c.flag(&x.Exec, MiscCommExec)
	c.fields(&x.PID, &x.TID)
	c.name(&x.Comm)
	c.end(&x.ID)
}

// Fork is PERF_RECORD_FORK: a new process or thread.
type Fork struct {
	PID, PPID int32
	TID, PTID int32
	Time      uint64
	Ran       bool // started before the recording: does not share the parent's mappings
	ID        RecordID
}

// IsThread reports whether a thread started in a running process, rather than a process.
func (f *Fork) IsThread() bool { return f.PID == f.PPID }

// Exit is PERF_RECORD_EXIT: a process or thread ended.
type Exit Fork

func (f *Fork) layout(c *codec) {
	if c.typ == TypeFork {
		c.flag(&f.Ran, MiscForkExec)
	}
	c.fields(&f.PID, &f.PPID, &f.TID, &f.PTID, &f.Time)
	c.end(&f.ID)
}

func (e *Exit) layout(c *codec) { (*Fork)(e).layout(c) }

// Lost is PERF_RECORD_LOST: the kernel dropped Lost records of any type because the ring
// was full.
type Lost struct {
	EventID uint64
	Lost    uint64
	ID      RecordID
}

func (l *Lost) layout(c *codec) {
	c.fields(&l.EventID, &l.Lost)
	c.end(&l.ID)
}

// LostSamples is PERF_RECORD_LOST_SAMPLES: the kernel dropped Lost samples of one event.
// perf writes this record at the end of a recording from the count of PERF_FORMAT_LOST,
// with MiscLostSamplesBPF for samples that a BPF filter dropped.
type LostSamples struct {
	Misc Misc
	Lost uint64
	ID   RecordID
}

func (l *LostSamples) layout(c *codec) {
	c.allMisc(&l.Misc)
	c.fields(&l.Lost)
	c.end(&l.ID)
}

// MiscLostSamplesBPF marks LOST_SAMPLES that a BPF filter dropped.
const MiscLostSamplesBPF Misc = 1 << 15

// Throttle is PERF_RECORD_THROTTLE or UNTHROTTLE.
type Throttle struct {
	Off      bool // UNTHROTTLE
	Time     uint64
	EventID  uint64
	StreamID uint64
	ID       RecordID
}

func (t *Throttle) layout(c *codec) {
	c.readAs(&t.Off, TypeUnthrottle)
	c.fields(&t.Time, &t.EventID, &t.StreamID)
	c.end(&t.ID)
}

// Switch is PERF_RECORD_SWITCH or SWITCH_CPU_WIDE. Only the latter sets NextPrev.
type Switch struct {
	Misc             Misc
	CPUWide          bool
	NextPID, NextTID int32 // the next thread; when switching in, the previous one
	ID               RecordID
}

func (s *Switch) layout(c *codec) {
	c.readAs(&s.CPUWide, TypeSwitchCPUWide)
	c.allMisc(&s.Misc)
	if c.typ == TypeSwitchCPUWide {
		c.fields(&s.NextPID, &s.NextTID)
	}
	c.end(&s.ID)
}

// Namespace is one entry of PERF_RECORD_NAMESPACES. Its index in NS comes from
// include/uapi/linux/perf_event.h: net, uts, ipc, pid, user, mnt, cgroup.
type Namespace struct{ Dev, Ino uint64 }

// NamespaceCgroup is the index of the cgroup namespace in Namespaces.NS.
const NamespaceCgroup = 6

// Namespaces is PERF_RECORD_NAMESPACES.
type Namespaces struct {
	PID, TID int32
	NS       []Namespace
	ID       RecordID
}

func (n *Namespaces) layout(c *codec) {
	c.fields(&n.PID, &n.TID)
	entriesOf(c, 16, &n.NS, func(c *codec, ns *Namespace) { c.fields(&ns.Dev, &ns.Ino) })
	c.end(&n.ID)
}

// KSymbol is PERF_RECORD_KSYMBOL: the kernel registered or unregistered code, such as a
// BPF program or a trampoline.
type KSymbol struct {
	Addr  uint64
	Len   uint32
	Type  uint16 // KSymbolBPF, KSymbolOOL
	Flags uint16 // bit 0: unregistered
	Name  string
	ID    RecordID
}

func (k *KSymbol) layout(c *codec) {
	c.fields(&k.Addr, &k.Len, &k.Type, &k.Flags)
	c.name(&k.Name)
	c.end(&k.ID)
}

// Types of kernel symbols: enum perf_record_ksymbol_type.
const (
	KSymbolBPF = 1 // a BPF program
	KSymbolOOL = 2 // out-of-line code, such as a kprobe's copy of an instruction
)

// KSymbolUnregister is the KSymbol.Flags bit for unregistered code.
const KSymbolUnregister = 1

// BPFEvent is PERF_RECORD_BPF_EVENT.
type BPFEvent struct {
	Type  uint16 // 1 load, 2 unload
	Flags uint16
	Prog  uint32 // the program's id
	Tag   [8]byte
	ID    RecordID
}

func (b *BPFEvent) layout(c *codec) {
	c.fields(&b.Type, &b.Flags, &b.Prog)
	tag := b.Tag[:]
	if c.bytes(&tag, len(b.Tag)); !c.writes {
		copy(b.Tag[:], tag)
	}
	c.end(&b.ID)
}

// Cgroup is PERF_RECORD_CGROUP: the path of a cgroup id.
type Cgroup struct {
	CgroupID uint64
	Path     string
	ID       RecordID
}

func (g *Cgroup) layout(c *codec) {
	c.fields(&g.CgroupID)
	c.name(&g.Path)
	c.end(&g.ID)
}

// Aux is PERF_RECORD_AUX: new data in the AUX area. Offset and size are in bytes.
type Aux struct {
	Off, Size uint64
	Flags     AuxFlags
	ID        RecordID
}

func (a *Aux) layout(c *codec) {
	c.fields(&a.Off, &a.Size, (*uint64)(&a.Flags))
	c.end(&a.ID)
}

// AuxFlags are the PERF_AUX_FLAG_ constants.
type AuxFlags uint64

const (
	AuxTruncated AuxFlags = 1 << iota
	AuxOverwrite          // a snapshot
	AuxPartial            // the data has gaps
	AuxCollision          // a sample collided with another
)

// ItraceStart is PERF_RECORD_ITRACE_START: the instruction trace of the thread starts.
type ItraceStart struct {
	PID, TID int32
	ID       RecordID
}

func (i *ItraceStart) layout(c *codec) {
	c.fields(&i.PID, &i.TID)
	c.end(&i.ID)
}

// TextPoke is PERF_RECORD_TEXT_POKE: the kernel changed its own code. Old is empty for
// added code, New for removed code.
type TextPoke struct {
	Addr     uint64
	Old, New []byte
	ID       RecordID
}

func (t *TextPoke) layout(c *codec) {
	before, after := uint16(len(t.Old)), uint16(len(t.New))
	c.fields(&t.Addr, &before, &after)
	c.counted(&t.Old, uint64(before))
	c.counted(&t.New, uint64(after))
	if c.writes {
		c.misc = MiscUser // perf ignores it in user space
		c.pad(-(len(t.Old) + len(t.New) + 4) & 7)
	}
	c.end(&t.ID)
}

// AuxOutputHWID is PERF_RECORD_AUX_OUTPUT_HW_ID: the hardware counter of the event in the sample id.
type AuxOutputHWID struct {
	HWID uint64
	ID   RecordID
}

func (a *AuxOutputHWID) layout(c *codec) {
	c.fields(&a.HWID)
	c.end(&a.ID)
}

// CallchainDeferred is PERF_RECORD_CALLCHAIN_DEFERRED: the user part of those callchains
// of the thread that end in ContextUserDeferred and Cookie.
type CallchainDeferred struct {
	Cookie    uint64
	Callchain Words
	ID        RecordID
}

func (d *CallchainDeferred) layout(c *codec) {
	n := uint64(d.Callchain.Len())
	c.fields(&d.Cookie, &n)
	c.values(&d.Callchain, n)
	c.end(&d.ID)
}

// Other is a record that gperf does not decode.
type Other struct{ Raw Raw }

func (*Other) layout(*codec) {}

// ParseRecord decodes a side-band record of the running kernel. st is the sample_type of
// the record's event if that has FlagSampleIDAll, and 0 otherwise. If st is not 0, the
// record ends with a sample id.
func ParseRecord(r Raw, st SampleType) (Record, error) {
	return parseRecord(r, LittleEndian, st)
}

// parseRecord decodes r. trailer is the sample_type of the sample id at the record's end, or 0 if there is none.
func parseRecord(r Raw, order Order, trailer SampleType) (Record, error) {
	if r.Type >= TypePerfEnd || records[r.Type] == nil {
		return &Other{Raw: r}, nil
	}
	c := codec{cursor: cursor{b: r.Data, order: order}, typ: r.Type, misc: r.Misc, idType: trailer}
	if trailer != 0 && r.Type < typeKernelEnd {
		n := sampleIDSize(trailer)
		if n > len(r.Data) {
			return nil, r.tooShort("its sample id")
		}
		c.b, c.id, c.tail = r.Data[:len(r.Data)-n], r.Data[len(r.Data)-n:], n
	}
	rec := records[r.Type]()
	if c = c.run(rec); c.short {
		return nil, r.tooShort(c.lacking("its fields"))
	}
	return rec, nil
}

// RecordID returns the sample id of a side-band record, and its event as an index in
// Attrs. Absent processes, threads and CPUs are -1, as in evsel__parse_sample of
// tools/perf; other absent fields are zero.
func (f *File) RecordID(r Raw) (id RecordID, event int) {
	event = f.event(r.Type, r.Data)
	st := f.layouts[event].Trailer
	if n := sampleIDSize(st); r.Type < typeKernelEnd && n <= len(r.Data) {
		id = parseSampleID(r.Data[len(r.Data)-n:], f.Order, st)
	}
	if st&SampleTID == 0 {
		id.PID, id.TID = -1, -1
	}
	if st&SampleCPU == 0 {
		id.CPU = 1<<32 - 1
	}
	return id, event
}

func (r Raw) tooShort(what string) error {
	return errorf(r.Off, nil, "%s (%d) record of %d bytes is too short for %s", r.Type, uint32(r.Type),
		len(r.Data)+HeaderSize, what)
}

// sampleIDSize returns the size of the sample id for sample_type st, in bytes.
func sampleIDSize(st SampleType) int {
	const fields = SampleTID | SampleTime | SampleID | SampleStreamID | SampleCPU | SampleIdentifier
	return 8 * bits.OnesCount64(uint64(st&fields))
}

func parseSampleID(b []byte, order Order, st SampleType) (id RecordID) {
	id.layout(&codec{cursor: cursor{b: b, order: order}}, st)
	return id
}

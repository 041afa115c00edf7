package format

import (
	"encoding/binary"
	"math/bits"
)

// Words are 64-bit values in the file's byte order: a callchain, registers. They share the memory of their record: see
// Raw.Release.
type Words struct {
	b     []byte
	order Order
}

// NewWords returns the values of b, 8 bytes each.
func NewWords(b []byte, order Order) Words { return Words{b[:len(b)&^7], order} }

// Len returns the number of values.
func (w Words) Len() int { return len(w.b) / 8 }

// At returns value i.
func (w Words) At(i int) uint64 { return w.order.Uint64(w.b[i*8:]) }

// Bits returns value i, the flags of a branch (struct perf_branch_entry), with
// the first of its bit-fields in the lowest bits.
func (w Words) Bits(i int) uint64 { return bitFields(w.At(i), w.order, branchBits) }

// branchBits are the widths of its bit-fields: mispred, predicted, in_tx, abort,
// cycles, type, spec, new_type, priv, not_taken (perf's own), reserved.
var branchBits = []int{1, 1, 1, 1, 16, 4, 2, 4, 3, 1, 30}

// Bytes returns the values in the file's byte order, for example as a key of a map.
func (w Words) Bytes() []byte { return w.b }

// Slice returns the values i to j-1.
func (w Words) Slice(i, j int) Words { return Words{w.b[i*8 : j*8], w.order} }

// Context marks within a callchain: they give the kind of the addresses that follow
// (enum perf_callchain_context). All values from ContextMax on are marks.
const (
	ContextHV           uint64 = 1<<64 - 32
	ContextKernel       uint64 = 1<<64 - 128
	ContextUser         uint64 = 1<<64 - 512
	ContextUserDeferred uint64 = 1<<64 - 640
	ContextGuest        uint64 = 1<<64 - 2048
	ContextGuestKernel  uint64 = 1<<64 - 2176
	ContextGuestUser    uint64 = 1<<64 - 2560
	ContextMax          uint64 = 1<<64 - 4095
)

// Mark returns the place of the first mark of a callchain from i on, Len if
// there is none.
func (w Words) Mark(i int) int {
	n := w.Len()
	if w.order == BigEndian {
		for i < n && w.At(i) < ContextMax {
			i++
		}
		return i
	}
	for i < n && binary.LittleEndian.Uint64(w.b[i*8:]) < ContextMax {
		i++
	}
	return i
}

// Sample is a PERF_RECORD_SAMPLE, with the fields that perf_output_sample of kernel/events/core.c writes. A field that
// is not in the event's sample_type is zero, except Period, which is the event's SamplePeriod then. Words and byte
// slices share the record's memory: see Raw.Release.
type Sample struct {
	Event     int // index in File.Attrs
	Misc      Misc
	IP        uint64 // of the sampled instruction
	PID, TID  int32
	Time      uint64 // ns
	Addr      uint64 // data address, or the event's own value
	ID        uint64
	StreamID  uint64
	CPU       uint32
	Period    uint64
	Read      Words  // counter values; see ParseCounters
	Callchain Words  // ips, the innermost first, and context marks
	Raw       []byte // tracepoint data

	BranchStack  Words  // hw_idx if the attr requests it, then from, to, flags of each branch; see Branch
	UserRegs     Words  // the registers in attr.sample_regs_user, by bit
	UserRegsABI  uint64 // PERF_SAMPLE_REGS_ABI_*: 0 none, 1 32-bit, 2 64-bit
	UserStack    []byte // copy of the user stack from sp, as far as readable
	Weight       uint64 // usually a latency in cycles; see Attr.Weights
	DataSrc      uint64 // union perf_mem_data_src; see fields.DataSource
	Transaction  uint64 // PERF_TXN_* flags of a memory transaction's abort
	IntrRegs     Words  // registers at the interrupt, by bit of attr.sample_regs_intr
	IntrRegsABI  uint64 // as UserRegsABI
	PhysAddr     uint64 // physical address of Addr
	Cgroup       uint64 // cgroup ID; see Cgroup records
	DataPageSize uint64 // of the page of Addr, in bytes
	CodePageSize uint64 // of the page of IP, in bytes
}

// event finds the event that a record belongs to: by its id, or the first, as
// perf does (evlist__event2evsel), for an id of 0, none, or an unknown one.
func (f *File) event(t Type, data []byte) int {
	if len(f.layouts) == 1 {
		return 0
	}
	l := &f.layouts[0]
	pos := l.ID
	if t != TypeSample {
		if l.IDFromEnd == 0 {
			return 0
		}
		pos = len(data) - l.IDFromEnd
	}
	if pos < 0 || pos+8 > len(data) {
		return 0
	}
	return f.byID[f.Order.Uint64(data[pos:])]
}

// time returns the time of a record, 0 when it has none.
func (f *File) time(t Type, data []byte) uint64 {
	if t >= typeKernelEnd {
		return 0
	}
	l := &f.layouts[f.event(t, data)]
	pos := l.Time
	if t != TypeSample {
		if l.TimeFromEnd == 0 {
			return 0
		}
		pos = len(data) - l.TimeFromEnd
	}
	if pos < 0 || pos+8 > len(data) {
		return 0
	}
	return f.Order.Uint64(data[pos:])
}

// Record decodes a record that is no sample.
func (f *File) Record(r Raw) (Record, error) {
	i := f.event(r.Type, r.Data)
	rec, err := parseRecord(r, f.Order, f.layouts[i].Trailer)
	if read, ok := rec.(*Read); ok {
		if err := read.decode(r, f.Attrs[i].ReadFormat); err != nil {
			return nil, err
		}
	}
	return rec, err
}

// Sample decodes a sample into s, which holds nothing of an earlier one
// afterwards.
func (f *File) Sample(r Raw, s *Sample) error {
	i := f.event(r.Type, r.Data)
	a := &f.Attrs[i]
	*s = Sample{Event: i, Misc: r.Misc}
	if a.Flags&FlagFreq == 0 {
		s.Period = a.SamplePeriod
	}
	c := &cursor{b: r.Data, order: f.Order}
	if part := s.decode(c, a); c.short {
		return r.tooShort(c.lacking(part))
	}
	if f.stacks != nil && a.SampleType&SampleCallchain != 0 && s.Callchain.Len() == 0 && len(c.b) == 8 {
		s.Callchain = Words{f.stacks.Chain(uint32(s.PID), c.u64()), LittleEndian}
	}
	return nil
}

// decode reads the fields in the order of perf_output_sample of
// kernel/events/core.c. When the record ends early it names the part that was
// looked for.
func (s *Sample) decode(c *cursor, a *Attr) string {
	st := a.SampleType
	s.decodeFixed(c, st)
	if c.short {
		return "its fixed fields"
	}
	if st&SampleRead != 0 {
		s.Read = c.readValues(a.ReadFormat)
	}
	if c.short {
		return "its counter values"
	}
	if st&SampleCallchain != 0 {
		s.Callchain = Words{c.words(c.u64()), c.order}
	}
	if c.short {
		return "its callchain"
	}
	if st&SampleRaw != 0 {
		s.Raw = c.entries(uint64(c.u32()), 1).b
	}
	if c.short {
		return "its raw data"
	}
	if st&rareFields == 0 {
		return ""
	}
	return s.decodeRare(c, a)
}

func (s *Sample) decodeFixed(c *cursor, st SampleType) {
	if st&SampleIdentifier != 0 {
		s.ID = c.u64()
	}
	if st&SampleIP != 0 {
		s.IP = c.u64()
	}
	if st&SampleTID != 0 {
		s.PID, s.TID = int32(c.u32()), int32(c.u32())
	}
	if st&SampleTime != 0 {
		s.Time = c.u64()
	}
	if st&SampleAddr != 0 {
		s.Addr = c.u64()
	}
	if st&SampleID != 0 {
		s.ID = c.u64()
	}
	if st&SampleStreamID != 0 {
		s.StreamID = c.u64()
	}
	if st&SampleCPU != 0 {
		s.CPU = c.u32()
		c.u32()
	}
	if st&SamplePeriod != 0 {
		s.Period = c.u64()
	}
}

// rareFields are the fields after the raw data.
const rareFields = ^(SampleRaw<<1 - 1) &^ SampleIdentifier

// decodeRare reads the fields after the raw data.
func (s *Sample) decodeRare(c *cursor, a *Attr) string {
	st := a.SampleType
	if st&SampleBranchStack != 0 {
		s.BranchStack = c.branches(a.BranchSampleType)
	}
	if c.short {
		return "its branch stack"
	}
	if st&SampleRegsUser != 0 {
		s.UserRegsABI, s.UserRegs = c.regs(a.SampleRegsUser)
	}
	if c.short {
		return "its user registers"
	}
	if st&SampleStackUser != 0 {
		s.UserStack = c.stackDump()
	}
	if c.short {
		return "its stack dump"
	}
	if st&(SampleWeight|SampleWeightStruct) != 0 {
		s.Weight = c.u64()
	}
	if st&SampleDataSrc != 0 {
		s.DataSrc = c.u64()
	}
	if st&SampleTransaction != 0 {
		s.Transaction = c.u64()
	}
	if st&SampleRegsIntr != 0 {
		s.IntrRegsABI, s.IntrRegs = c.regs(a.SampleRegsIntr)
	}
	if st&SamplePhysAddr != 0 {
		s.PhysAddr = c.u64()
	}
	if st&SampleCgroup != 0 {
		s.Cgroup = c.u64()
	}
	if st&SampleDataPageSize != 0 {
		s.DataPageSize = c.u64()
	}
	if st&SampleCodePageSize != 0 {
		s.CodePageSize = c.u64()
	}
	return "its last fields"
}

// readValues reads struct read_format: for a group the number of counters and
// the times come before the values.
func (c *cursor) readValues(rf ReadFormat) Words {
	if rf&ReadGroup == 0 {
		return Words{c.take(int(rf.words(0)) * 8), c.order}
	}
	nr := cursor{b: c.b, order: c.order}
	return c.counted(nr.u64(), rf.perCounter(), 1+rf.times())
}

// counted takes nr times per words, and more words in addition; nr comes from the
// file.
func (c *cursor) counted(nr, per, more uint64) Words {
	w := Words{c.words(min(nr, maxRecordSize)*per + more), c.order}
	if c.short {
		c.nr = nr
	}
	return w
}

func (c *cursor) branches(branchType uint64) Words {
	more := uint64(0)
	if branchType&branchHWIndex != 0 {
		more = 1
	}
	return c.counted(c.u64(), 3, more)
}

func (c *cursor) regs(mask uint64) (abi uint64, regs Words) {
	abi = c.u64()
	if abi != 0 {
		regs = Words{c.words(uint64(bits.OnesCount64(mask))), c.order}
	}
	return abi, regs
}

// stackDump takes the copy of the user stack. Its dynamic size, the bytes actually
// copied, is absent if the size is 0.
func (c *cursor) stackDump() []byte {
	size := c.u64()
	if size == 0 {
		return nil
	}
	dump := c.entries(size, 1).b
	if used := c.u64(); used < uint64(len(dump)) {
		dump = dump[:used]
	}
	return dump
}

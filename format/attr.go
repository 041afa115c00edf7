package format

import (
	"fmt"
	"slices"
)

// EventType is perf_event_attr.type (enum perf_type_id); values from 6 on are
// PMUs of this one machine, as /sys/bus/event_source/devices numbers them.
type EventType uint32

const (
	TypeHardware EventType = iota
	TypeSoftware
	TypeTracepoint
	TypeHWCache
	TypeRaw
	TypeBreakpoint
)

// SampleType is perf_event_attr.sample_type: the fields of a sample (enum perf_event_sample_format).
type SampleType uint64

const (
	SampleIP SampleType = 1 << iota
	SampleTID
	SampleTime
	SampleAddr
	SampleRead
	SampleCallchain
	SampleID
	SampleCPU
	SamplePeriod
	SampleStreamID
	SampleRaw
	SampleBranchStack
	SampleRegsUser
	SampleStackUser
	SampleWeight
	SampleDataSrc
	SampleIdentifier
	SampleTransaction
	SampleRegsIntr
	SamplePhysAddr
	SampleAux
	SampleCgroup
	SampleDataPageSize
	SampleCodePageSize
	SampleWeightStruct
)

// ReadFormat is perf_event_attr.read_format (enum perf_event_read_format).
type ReadFormat uint64

const (
	ReadTotalTimeEnabled ReadFormat = 1 << iota
	ReadTotalTimeRunning
	ReadID
	ReadGroup
	ReadLost
)

// AttrFlags are the bit fields of perf_event_attr, in its order: bit 0 is `disabled`. PreciseIP is two bits wide. See
// perf_event_open(2) and include/uapi/linux/perf_event.h.
type AttrFlags uint64

const (
	FlagDisabled               AttrFlags = 1 << iota // the counter starts disabled
	FlagInherit                                      // children inherit the counter
	FlagPinned                                       // always on the PMU
	FlagExclusive                                    // no other group on the PMU
	FlagExcludeUser                                  // do not count in user mode
	FlagExcludeKernel                                // do not count in the kernel
	FlagExcludeHV                                    // do not count in the hypervisor
	FlagExcludeIdle                                  // do not count in the idle task
	FlagMmap                                         // MMAP records of executable mappings
	FlagComm                                         // COMM records
	FlagFreq                                         // Attr.SamplePeriod is a frequency in Hz
	FlagInheritStat                                  // a READ record for each thread that exits
	FlagEnableOnExec                                 // enable the counter at the next exec
	FlagTask                                         // FORK and EXIT records
	FlagWatermark                                    // Attr.Wakeup is in bytes
	_                                                // precise_ip, low bit
	_                                                // precise_ip, high bit
	FlagMmapData                                     // MMAP records of other mappings too
	FlagSampleIDAll                                  // a sample id at the end of side-band records
	FlagExcludeHost                                  // do not count on the host
	FlagExcludeGuest                                 // do not count in guests
	FlagExcludeCallchainKernel                       // callchains without kernel ips
	FlagExcludeCallchainUser                         // callchains without user ips
	FlagMmap2                                        // MMAP2 instead of MMAP records
	FlagCommExec                                     // MiscCommExec marks COMM records of exec
	FlagUseClockID                                   // times are of the clock Attr.ClockID
	FlagContextSwitch                                // SWITCH records
	FlagWriteBackward                                // the ring is written from its end, to be overwritten
	FlagNamespaces                                   // NAMESPACES records
	FlagKSymbol                                      // KSYMBOL records
	FlagBPFEvent                                     // BPF_EVENT records
	FlagAuxOutput                                    // records go to the AUX area
	FlagCgroup                                       // CGROUP records
	FlagTextPoke                                     // TEXT_POKE records
	FlagBuildID                                      // build IDs in MMAP2 records
	FlagInheritThread                                // child threads inherit the counter, child processes do not
	FlagRemoveOnExec                                 // remove the counter at exec
	FlagSigtrap                                      // a SIGTRAP to the thread at each overflow
	FlagDeferCallchain                               // user callchains in CALLCHAIN_DEFERRED records
	FlagDeferOutput                                  // write the CALLCHAIN_DEFERRED records to this event's ring
)

const preciseShift = 15

// PreciseIP returns attr.precise_ip, 0 to 3.
func (f AttrFlags) PreciseIP() int { return int(f>>preciseShift) & 3 }

// WithPreciseIP returns f with precise_ip set to n, 0 to 3.
func (f AttrFlags) WithPreciseIP(n int) AttrFlags {
	return f&^(3<<preciseShift) | AttrFlags(n&3)<<preciseShift
}

// MaxSampleStackUser is the largest Attr.SampleStackUser that the kernel accepts: USHRT_MAX, rounded down to 8
// (perf_copy_attr of kernel/events/core.c).
const MaxSampleStackUser = 1<<16 - 8

// Attr describes one event: struct perf_event_attr of include/uapi/linux/perf_event.h, with one name for each of its
// unions, and the event's name and counter IDs from other parts of the file.
type Attr struct {
	Type             EventType
	Size             uint32 // of the recorded attr, in bytes; see AttrSize
	Config           uint64
	SamplePeriod     uint64 // events per sample; with FlagFreq sample_freq, in Hz
	SampleType       SampleType
	ReadFormat       ReadFormat
	Flags            AttrFlags
	Wakeup           uint32 // wakeup_events; with FlagWatermark wakeup_watermark, in bytes
	BPType           uint32 // breakpoint type, HW_BREAKPOINT_*
	Config1          uint64 // also bp_addr, kprobe_func, uprobe_path
	Config2          uint64 // also bp_len, probe_offset
	BranchSampleType uint64
	SampleRegsUser   uint64 // mask of registers, by asm/perf_regs.h
	SampleStackUser  uint32 // size of the stack dump, in bytes
	ClockID          int32  // CLOCK_*, with FlagUseClockID
	SampleRegsIntr   uint64 // mask of registers, by asm/perf_regs.h
	AuxWatermark     uint32 // bytes
	SampleMaxStack   uint16 // maximum number of frames in a callchain
	AuxSampleSize    uint32 // bytes
	AuxAction        uint32 // aux_start_paused, aux_pause, aux_resume, from bit 0
	SigData          uint64
	Config3          uint64

	// Name is the event's name as the user wrote it ("skb:kfree_skb", "cycles:u"), from the EVENT_DESC feature or the
	// tracepoint formats. It is empty if the file does not name the event.
	Name string
	// IDs are the IDs of the event's counters, one for each CPU or thread.
	IDs []uint64
}

// AttrSize is the size of the attrs that gperf writes, in bytes: PERF_ATTR_SIZE_VER7, the longest that perf 6.1 reads.
const AttrSize = 128

// minAttrSize is PERF_ATTR_SIZE_VER0.
const minAttrSize = 64

// Append appends the attr's AttrSize bytes in little-endian order to b.
func (a *Attr) Append(b []byte) []byte {
	c := &codec{writes: true, out: b}
	a.pass(c)
	return c.out
}

// pass passes over struct perf_event_attr. An attr of an older kernel ends earlier: the other fields are then zero,
// which is that kernel's default. A written attr ends before Config3.
func (a *Attr) pass(c *codec) {
	size, flags := uint32(AttrSize), uint64(a.Flags)
	c.fields((*uint32)(&a.Type), &size, &a.Config, &a.SamplePeriod, (*uint64)(&a.SampleType), (*uint64)(&a.ReadFormat),
		&flags, &a.Wakeup, &a.BPType, &a.Config1, &a.Config2, &a.BranchSampleType, &a.SampleRegsUser,
		&a.SampleStackUser, &a.ClockID, &a.SampleRegsIntr, &a.AuxWatermark, &a.SampleMaxStack)
	c.pad(2)
	c.fields(&a.AuxSampleSize, &a.AuxAction, &a.SigData)
	if !c.writes {
		c.fields(&a.Config3)
		a.Size, a.Flags = size, AttrFlags(bitFields(flags, c.order, attrBits))
	}
}

// bitFields returns a word of C bit-fields with the first one in the lowest
// bits. Big-endian machines begin with the highest; the bits of one field keep
// their order.
func bitFields(v uint64, order Order, widths []int) (w uint64) {
	if order != BigEndian {
		return v
	}
	pos := 0
	for _, n := range widths {
		pos += n
		w |= v >> (64 - pos) & (1<<n - 1) << (pos - n)
	}
	return w
}

// attrBits are the widths of the bit-fields of struct perf_event_attr: all are
// one bit wide except precise_ip (perf 7.3 reverses its bits: it shows a 2 as 1).
var attrBits = slices.Concat(slices.Repeat([]int{1}, preciseShift), []int{2}, slices.Repeat([]int{1}, 62-preciseShift))

// parseAttr reads an attr of any size from 64 bytes on and skips fields that
// gperf does not know.
func parseAttr(b []byte, order Order) (Attr, error) {
	if len(b) < minAttrSize {
		return Attr{}, fmt.Errorf("attr of %d bytes is shorter than %d", len(b), minAttrSize)
	}
	var a Attr
	a.pass(&codec{cursor: cursor{b: b, order: order}})
	return a, nil
}

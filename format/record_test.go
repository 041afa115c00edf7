package format

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// bytesOf encodes integers in their own size, strings, and slices of these, in byte order
// o.
func bytesOf(o Order, fields ...any) (b []byte) {
	for _, f := range fields {
		switch v := f.(type) {
		case string:
			b = append(b, v...)
		case []any:
			b = append(b, bytesOf(o, v...)...)
		default:
			var err error
			if b, err = binary.Append(b, o, v); err != nil {
				panic(err)
			}
		}
	}
	return b
}

// padded returns s, padded with zeros to n bytes.
func padded(s string, n int) string { return s + strings.Repeat("\x00", n-len(s)) }

func (o Order) words(v ...uint64) Words { return NewWords(bytesOf(o, v), o) }

// recordCase is a record's bytes and their decoded value.
type recordCase struct {
	typ    Type
	misc   Misc
	fields []any
	want   func(Order) Record
	// need is the minimum size in bytes; 0 means all. enough are further valid sizes below
	// need.
	need   int
	enough []int
}

func is(r Record) func(Order) Record { return func(Order) Record { return r } }

var id20 = BuildID("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14")

func counting(n int) (l []any, v []uint64) {
	for i := range n {
		l, v = append(l, uint32(i)), append(v, uint64(i))
	}
	return l, v
}

// recordCases covers every decoded type except READ, which needs its event.
func recordCases() []recordCase {
	short36, values36 := counting(36)
	short45, values45 := counting(45)
	attr := []any{uint32(TypeSoftware), uint32(72), uint64(3), uint64(4000), uint64(SampleIP), uint64(ReadID),
		uint64(FlagFreq), uint32(1), uint32(0), uint64(7), uint64(8)}
	return []recordCase{
		{TypeMmap, MiscUser, []any{int32(-1), uint32(2), uint64(3), uint64(4), uint64(5), "/bin/x\x00\x00"},
			is(&Mmap{Misc: MiscUser, PID: -1, TID: 2, Start: 3, Len: 4, Pgoff: 5, Filename: "/bin/x"}), 39, nil},
		{TypeMmap2, MiscUser, []any{uint32(1), uint32(2), uint64(3), uint64(4), uint64(5), uint32(8), uint32(9), uint64(10), uint64(11), uint32(5), uint32(2), "[vdso]\x00\x00"},
			is(&Mmap{Misc: MiscUser, PID: 1, TID: 2, Start: 3, Len: 4, Pgoff: 5, Maj: 8, Min: 9, Ino: 10, InoGen: 11, Prot: 5, Flags: 2, Filename: "[vdso]", V2: true}), 71, nil},
		{TypeMmap2, MiscUser | MiscMmapBuildID, []any{uint32(1), uint32(2), uint64(3), uint64(4), uint64(5), uint8(20), "\x00\x00\x00", string(id20), uint32(5), uint32(2), "/bin/x\x00\x00"},
			is(&Mmap{Misc: MiscUser | MiscMmapBuildID, PID: 1, TID: 2, Start: 3, Len: 4, Pgoff: 5, BuildID: id20, Prot: 5, Flags: 2, Filename: "/bin/x", V2: true}), 71, nil},
		{TypeComm, MiscCommExec, []any{uint32(1), uint32(2), "sh\x00\x00\x00\x00\x00\x00"}, is(&Comm{PID: 1, TID: 2, Exec: true, Comm: "sh"}), 11, nil},
		{TypeFork, 0, []any{uint32(1), uint32(2), uint32(3), uint32(4), uint64(5)}, is(&Fork{PID: 1, PPID: 2, TID: 3, PTID: 4, Time: 5}), 0, nil},
		{TypeFork, MiscForkExec, []any{uint32(1), uint32(2), uint32(3), uint32(4), uint64(5)}, is(&Fork{PID: 1, PPID: 2, TID: 3, PTID: 4, Time: 5, Ran: true}), 0, nil},
		{TypeExit, 0, []any{uint32(1), uint32(2), uint32(3), uint32(4), uint64(5)}, is(&Exit{PID: 1, PPID: 2, TID: 3, PTID: 4, Time: 5}), 0, nil},
		{TypeLost, 0, []any{uint64(1), uint64(2)}, is(&Lost{EventID: 1, Lost: 2}), 0, nil},
		{TypeLostSamples, MiscLostSamplesBPF, []any{uint64(2)}, is(&LostSamples{Misc: MiscLostSamplesBPF, Lost: 2}), 0, nil},
		{TypeThrottle, 0, []any{uint64(1), uint64(2), uint64(3)}, is(&Throttle{Time: 1, EventID: 2, StreamID: 3}), 0, nil},
		{TypeUnthrottle, 0, []any{uint64(1), uint64(2), uint64(3)}, is(&Throttle{Off: true, Time: 1, EventID: 2, StreamID: 3}), 0, nil},
		{TypeSwitch, MiscSwitchOut, nil, is(&Switch{Misc: MiscSwitchOut}), 0, nil},
		{TypeSwitchCPUWide, 0, []any{uint32(1), uint32(2)}, is(&Switch{CPUWide: true, NextPID: 1, NextTID: 2}), 0, nil},
		{TypeNamespaces, 0, []any{uint32(1), uint32(2), uint64(2), uint64(3), uint64(4), uint64(5), uint64(6)},
			is(&Namespaces{PID: 1, TID: 2, NS: []Namespace{{3, 4}, {5, 6}}}), 0, nil},
		{TypeKSymbol, 0, []any{uint64(1), uint32(2), uint16(1), uint16(1), "bpf\x00\x00\x00\x00\x00"},
			is(&KSymbol{Addr: 1, Len: 2, Type: 1, Flags: KSymbolUnregister, Name: "bpf"}), 20, nil},
		{TypeBPFEvent, 0, []any{uint16(1), uint16(2), uint32(3), "\x01\x02\x03\x04\x05\x06\x07\x08"},
			is(&BPFEvent{Type: 1, Flags: 2, Prog: 3, Tag: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}}), 0, nil},
		{TypeCgroup, 0, []any{uint64(1), "/a\x00\x00\x00\x00\x00\x00"}, is(&Cgroup{CgroupID: 1, Path: "/a"}), 11, nil},
		{TypeAux, 0, []any{uint64(1), uint64(2), uint64(AuxTruncated | AuxCollision)}, is(&Aux{Off: 1, Size: 2, Flags: AuxTruncated | AuxCollision}), 0, nil},
		{TypeItraceStart, 0, []any{uint32(1), uint32(2)}, is(&ItraceStart{PID: 1, TID: 2}), 0, nil},
		{TypeTextPoke, 0, []any{uint64(1), uint16(2), uint16(3), "\x90\x90", "\xe9\x01\x02\x00"},
			is(&TextPoke{Addr: 1, Old: []byte("\x90\x90"), New: []byte("\xe9\x01\x02")}), 17, nil},
		{TypeAuxOutputHWID, 0, []any{uint64(1)}, is(&AuxOutputHWID{HWID: 1}), 0, nil},
		{TypeCallchainDeferred, 0, []any{uint64(1), uint64(2), uint64(3), uint64(4)},
			func(o Order) Record { return &CallchainDeferred{Cookie: 1, Callchain: o.words(3, 4)} }, 0, nil},

		{TypeHeaderAttr, 0, append(slices.Clone(attr), uint64(11), uint64(12)),
			func(o Order) Record {
				flags := FlagFreq
				if o == BigEndian { // whose bit-fields begin with the highest bit
					flags = AttrFlags(bits.Reverse64(uint64(flags)))
				}
				return &HeaderAttr{Attr{Type: TypeSoftware, Size: 72, Config: 3, SamplePeriod: 4000, SampleType: SampleIP, ReadFormat: ReadID,
					Flags: flags, Wakeup: 1, Config1: 7, Config2: 8, IDs: []uint64{11, 12}}}
			}, 72, nil},
		{TypeHeaderEventType, 0, []any{uint64(1), padded("cycles", 8)}, is(&HeaderEventType{EventID: 1, Name: "cycles"}), 15, nil},
		{TypeHeaderTracing, 0, []any{uint32(7)}, is(&HeaderTracing{Size: 7}), 0, nil},
		{TypeHeaderBuildID, MiscUser | miscBuildIDSize, []any{int32(-1), string(id20), uint8(8), "\x00\x00\x00", "/x\x00\x00"},
			is(&HeaderBuildID{BuildIDEntry{Misc: MiscUser, PID: -1, BuildID: id20[:8], Filename: "/x"}}), 31, nil},
		{TypeFinishedRound, 0, nil, is(&FinishedRound{}), 0, nil},
		{TypeFinishedInit, 0, nil, is(&FinishedInit{}), 0, nil},
		{TypeIDIndex, 0, []any{uint64(2), uint64(1), uint64(0), int64(-1), uint64(4), uint64(5), uint64(6), uint64(7), uint64(8), uint64(9), uint64(10), uint64(11), uint64(12)},
			is(&IDIndex{Guests: true, Entries: []IDIndexEntry{{1, 0, -1, 4, 9, 10}, {5, 6, 7, 8, 11, 12}}}), 72, nil},
		{TypeAuxtraceInfo, 0, []any{uint32(1), uint32(0), uint64(5)},
			func(o Order) Record { return &AuxtraceInfo{Type: 1, Priv: o.words(5)} }, 8, nil},
		{TypeAuxtrace, 0, []any{uint64(1), uint64(2), uint64(3), uint32(4), int32(-1), uint32(6)},
			is(&Auxtrace{Size: 1, Off: 2, Reference: 3, Index: 4, TID: -1, CPU: 6}), 0, nil},
		{TypeAuxtraceError, 0, []any{uint32(1), uint32(2), uint32(3), uint32(4), uint32(5), uint32(0), uint64(6), "lost\x00"},
			is(&AuxtraceError{Type: 1, Code: 2, CPU: 3, PID: 4, TID: 5, IP: 6, Msg: "lost"}), 32, nil},
		{TypeAuxtraceError, 0, []any{uint32(1), uint32(2), uint32(3), uint32(4), uint32(5), uint32(2), uint64(6), uint64(7), padded("lost", 64), uint32(8), uint32(9)},
			is(&AuxtraceError{Type: 1, Code: 2, CPU: 3, PID: 4, TID: 5, Format: 2, IP: 6, Time: 7, Msg: "lost", MachinePID: 8, VCPU: 9}), 0, upTo(40, 104)},
		{TypeThreadMap, 0, []any{uint64(2), int64(-1), padded("", 16), uint64(2), padded("sh", 16)},
			is(&ThreadMap{[]ThreadMapEntry{{-1, ""}, {2, "sh"}}}), 0, nil},
		{TypeCPUMap, 0, []any{uint16(0), uint16(4), uint16(0), uint16(1), uint16(5), uint16(math.MaxUint16)},
			is(&CPUMap{CPUSet{{0, 1}, {5, 5}, {-1, -1}}}), 0, nil},
		{TypeCPUMap, 0, []any{uint16(1), uint16(2), uint16(4), uint32(0b1011), uint32(1 << 31)}, is(&CPUMap{CPUSet{{0, 1}, {3, 3}, {63, 63}}}), 0, nil},
		{TypeCPUMap, 0, []any{uint16(1), uint16(2), uint16(8), uint32(0), uint64(1 << 63), uint64(3)}, is(&CPUMap{CPUSet{{63, 65}}}), 0, nil},
		{TypeCPUMap, 0, []any{uint16(2), uint8(1), uint8(0), uint16(2), uint16(7)}, is(&CPUMap{CPUSet{{-1, -1}, {2, 7}}}), 0, nil},
		{TypeStatConfig, 0, []any{uint64(2), uint64(0), uint64(1), uint64(2), uint64(3)}, is(&StatConfig{[]StatConfigTerm{{0, 1}, {2, 3}}}), 0, nil},
		{TypeStat, 0, []any{uint64(1), uint32(2), uint32(3), uint64(4), uint64(5), uint64(6)},
			is(&Stat{ID: 1, CPU: 2, Thread: 3, Value: 4, Enabled: 5, Running: 6}), 0, nil},
		{TypeStatRound, 0, []any{uint64(1), uint64(2)}, is(&StatRound{1, 2}), 0, nil},
		{TypeEventUpdate, 0, []any{EventUpdateUnit, uint64(9), "msec\x00"}, is(&EventUpdate{Kind: EventUpdateUnit, ID: 9, Unit: "msec"}), 0, nil},
		{TypeEventUpdate, 0, []any{EventUpdateScale, uint64(9), math.Float64bits(0.5)}, is(&EventUpdate{Kind: EventUpdateScale, ID: 9, Scale: 0.5}), 0, nil},
		{TypeEventUpdate, 0, []any{EventUpdateName, uint64(9), "x\x00"}, is(&EventUpdate{Kind: EventUpdateName, ID: 9, Name: "x"}), 0, nil},
		{TypeEventUpdate, 0, []any{EventUpdateCPUs, uint64(9), uint16(2), uint16(0), uint16(0), uint16(1)},
			is(&EventUpdate{Kind: EventUpdateCPUs, ID: 9, CPUs: CPUSet{{0, 1}}}), 0, nil},
		{TypeTimeConv, 0, []any{uint64(1), uint64(2), uint64(3), uint64(4), uint64(5), uint8(1), uint8(0), "\x00\x00\x00\x00\x00\x00"},
			is(&TimeConv{1, 2, 3, 4, 5, true, false}), 42, []int{24}},
		{TypeHeaderFeature, 0, []any{uint64(3), "abc"}, is(&HeaderFeature{3, []byte("abc")}), 8, nil},
		{TypeCompressed, 0, []any{"abc"}, is(&Compressed{[]byte("abc")}), -1, nil},
		{TypeCompressed2, 0, []any{uint64(3), "abc\x00\x00"}, is(&Compressed{[]byte("abc")}), 11, nil},
		{TypeBPFMetadata, 0, []any{padded("prog", 512), uint64(1), padded("k", 64), padded("v", 256)},
			is(&BPFMetadata{"prog", []BPFMetadataEntry{{"k", "v"}}}), 0, nil},
		{TypeSchedstatCPU, 0, []any{uint64(1), uint32(2), uint16(17), uint16(0), uint32(1), uint32(2), uint32(3), uint32(4), uint32(5), uint32(6), uint64(7), uint64(8), uint64(9)},
			is(&SchedstatCPU{Time: 1, CPU: 2, Version: 17, Values: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}}), 0, nil},
		{TypeSchedstatDomain, 0, []any{uint64(1), uint32(2), uint16(15), uint16(3), short36}, is(&SchedstatDomain{1, 2, 15, 3, values36}), 0, nil},
		{TypeSchedstatDomain, 0, []any{uint64(1), uint32(2), uint16(17), uint16(3), short45}, is(&SchedstatDomain{1, 2, 17, 3, values45}), 0, nil},
		{TypeSimpleperfDSO, 0, []any{uint64(1)}, func(o Order) Record {
			return &Other{Raw{Type: TypeSimpleperfDSO, Off: 0x1a3f, Data: bytesOf(o, uint64(1))}}
		}, -1, nil},
	}
}

func upTo(from, to int) (l []int) {
	for ; from <= to; from++ {
		l = append(l, from)
	}
	return l
}

// eachOrder runs check in both byte orders.
func eachOrder(t *testing.T, check func(t *testing.T, o Order)) {
	for _, o := range []Order{LittleEndian, BigEndian} {
		t.Run(fmt.Sprint(o), func(t *testing.T) { check(t, o) })
	}
}

func TestRecords(t *testing.T) {
	eachOrder(t, func(t *testing.T, o Order) {
		for i, tc := range recordCases() {
			data := bytesOf(o, tc.fields...)
			raw := Raw{Type: tc.typ, Misc: tc.misc, Off: 0x1a3f, Data: data}
			rec, err := parseRecord(raw, o, 0)
			if want := tc.want(o); err != nil || !reflect.DeepEqual(rec, want) {
				t.Errorf("case %d: %s: %+v, %v, want %+v", i, tc.typ, rec, err, want)
			}
			for n := range data {
				raw.Data = data[:n:n]
				rec, err := parseRecord(raw, o, 0)
				if tc.enoughBytes(n) != (err == nil) || (err == nil) != (rec != nil) {
					t.Errorf("case %d: %s of %d bytes: %+v, %v", i, tc.typ, n, rec, err)
				}
				if err != nil && !strings.HasPrefix(err.Error(),
					fmt.Sprintf("at offset 0x1a3f: %s (%d) record of %d bytes is too short for ", tc.typ,
						uint32(tc.typ), n+HeaderSize)) {
					t.Errorf("case %d: %v", i, err)
				}
			}
		}
	})
}

// TestAppendRecord checks that a record is written as it is read. gperf writes no sets of CPUs and no numbers of
// /proc/schedstat, and attrs of one size.
func TestAppendRecord(t *testing.T) {
	for i, tc := range recordCases() {
		switch want := tc.want(LittleEndian).(type) {
		case *CPUMap, *SchedstatCPU, *SchedstatDomain, *Other, *HeaderAttr:
		case *EventUpdate:
			if want.Kind == EventUpdateCPUs {
				continue
			}
			checkAppend(t, i, tc.typ, want)
		default:
			checkAppend(t, i, tc.typ, want)
		}
	}
}

// TestAppendTooLong checks that a record which is too long is left out.
func TestAppendTooLong(t *testing.T) {
	for _, size := range []int{1<<16 - 64, 1<<16 + 8} {
		b := (&TextPoke{New: make([]byte, size)}).Append([]byte("before"), 0)
		if want := size < 1<<16; want != (len(b) > size) || !want && string(b) != "before" {
			t.Errorf("%d bytes of code: %d bytes", size, len(b))
		}
	}
}

// TestRecordAllocs checks that decoding a record allocates the record and its name only.
func TestRecordAllocs(t *testing.T) {
	const st = SampleTID | SampleTime
	for want, rec := range map[int]Raw{
		1: RawOf((&Lost{Lost: 1}).AppendTo(nil, st), 0),
		2: RawOf((&Comm{Comm: "program"}).AppendTo(nil, st), 0),
	} {
		got := testing.AllocsPerRun(100, func() {
			if _, err := ParseRecord(rec, st); err != nil {
				t.Fatal(err)
			}
		})
		if got > float64(want) {
			t.Errorf("%s: %v allocations, want %d", rec.Type, got, want)
		}
	}
}

func checkAppend(t *testing.T, i int, typ Type, want Record) {
	t.Helper()
	rec, err := parseRecord(RawOf(appendRecord(nil, typ, want, 0, 0), 0), LittleEndian, 0)
	if err != nil || !reflect.DeepEqual(rec, want) {
		t.Errorf("case %d: %s: %+v, %v, want %+v", i, typ, rec, err, want)
	}
}

func (tc *recordCase) enoughBytes(n int) bool {
	return tc.need != 0 && n >= tc.need || slices.Contains(tc.enough, n)
}

// A sample id ends every side-band record of the kernel. It does not belong to the
// record's fields.
func TestSampleIDs(t *testing.T) {
	const st = SampleTID | SampleTime | SampleID | SampleStreamID | SampleCPU | SampleIdentifier
	want := RecordID{PID: 1, TID: 2, Time: 3, ID: 4, StreamID: 5, CPU: 6}
	eachOrder(t, func(t *testing.T, o Order) {
		trailer := bytesOf(o, uint32(1), uint32(2), uint64(3), uint64(4), uint64(5), uint32(6), uint32(0), uint64(4))
		f := &File{Order: o, Attrs: make([]Attr, 1), layouts: []SampleLayout{{Trailer: st}}}
		for _, tc := range recordCases() {
			if tc.typ >= typeKernelEnd {
				continue
			}
			raw := Raw{Type: tc.typ, Misc: tc.misc, Data: append(bytesOf(o, tc.fields...), trailer...)}
			rec, err := f.Record(raw)
			if err != nil {
				t.Error(err)
				continue
			}
			if id, _ := f.RecordID(raw); id != want {
				t.Errorf("%s: %+v", tc.typ, id)
			}
			id := reflect.ValueOf(rec).Elem().FieldByName("ID")
			if id.Interface() != want {
				t.Errorf("%s: %+v", tc.typ, rec)
			}
			id.SetZero()
			if alone := tc.want(o); !reflect.DeepEqual(rec, alone) {
				t.Errorf("%s: %+v, want %+v", tc.typ, rec, alone)
			}
		}
	})
}

// Absent fields of a sample id have values that no thread or CPU has.
func TestSampleIDAbsent(t *testing.T) {
	f := &File{Order: LittleEndian, Attrs: make([]Attr, 1), layouts: []SampleLayout{{}}}
	id, _ := f.RecordID(Raw{Type: TypeSwitch})
	if want := (RecordID{PID: -1, TID: -1, CPU: math.MaxUint32}); id != want {
		t.Errorf("%+v, want %+v", id, want)
	}
}

func TestRead(t *testing.T) {
	all := ReadTotalTimeEnabled | ReadTotalTimeRunning | ReadID | ReadLost
	for _, tc := range []struct {
		rf     ReadFormat
		fields []any
		want   Counters
	}{
		{0, []any{uint64(1)}, Counters{Values: []Counter{{Value: 1}}}},
		{all, []any{uint64(1), uint64(2), uint64(3), uint64(4), uint64(5)},
			Counters{Format: all, Enabled: 2, Running: 3, Values: []Counter{{1, 4, 5}}}},
		{ReadID, []any{uint64(1), uint64(4)}, Counters{Format: ReadID, Values: []Counter{{1, 4, 0}}}},
		{ReadLost, []any{uint64(1), uint64(5)}, Counters{Format: ReadLost, Values: []Counter{{1, 0, 5}}}},
		{ReadGroup | all, []any{uint64(2), uint64(3), uint64(4), uint64(5), uint64(6), uint64(7), uint64(8), uint64(9), uint64(10)},
			Counters{Format: ReadGroup | all, Enabled: 3, Running: 4, Values: []Counter{{5, 6, 7}, {8, 9, 10}}}},
		{ReadGroup, []any{uint64(2), uint64(3), uint64(4)}, Counters{Format: ReadGroup, Values: []Counter{{Value: 3}, {Value: 4}}}},
	} {
		eachOrder(t, func(t *testing.T, o Order) {
			f := &File{Order: o, Attrs: []Attr{{ReadFormat: tc.rf}}, layouts: make([]SampleLayout, 1)}
			raw := Raw{Type: TypeRead, Data: bytesOf(o, uint32(10), int32(-1), tc.fields)}
			rec, err := f.Record(raw)
			if err != nil {
				t.Fatal(err)
			}
			if r := rec.(*Read); r.PID != 10 || r.TID != -1 || !reflect.DeepEqual(r.Values, tc.want) {
				t.Errorf("%+v, want %+v", r, tc.want)
			}
			if got := ParseCounters(NewWords(raw.Data[8:], o), tc.rf); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
			for n := range raw.Data {
				if rec, err := f.Record(Raw{Type: TypeRead, Data: raw.Data[:n]}); err == nil || rec != nil {
					t.Errorf("the first %d bytes are enough: %+v", n, rec)
				}
			}
		})
	}
}

// The reader reports counts that exceed the record.
func TestCountTooLarge(t *testing.T) {
	for _, tc := range []struct {
		typ    Type
		fields []any
		want   string
	}{
		{TypeNamespaces, []any{uint32(1), uint32(1), uint64(math.MaxUint64)}, "NAMESPACES (16) record of 24 bytes is too short for its fields (nr 18446744073709551615)"},
		{TypeThreadMap, []any{uint64(1 << 61)}, "THREAD_MAP (73) record of 16 bytes is too short for its fields (nr 2305843009213693952)"},
		{TypeIDIndex, []any{uint64(4096), uint64(0)}, "ID_INDEX (69) record of 24 bytes is too short for its fields (nr 4096)"},
		{TypeCPUMap, []any{uint16(1), uint16(9), uint16(8), uint32(0)}, "CPU_MAP (74) record of 18 bytes is too short for its fields (nr 9)"},
		{TypeTextPoke, []any{uint64(0), uint16(1), uint16(2), uint8(0)}, "TEXT_POKE (20) record of 21 bytes is too short for its fields (nr 2)"},
	} {
		_, err := parseRecord(Raw{Type: tc.typ, Data: bytesOf(LittleEndian, tc.fields...)},
			LittleEndian, 0)
		if err == nil || err.Error() != "at offset 0x0: "+tc.want {
			t.Errorf("%v, want %s", err, tc.want)
		}
	}
}

// The reader also reports counts that exceed the sample.
func TestSampleCountTooLarge(t *testing.T) {
	const many = uint64(math.MaxUint64)
	for _, tc := range []struct {
		attr   Attr
		fields []any
		want   string
	}{
		{Attr{SampleType: SampleRead, ReadFormat: ReadGroup | ReadID}, []any{uint64(9), uint64(1)}, "24 bytes is too short for its counter values (nr 9)"},
		{Attr{SampleType: SampleRead, ReadFormat: ReadGroup}, []any{many}, "16 bytes is too short for its counter values (nr 18446744073709551615)"},
		{Attr{SampleType: SampleRead, ReadFormat: ReadID}, []any{many}, "16 bytes is too short for its counter values"},
		{Attr{SampleType: SampleCallchain}, []any{many}, "16 bytes is too short for its callchain (nr 18446744073709551615)"},
		{Attr{SampleType: SampleRaw}, []any{uint32(100)}, "12 bytes is too short for its raw data (nr 100)"},
		{Attr{SampleType: SampleStackUser}, []any{uint64(8192)}, "16 bytes is too short for its stack dump (nr 8192)"},
		{Attr{SampleType: SampleBranchStack, BranchSampleType: branchHWIndex}, []any{uint64(2), uint64(1)}, "24 bytes is too short for its branch stack (nr 2)"},
		{Attr{SampleType: SampleCallchain}, nil, "8 bytes is too short for its callchain"},
	} {
		f := &File{Order: LittleEndian, Attrs: []Attr{tc.attr},
			layouts: []SampleLayout{NewSampleLayout(&tc.attr)}}
		var s Sample
		err := f.Sample(Raw{Type: TypeSample, Data: bytesOf(f.Order, tc.fields...)}, &s)
		if err == nil || err.Error() != "at offset 0x0: SAMPLE (9) record of "+tc.want {
			t.Errorf("%v, want %s", err, tc.want)
		}
	}
}

// A name without a NUL before the sample id continues in it, as in perf.
func TestNameRunsOn(t *testing.T) {
	data := bytesOf(LittleEndian, uint32(1), uint32(1), "abcdefgh", uint32(0x4241), uint32(2))
	rec, err := parseRecord(Raw{Type: TypeComm, Data: data}, LittleEndian, SampleTID)
	if c, ok := rec.(*Comm); !ok || c.Comm != "abcdefghAB" || c.ID.TID != 2 {
		t.Errorf("%+v, %v", rec, err)
	}
}

func TestTypeNames(t *testing.T) {
	for typ := TypeMmap; typ < TypePerfEnd; typ++ {
		if known := typ <= TypeCallchainDeferred ||
			typ >= TypeHeaderAttr; known == strings.HasPrefix(typ.String(), "type ") {
			t.Errorf("type %d is called %q", uint32(typ), typ)
		}
	}
}

// FuzzRecord decodes arbitrary bytes as each type of record, in both byte orders.
func FuzzRecord(f *testing.F) {
	for _, tc := range recordCases() {
		f.Add(uint32(tc.typ), uint16(tc.misc), uint64(0), uint64(0), false, bytesOf(LittleEndian, tc.fields...))
		f.Add(uint32(tc.typ), uint16(tc.misc), uint64(SampleTID|SampleTime), uint64(0), true,
			bytesOf(BigEndian, tc.fields...))
	}
	f.Add(uint32(TypeRead), uint16(0), uint64(0), uint64(ReadGroup|ReadID|ReadLost), false,
		bytesOf(LittleEndian, uint64(1), uint64(1), uint64(2), uint64(3), uint64(4)))
	f.Fuzz(func(t *testing.T, typ uint32, misc uint16, st, rf uint64, big bool, data []byte) {
		if len(data) > maxRecordSize-HeaderSize {
			return
		}
		file := &File{Order: LittleEndian, Attrs: []Attr{{ReadFormat: ReadFormat(rf)}},
			layouts: []SampleLayout{{Trailer: SampleType(st)}}}
		if big {
			file.Order = BigEndian
		}
		raw := Raw{Type: Type(typ), Misc: Misc(misc), Data: data[:len(data):len(data)]}
		rec, err := file.Record(raw)
		if (rec == nil) != (err != nil) {
			t.Fatalf("record %+v, error %v", rec, err)
		}
		file.RecordID(raw)
		if m, ok := rec.(*CPUMap); ok {
			_ = m.CPUs.String()
		}
	})
}

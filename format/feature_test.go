package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// encoder writes the fields of a section in either byte order.
type encoder struct {
	b     []byte
	order Order
}

func (e *encoder) u16(v uint16) *encoder { e.b = e.order.AppendUint16(e.b, v); return e }

func (e *encoder) u32(l ...uint32) *encoder {
	for _, v := range l {
		e.b = e.order.AppendUint32(e.b, v)
	}
	return e
}

func (e *encoder) u64(l ...uint64) *encoder {
	for _, v := range l {
		e.b = e.order.AppendUint64(e.b, v)
	}
	return e
}

// str writes strings in perf's form.
func (e *encoder) str(l ...string) *encoder {
	for _, s := range l {
		n := (len(s) + 64) &^ 63
		e.u32(uint32(n)).raw(s + strings.Repeat("\x00", n-len(s)))
	}
	return e
}

func (e *encoder) raw(s string) *encoder { e.b = append(e.b, s...); return e }

// sub appends a nested section, preceded by its size.
func (e *encoder) sub(write func(*encoder)) *encoder {
	s := encoder{order: e.order}
	write(&s)
	return e.u32(uint32(len(s.b))).raw(string(s.b))
}

// featureTest is a section and its decoded value.
type featureTest struct {
	n     Feature
	write func(*encoder)
	read  func(*File) any
	want  any
	// ends are further valid sizes of the section, in bytes.
	ends []int
}

func (ft *featureTest) encode(order Order) []byte {
	e := encoder{order: order}
	ft.write(&e)
	return e.b
}

func first[T any](f func() (T, bool)) any {
	v, ok := f()
	if !ok {
		return nil
	}
	return v
}

const nameSize = 4 + 64 // of a short string, in bytes

var featureTests = []featureTest{
	{n: FeatureNrCPUs, write: func(e *encoder) { e.u32(2, 1) },
		read: func(f *File) any { return first(f.NrCPUs) }, want: NrCPUs{2, 1}},
	{n: FeatureHostname, write: func(e *encoder) { e.str("host") },
		read: func(f *File) any { return f.String(FeatureHostname) }, want: "host"},
	{n: FeatureTotalMem, write: func(e *encoder) { e.u64(1 << 40) },
		read: func(f *File) any { return f.Uint64s(FeatureTotalMem, 1) }, want: []uint64{1 << 40}},
	{n: FeatureCmdline, write: func(e *encoder) { e.u32(2).str("perf", "record") },
		read: func(f *File) any { return f.Cmdline() }, want: []string{"perf", "record"}},
	{n: FeatureEventDesc, write: func(e *encoder) {
		e.u32(1, 64).u32(1, 72).u64(0x1cd, 4000, 7, 0, bitFields(uint64(FlagFreq), e.order, attrBits)).u32(0,
			0).u64(3).u32(2).str("cpu/mem-loads/").u64(8, 9)
	}, read: func(f *File) any { return first(f.EventDesc) },
		want: []Attr{{Type: TypeSoftware, Size: 72, Config: 0x1cd, SamplePeriod: 4000, SampleType: 7, Flags: FlagFreq,
			Config1: 3, Name: "cpu/mem-loads/", IDs: []uint64{8, 9}}}},
	{n: FeatureCPUTopology, write: func(e *encoder) {
		e.u32(1).str("0-1").u32(2).str("0", "1").u32(0, 7, 1, 7).u32(1).str("0-1").u32(3, 4)
	}, read: func(f *File) any { return first(f.CPUTopology) }, ends: []int{8 + 3*nameSize, 8 + 3*nameSize + 16},
		want: CPUTopology{[]string{"0-1"}, []string{"0-1"}, []string{"0", "1"}, []CPUPlace{{0, 3, 7}, {1, 4, 7}}}},
	{n: FeatureNUMATopology, write: func(e *encoder) { e.u32(1).u32(5).u64(100, 50).str("0-1") },
		read: func(f *File) any { return first(f.NUMATopology) }, want: []NUMANode{{5, 100, 50, "0-1"}}},
	{n: FeaturePMUMappings, write: func(e *encoder) { e.u32(2).u32(4).str("cpu").u32(1).str("software") },
		read: func(f *File) any { return f.PMUMappings() }, want: []PMU{{4, "cpu"}, {1, "software"}}},
	{n: FeatureGroupDesc, write: func(e *encoder) { e.u32(1).str("{anon_group}").u32(0, 2) },
		read: func(f *File) any { return first(f.EventGroups) }, want: []Group{{"{anon_group}", 0, 2}}},
	{n: FeatureAuxtrace, write: func(e *encoder) { e.u64(2, 0x1000, 0x30, 0x2000, 0x40) },
		read: func(f *File) any { return first(f.AuxtraceIndex) }, want: []AuxtraceEntry{{0x1000, 0x30}, {0x2000,
			0x40}}, ends: []int{0, 16, 32}},
	{n: FeatureCache, write: func(e *encoder) { e.u32(1, 1).u32(1, 64, 64, 12).str("Data", "48K", "0-1") },
		read: func(f *File) any { return first(f.Caches) }, want: []Cache{{1, 64, 64, 12, "Data", "48K", "0-1"}}},
	{n: FeatureSampleTime, write: func(e *encoder) { e.u64(10, 20) },
		read: func(f *File) any { return f.Uint64s(FeatureSampleTime, 2) }, want: []uint64{10, 20}},
	{n: FeatureMemTopology, write: func(e *encoder) { e.u64(1, 0x8000000, 1).u64(0, 65, 65, 3, 1) },
		read: func(f *File) any {
			t, _ := f.MemTopology()
			return fmt.Sprint(t.BlockSize, len(t.Nodes), t.Nodes[0].Node, t.Nodes[0].Blocks.Len(),
				t.Nodes[0].Blocks.At(0), t.Nodes[0].Blocks.At(1))
		}, want: "134217728 1 0 2 3 1"},
	{n: FeatureClockID, write: func(e *encoder) { e.u64(1) },
		read: func(f *File) any { return f.Uint64s(FeatureClockID, 1) }, want: []uint64{1}},
	{n: FeatureDirFormat, write: func(e *encoder) { e.u64(1) },
		read: func(f *File) any { return f.Uint64s(FeatureDirFormat, 1) }, want: []uint64{1}},
	{n: FeatureBPFProgInfo, write: writeTestProgs, read: func(f *File) any { return first(f.BPFProgs) },
		want: []BPFProg{{3, []BPFFunc{{"bpf_prog_0102030405060708_single", 0xffffffffc0001000, 61}}},
			{9, []BPFFunc{{"bpf_prog_1111111111111111_outer", 0xffffffffc0002000, 100}, {"bpf_prog_2222222222222222_inner", 0xffffffffc0003000, 50}}}}},
	{n: FeatureBPFBTF, write: func(e *encoder) { e.u32(1).u32(77).sub(writeTestBTF) },
		read: func(f *File) any { return first(f.BTFs) }, want: []uint32{77}},
	{n: FeatureCompressed, write: func(e *encoder) { e.u32(1, 1, 3, 7, 528384) },
		read: func(f *File) any { return first(f.Compression) }, want: Compression{1, CompressionZstd, 3, 7, 528384}},
	{n: FeatureCPUPMUCaps, write: func(e *encoder) { e.u32(1).str("branches", "32") },
		read: func(f *File) any { return first(f.CPUPMUCaps) }, want: PMUCaps{"cpu", []string{"branches=32"}}},
	{n: FeatureClockData, write: func(e *encoder) { e.u32(1, 4).u64(5, 6) },
		read: func(f *File) any { return first(f.ClockData) }, want: ClockData{4, 5, 6}},
	{n: FeatureCost, write: func(e *encoder) {
		e.raw(`{"start":1,"cpu":2,"wall":3,"programs":[{"name":"p","runs":4,"time":5}]}`)
	},
		read: func(f *File) any { return first(f.Cost) },
		want: Cost{Start: 1, CPU: 2, Wall: 3, Programs: []ProgramCost{{"p", 4, 5}}}},
	{n: FeatureHybrid, write: func(e *encoder) { e.u32(1).str("cpu_core", "0-3") },
		read: func(f *File) any { return first(f.HybridTopology) }, want: []HybridNode{{"cpu_core", "0-3"}}},
	{n: FeaturePMUCaps, write: func(e *encoder) { e.u32(2).u32(1).str("max_precise", "3", "cpu_core").u32(0).str("cpu_atom") },
		read: func(f *File) any { return first(f.PMUCaps) }, want: []PMUCaps{{"cpu_core", []string{"max_precise=3"}},
			{"cpu_atom", nil}}},
	{n: FeatureCPUDomain, write: func(e *encoder) { e.u32(17, 2).u32(1, 1).u32(0).str("MC", "3", "0-1") },
		read: func(f *File) any { return first(f.CPUDomains) },
		want: CPUDomains{17, 2, []DomainCPU{{1, []Domain{{0, "MC", "3", "0-1"}}}}}},
	{n: FeatureEMachine, write: func(e *encoder) { e.u32(62, 1) },
		read: func(f *File) any { return f.Uint32s(FeatureEMachine, 2) }, want: []uint32{62, 1}},
	{n: FeatureCacheLine, write: func(e *encoder) { e.u32(64) },
		read: func(f *File) any { return f.Uint32s(FeatureCacheLine, 1) }, want: []uint32{64}},
	{n: FeatureFile, write: func(e *encoder) {
		e.sub(func(e *encoder) { e.raw("/a.so\x00").u32(2).u64(0x10).u32(1).u64(0x20).u32(4).raw("f\x00").u64(0x30) })
		e.sub(func(e *encoder) { e.raw("/b.dex\x00").u32(3).u64(0).u32(0).u32(2).u64(5, 6) })
	}, read: func(f *File) any { return f.SymbolFiles() }, ends: []int{0, 4 + 6 + 16 + 14 + 8},
		want: []SymbolFile{{Path: "/a.so", Type: symbolFileELF, MinVaddr: 0x10, Symbols: []FileSymbol{{0x20, 4, "f"}},
			Offset: 0x30},
			{Path: "/b.dex", Type: symbolFileDex, DexOffsets: []uint64{5, 6}}}},
	{n: FeatureMetaInfo, write: func(e *encoder) { e.raw("arch\x00arm64\x00empty\x00\x00") },
		read: func(f *File) any { return f.MetaInfo() }, want: []MetaInfo{{"arch", "arm64"}, {"empty", ""}},
		ends: []int{0, 11}},
	{n: FeatureDebugUnwind, write: func(e *encoder) { e.raw("\x0a\x06\x0a\x02/a\x10\x09\x0a\x04\x0a\x02/b") },
		read: func(f *File) any { return f.UnwindFiles() }, want: []UnwindFile{{"/a", 9}, {"/b", 0}}, ends: []int{0,
			8}},
	{n: FeatureFile2, write: func(e *encoder) {
		e.sub(func(e *encoder) {
			e.raw("\x0a\x03/so\x10\x02\x18\x80\x20\x22\x07\x08\x11\x10\x04\x1a\x01f\x32\x02\x08\x05")
		})
	}, read: func(f *File) any { return f.SymbolFiles() }, ends: []int{0},
		want: []SymbolFile{{Path: "/so", Type: symbolFileELF, MinVaddr: 0x1000, Symbols: []FileSymbol{{0x11, 4, "f"}},
			Offset: 5}}},
	{n: FeatureHiperfFiles, write: func(e *encoder) {
		e.u32(1, 3).raw("/a\x00").u32(2).u64(0x1000, 0x800).u32(3).raw("ab\x00")
		e.u32(1).u64(0x1010).u32(4, 2).raw("f\x00")
	}, read: func(f *File) any { return f.SymbolFiles() },
		want: []SymbolFile{{Path: "/a", Type: symbolFileUnknown, MinVaddr: 0x1000, Offset: 0x800,
			Symbols: []FileSymbol{{0x1010, 4, "f"}}}}},
	{n: FeatureHiperfStacks, write: func(e *encoder) {
		e.u32(1, 7, 64, 2, 3).u64(0x1000).u32(5).u64(1<<63 | 3<<40 | 0x2000)
	}, read: func(f *File) any {
		s, _ := decoded(f, FeatureHiperfStacks, parseHiperfStacks)
		return s
	}, want: HiperfStacks{{PID: 7, Number: 3}: 0x1000, {PID: 7, Number: 5}: 1<<63 | 3<<40 | 0x2000}},
}

// writeTestProgs writes two BPF programs: the second has two functions and BTF.
func writeTestProgs(e *encoder) {
	e.u32(2)
	prog := func(id, btf uint32, name string, addrs []uint64, sizes []uint32, tags string, infos,
		lines []uint32, jited []uint64) {
		var data encoder
		data.order = e.order
		n := uint32(len(addrs))
		data.u64(addrs...).u32(sizes...)
		tagsAt := uint64(len(data.b))
		data.raw(tags)
		infosAt := uint64(len(data.b))
		data.u32(infos...)
		linesAt := uint64(len(data.b))
		data.u32(lines...)
		jitedAt := uint64(len(data.b))
		data.u64(jited...)
		e.u32(232, uint32(len(data.b))).u64(1<<3 | 1<<4 | 1<<5 | 1<<8)
		start := len(e.b)
		e.u32(1, id).raw(tags[:8]).u32(0, 0).u64(0, 0, 0).u32(0,
			0).u64(0).raw(name + strings.Repeat("\x00", 16-len(name)))
		e.u32(0, 0).u64(0, 0).u32(n, n).u64(0, uint64(8*n)).u32(btf, 8).u64(infosAt).u32(uint32(len(infos)/2),
			uint32(len(lines)/4)).u64(linesAt, jitedAt).u32(uint32(len(jited)), 16, 8, n).u64(tagsAt)
		e.raw(strings.Repeat("\x00", 232-(len(e.b)-start))).raw(string(data.b))
	}
	prog(9, 77, "", []uint64{0xffffffffc0002000, 0xffffffffc0003000}, []uint32{100, 50},
		strings.Repeat("\x11", 8)+strings.Repeat("\x22", 8), []uint32{0, 3, 8, 4},
		[]uint32{0, 5, 0, 12 << 10, 1, 11, 0, 7<<10 | 3, 2, 1000, 0, 1 << 10},
		[]uint64{0xffffffffc0003004, 0xffffffffc0002000, 0xffffffffc0002008})
	prog(3, 0, "single", []uint64{0xffffffffc0001000}, []uint32{61}, "\x01\x02\x03\x04\x05\x06\x07\x08", nil, nil, nil)
}

// writeTestBTF writes int, func_proto and the funcs outer and inner.
func writeTestBTF(e *encoder) {
	names := "\x00int\x00outer\x00inner\x00"
	types := encoder{order: e.order}
	types.u32(1, 1<<24, 4, 32)             // int
	types.u32(0, 13<<24|1, 1).u32(0, 1)    // int (int)
	types.u32(5, 12<<24, 2, 11, 12<<24, 2) // outer, inner
	e.u16(0xeb9f).u16(1).u32(24, 0, uint32(len(types.b)), uint32(len(types.b)),
		uint32(len(names))).raw(string(types.b)).raw(names)
}

var orders = map[string]Order{"little-endian": LittleEndian, "big-endian": BigEndian}

// sectionsOf returns the sections of all featureTests, and BUILD_ID.
func sectionsOf(order Order) map[Feature][]byte {
	sections := map[Feature][]byte{}
	for i := range featureTests {
		sections[featureTests[i].n] = featureTests[i].encode(order)
	}
	return sections
}

func TestFeatures(t *testing.T) {
	for name, order := range orders {
		all := sectionsOf(order)
		for i := range featureTests {
			ft := &featureTests[i]
			t.Run(fmt.Sprintf("%d %s", ft.n, name), func(t *testing.T) {
				f := &File{Order: order, Sections: maps.Clone(all)}
				// File joins these sections.
				for _, other := range [...]Feature{FeatureFile, FeatureFile2, FeatureHiperfFiles} {
					if other != ft.n {
						delete(f.Sections, other)
					}
				}
				if err := f.FeatureError(ft.n); err != nil {
					t.Fatal(err)
				}
				if got := ft.read(f); !reflect.DeepEqual(got, ft.want) {
					t.Errorf("got  %+v\nwant %+v", got, ft.want)
				}
				if !f.Has(ft.n) {
					t.Error("the file has not what it has")
				}
				ft.cut(t, f)
			})
		}
	}
}

// cut truncates the section at every byte.
func (ft *featureTest) cut(t *testing.T, f *File) {
	whole := f.Sections[ft.n]
	for n := range whole {
		f.Sections[ft.n] = whole[:n]
		err := f.FeatureError(ft.n)
		if whole := slices.Contains(ft.ends, n); whole != (err == nil) {
			t.Errorf("%d of %d bytes: error %v", n, len(f.Sections[ft.n]), err)
		} else if err != nil && !strings.Contains(err.Error(),
			fmt.Sprintf("feature section %d (%d bytes) is truncated", ft.n, n)) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// Counts that exceed the section cost neither time nor memory.
func TestFeatureCounts(t *testing.T) {
	for _, order := range orders {
		f := &File{Order: order, Sections: sectionsOf(order)}
		for n, data := range f.Sections {
			for at := 0; at+4 <= len(data); at += 4 {
				old := bytes.Clone(data[at:])
				copy(data[at:], "\xff\xff\xff\xff")
				if allocated := testing.AllocsPerRun(1, func() { f.FeatureError(n) }); allocated > 1000 {
					t.Errorf("section %d with a count at %d: %v allocations", n, at, allocated)
				}
				copy(data[at:], old)
			}
		}
	}
}

func TestBuildIDs(t *testing.T) {
	id := strings.Repeat("\xab", 20)
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			entry := func(misc Misc, pid []uint32, id, file string) []byte {
				e := &encoder{order: order}
				size := 8 + 4*len(pid) + 24 + len(file)
				return e.u32(67).u16(uint16(misc)).u16(uint16(size)).u32(pid...).raw(id +
					strings.Repeat("\x00", 24-len(id))).raw(file).b
			}
			host := []uint32{1<<32 - 1}
			for _, tc := range []struct {
				data []byte
				want []BuildIDEntry
				err  string
			}{
				{slices.Concat(entry(MiscKernel, host, id, "[kernel.kallsyms]\x00\x00"), entry(MiscUser|miscBuildIDSize, host, id[:16]+"\x00\x00\x00\x00\x10", "/a\x00\x00")),
					[]BuildIDEntry{{MiscKernel, -1, BuildID(id), "[kernel.kallsyms]"}, {MiscUser, -1, BuildID(id[:16]),
						"/a"}}, ""},
				// Linux before 2.6.35 wrote no pid.
				{slices.Concat(entry(MiscKernel, nil, id, "[kernel.kallsyms]\x00"), entry(MiscUser, nil, id, "/a\x00")),
					[]BuildIDEntry{{MiscKernel, -1, BuildID(id), "[kernel.kallsyms]"}, {MiscUser, -1, BuildID(id),
						"/a"}}, ""},
				{entry(MiscUser, host, id, "/a\x00")[:38], nil, "build ID entry of 39 bytes in a section with 38 left"},
				{[]byte("\x00\x00\x00\x00\x00\x00\x00\x00"), nil, "build ID entry of 0 bytes"},
				{(&encoder{order: order}).u32(67).u16(2).u16(16).u64(0).b, nil, "build ID entry of 16 bytes is too short"},
			} {
				f := &File{Order: order, Sections: map[Feature][]byte{FeatureBuildID: tc.data}}
				got, err := f.BuildIDs()
				if !reflect.DeepEqual(got, tc.want) {
					t.Errorf("got  %+v\nwant %+v", got, tc.want)
				}
				if tc.err == "" && err != nil || tc.err != "" &&
					(err == nil || !strings.Contains(err.Error(), tc.err)) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
			}
		})
	}
}

func TestBPFLines(t *testing.T) {
	for name, order := range orders {
		f := &File{Order: order, Sections: sectionsOf(order)}
		// The names in the test are not names of files.
		want := []BPFLine{{0xffffffffc0002000, "inner", 7}, {0xffffffffc0003004, "outer", 12}}
		if got := f.BPFLines(); !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// A program whose arrays lie outside its data has no functions.
func TestBPFArraysOutside(t *testing.T) {
	for name, order := range orders {
		whole := (&featureTest{write: writeTestProgs}).encode(order)
		for at := 4; at+8 <= len(whole); at += 4 {
			data := bytes.Clone(whole)
			order.PutUint64(data[at:], 1<<64-8)
			f := &File{Order: order, Sections: map[Feature][]byte{FeatureBPFProgInfo: data}}
			progs, _ := f.BPFProgs()
			f.Sections[FeatureBPFBTF] = (&featureTest{write: func(e *encoder) {
				e.u32(1).u32(77).sub(writeTestBTF)
			}}).encode(order)
			if lines := f.BPFLines(); len(lines) > 3 {
				t.Errorf("%s, garbage at %d: %d lines", name, at, len(lines))
			}
			for _, p := range progs {
				if len(p.Funcs) > 2 {
					t.Errorf("%s, garbage at %d: %d functions", name, at, len(p.Funcs))
				}
			}
		}
	}
}

// simpleperf stores names of events in its own section, besides EVENT_DESC and formats.
func TestSimpleperfNames(t *testing.T) {
	f := &File{Order: LittleEndian, Sections: map[Feature][]byte{
		FeatureMetaInfo: []byte(
			"a\x00b\x00event_type_info\x00cpu-cycles,0,0\nsched:sched_switch,2,47\ncs-etm,8,0\nbad,x\x00")},
		Attrs: []Attr{{Type: TypeTracepoint, Config: 47}, {Type: TypeTracepoint, Config: 48}, {Type: TypeHardware},
			{Type: 8, Config: 16384}, {Type: 8, Config: 16384, Name: "x"}}}
	if err := f.nameAttrs(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range f.Attrs {
		names = append(names, f.EventName(i))
	}
	if want := []string{"sched:sched_switch", "unknown tracepoint", "cycles", "cs-etm",
		"x"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// simpleperf's index of AUX data has no count.
func TestSimpleperfAuxtrace(t *testing.T) {
	f := &File{Order: LittleEndian,
		Sections: map[Feature][]byte{FeatureAuxtrace: (&encoder{order: LittleEndian}).u64(1, 2, 3, 4).b}}
	if got, ok := f.AuxtraceIndex(); !ok || !slices.Equal(got, []AuxtraceEntry{{1, 2}, {3, 4}}) {
		t.Errorf("%v", got)
	}
}

func TestDefaultNames(t *testing.T) {
	for _, tc := range []struct {
		attr Attr
		want string
	}{
		{Attr{Type: TypeHardware, Config: 1}, "instructions"},
		{Attr{Type: TypeHardware, Config: 99}, "unknown-hardware"},
		{Attr{Type: TypeHardware, Flags: AttrFlags(0).WithPreciseIP(3) | FlagExcludeGuest}, "cycles:pppH"},
		{Attr{Type: TypeHardware, Flags: AttrFlags(0).WithPreciseIP(2) | FlagExcludeKernel | FlagExcludeHV}, "cycles:upp"},
		{Attr{Type: TypeHardware, Flags: FlagExcludeHV | FlagExcludeGuest}, "cycles:kuH"},
		{Attr{Type: TypeHardware, Flags: FlagExcludeUser}, "cycles:kh"},
		{Attr{Type: TypeHardware, Flags: FlagExcludeHost | FlagExcludeGuest}, "cycles"},
		{Attr{Type: TypeSoftware, Config: 9}, "dummy"},
		{Attr{Type: TypeSoftware, Config: 10}, "unknown-software"},
		{Attr{Type: TypeTracepoint, Config: 5}, "unknown tracepoint"},
		{Attr{Type: TypeHWCache, Config: 0x10000}, "L1-dcache-load-misses"},
		{Attr{Type: TypeHWCache, Config: 0x103}, "dTLB-stores"},
		{Attr{Type: TypeHWCache, Config: 0x10104}, "invalid-cache"},
		{Attr{Type: TypeHWCache, Config: 7}, "unknown-ext-hardware-cache-type"},
		{Attr{Type: TypeHWCache, Config: 0x300}, "unknown-ext-hardware-cache-op"},
		{Attr{Type: TypeHWCache, Config: 0x20000}, "unknown-ext-hardware-cache-result"},
		{Attr{Type: TypeRaw, Config: 0x1cd}, "raw 0x1cd"},
		{Attr{Type: TypeBreakpoint, Config1: 0x8, BPType: 3, Flags: FlagExcludeKernel}, "mem:0x8:rw:uh"},
		{Attr{Type: 10, Config: 1}, "unknown event PMU=10 config=0x1"},
	} {
		if got := tc.attr.DefaultName(); got != tc.want {
			t.Errorf("type %d, config %#x: %q, want %q", tc.attr.Type, tc.attr.Config, got, tc.want)
		}
	}
}

// FuzzFeatures decodes arbitrary bytes as each section, in both byte orders.
func FuzzFeatures(f *testing.F) {
	for i := range featureTests {
		f.Add(uint8(featureTests[i].n), false, featureTests[i].encode(LittleEndian))
	}
	f.Add(uint8(FeatureBPFProgInfo), true, (&featureTest{write: writeTestProgs}).encode(BigEndian))
	f.Fuzz(func(t *testing.T, n uint8, big bool, data []byte) {
		order := orders["little-endian"]
		if big {
			order = orders["big-endian"]
		}
		file := &File{Order: order, Sections: sectionsOf(order), Attrs: []Attr{{}, {Type: TypeTracepoint}, {Type: 8}}}
		file.Sections[Feature(n)] = data
		if err := file.FeatureError(Feature(n)); err != nil && len(err.Error()) > 200 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		for i := range featureTests {
			if featureTests[i].n != FeatureMemTopology {
				featureTests[i].read(file)
			}
		}
		file.MemTopology()
		file.BuildIDs()
		file.BPFLines()
		file.nameAttrs()
	})
}

// TestSimpleperfTracingData reads tracepoint formats that simpleperf writes as a record.
// simpleperf splits records of more than 64 KiB.
func TestSimpleperfTracingData(t *testing.T) {
	le := binary.LittleEndian
	record := func(b []byte, kind Type, data []byte) []byte {
		b = le.AppendUint32(b, uint32(kind))
		b = le.AppendUint16(b, uint16((len(data)+8)>>16))
		return append(le.AppendUint16(b, uint16(len(data)+8)), data...)
	}
	tracing := func(symbols int) []byte {
		data := (&TracingData{Order: LittleEndian, LongSize: 8, PageSize: 4096,
			Events: []TracepointText{{"skb", []byte(kfreeFormat)}}, Kallsyms: make([]byte, symbols)}).Section().Data
		data = append(le.AppendUint32(nil, uint32(len(data))), data...)
		return append(data, make([]byte, -len(data)&63)...)
	}
	split := func(whole []byte) (b []byte) {
		for piece := range slices.Chunk(whole, 1<<16-16) {
			b = record(b, TypeSimpleperfSplit, piece)
		}
		return record(b, TypeSimpleperfSplitEnd, nil)
	}
	large := record(nil, TypeSimpleperfTracingData, tracing(200_000))
	for _, test := range []struct {
		name    string
		records []byte
		want    string
	}{
		{"whole", record(nil, TypeSimpleperfTracingData, tracing(0)), "skb:kfree_skb"},
		{"perf's type", record(nil, TypeHeaderTracing, tracing(0)), "skb:kfree_skb"},
		{"split", split(large), "skb:kfree_skb"},
		{"split, and cut", split(large[:len(large)-8]), ""},
		{"split, without an end", split(large)[:len(large)], ""},
		{"shorter than it says", record(nil, TypeSimpleperfTracingData, tracing(0)[:64]), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &memFile{}
			attrs := testAttrs()
			attrs[0].Name = ""
			w, err := NewWriter(m, attrs, nil)
			if err == nil {
				err = w.Write(test.records)
			}
			if err == nil {
				err = w.Close(nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			f := m.open(t)
			tp := f.Tracepoint(0)
			if got := f.Attrs[0].Name; got != test.want || (tp != nil) != (test.want != "") {
				t.Errorf("the event is %q, its format %v; want %q", got, tp, test.want)
			}
		})
	}
}

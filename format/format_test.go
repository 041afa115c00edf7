package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

// memFile is an Output in memory.
type memFile struct{ b []byte }

func (m *memFile) Write(p []byte) (int, error) { m.b = append(m.b, p...); return len(p), nil }

func (m *memFile) WriteAt(p []byte, off int64) (int, error) { return copy(m.b[off:], p), nil }

func (m *memFile) Truncate(size int64) error { m.b = m.b[:size]; return nil }

func (m *memFile) Seek(off int64, _ int) (int64, error) { return off, nil }

func (m *memFile) open(t testing.TB) *File {
	t.Helper()
	f, err := Open(bytes.NewReader(m.b), int64(len(m.b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// testAttrs returns the two events that `-e skb:kfree_skb,cpu-clock -a -g` opens.
func testAttrs() []Attr {
	flags := FlagDisabled | FlagInherit | FlagSampleIDAll
	st := SampleIdentifier | SampleIP | SampleTID | SampleTime | SampleCallchain | SampleCPU | SamplePeriod
	return []Attr{
		{Type: TypeTracepoint, Size: AttrSize, Config: 7, SamplePeriod: 1, SampleType: st | SampleRaw, Flags: flags, Name: "skb:kfree_skb", IDs: []uint64{10, 11}},
		{Type: TypeSoftware, Size: AttrSize, SamplePeriod: 4000, SampleType: st, Flags: flags | FlagFreq | FlagMmap, Name: "cpu-clock", IDs: []uint64{12, 13}},
	}
}

// appendTestSample appends a sample of testAttrs: id, ip, pid, tid, time, cpu,
// period, callchain, and raw data for the first event.
func appendTestSample(b []byte, id, time uint64, chain []uint64, raw []byte) []byte {
	s := Sample{Misc: MiscKernel, ID: id, IP: 0xffffffff81000010, PID: 100, TID: 100, Time: time, CPU: 1, Period: 5,
		Callchain: wordsOf(chain...), Raw: raw}
	st := testAttrs()[0].SampleType
	if raw == nil {
		st &^= SampleRaw
	}
	return s.AppendTo(b, st)
}

func testFile(t testing.TB, closed bool) *memFile {
	t.Helper()
	m := &memFile{}
	attrs := testAttrs()
	tracing := &TracingData{Order: LittleEndian, LongSize: 8, PageSize: 4096,
		Events: []TracepointText{{"skb", []byte(kfreeFormat)}}}
	w, err := NewWriter(m, attrs, []Section{StringSection(FeatureHostname, "host"),
		EventDescSection(attrs), tracing.Section()})
	if err != nil {
		t.Fatal(err)
	}
	idSize := attrs[0].SampleIDSize()
	b := (&Comm{PID: 100, TID: 100, Comm: "prog"}).Append(nil, idSize)
	b = (&Mmap{Misc: MiscUser, PID: 100, TID: 100, Start: 0x1000, Len: 0x1000, BuildID: BuildID{1, 2, 3, 4},
		Prot: ProtExec, Filename: "/bin/prog"}).Append(b, idSize)
	raw := make([]byte, 12)
	binary.LittleEndian.PutUint16(raw, 7)
	// Two rings, copied one after the other, in two rounds.
	for _, time := range []uint64{1, 4, 6, 2, 3, 5} {
		b = appendTestSample(b, 10, time, []uint64{ContextKernel, 1, ContextUser, 2}, raw)
	}
	b = AppendMark(b, TypeFinishedRound)
	for _, time := range []uint64{7, 9, 6, 8} {
		b = appendTestSample(b, 12, time, []uint64{ContextUser, 3}, nil)
	}
	b = AppendMark(b, TypeFinishedRound)
	if err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if closed {
		if err := w.Close([]Section{Uint64Section(FeatureSampleTime, 1, 9)}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

const kfreeFormat = `name: kfree_skb
ID: 7
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:u64 n;	offset:4;	size:8;	signed:0;

print fmt: "n=%llu", REC->n
`

// readTimes returns the times of the samples in reading order.
func readTimes(t testing.TB, f *File) (times []uint64, r *Reader) {
	t.Helper()
	r = f.Records()
	for {
		raw, err := r.Next()
		if err == io.EOF {
			return times, r
		}
		if err != nil {
			t.Fatal(err)
		}
		if raw.Type == TypeSample {
			times = append(times, raw.Time)
		}
	}
}

func TestWriteThenRead(t *testing.T) {
	f := testFile(t, true).open(t)
	if !f.Complete || len(f.Warnings) > 0 {
		t.Errorf("complete %v, warnings %v", f.Complete, f.Warnings)
	}
	want := testAttrs()
	if !reflect.DeepEqual(f.Attrs, want) {
		t.Errorf("attrs\n got %+v\nwant %+v", f.Attrs, want)
	}
	if got := f.String(FeatureHostname); got != "host" {
		t.Errorf("hostname %q", got)
	}
	if got := f.Uint64s(FeatureSampleTime, 2); !reflect.DeepEqual(got, []uint64{1, 9}) {
		t.Errorf("sample time %v", got)
	}
	if tp := f.Tracepoint(0); tp == nil || tp.Name != "kfree_skb" || f.Tracepoint(1) != nil {
		t.Errorf("tracepoints %v, %v", tp, f.Tracepoint(1))
	}
	times, r := readTimes(t, f)
	if want := []uint64{1, 2, 3, 4, 5, 6, 6, 7, 8, 9}; !reflect.DeepEqual(times, want) {
		t.Errorf("times %v, want %v", times, want)
	}
	if r.Skipped.Count != 0 {
		t.Errorf("skipped: %v", r.Skipped.First)
	}
}

func TestRecordsAndSamples(t *testing.T) {
	f := testFile(t, true).open(t)
	r := f.Records()
	next := func() Raw {
		for {
			raw, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if raw.Type != TypeFinishedRound {
				return raw
			}
		}
	}
	rec, err := f.Record(next())
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := rec.(*Comm); !ok || c.Comm != "prog" || c.TID != 100 || c.Exec {
		t.Errorf("first record %+v", rec)
	}
	rec, err = f.Record(next())
	if err != nil {
		t.Fatal(err)
	}
	m, ok := rec.(*Mmap)
	if !ok || m.Filename != "/bin/prog" || m.BuildID.String() != "01020304" || m.Start != 0x1000 || !m.Executable() {
		t.Errorf("second record %+v", rec)
	}
	var s Sample
	if err := f.Sample(next(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Event != 0 || s.PID != 100 || s.Time != 1 || s.CPU != 1 || s.Period != 5 || s.Callchain.Len() != 4 ||
		s.Callchain.At(1) != 1 || len(s.Raw) != 12 {
		t.Errorf("sample %+v", s)
	}
	for range 6 {
		raw := next()
		if err := f.Sample(raw, &s); err != nil {
			t.Fatal(err)
		}
	}
	if s.Event != 1 || s.Raw != nil || s.Callchain.Len() != 2 {
		t.Errorf("sample of the second event: %+v", s)
	}
}

// A killed recording has data size 0 and nothing after the data, but it keeps its
// tracepoint formats and names.
func TestUnfinished(t *testing.T) {
	m := testFile(t, false)
	f := m.open(t)
	if f.Complete || len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0].Error(), "not finished") {
		t.Errorf("complete %v, warnings %v", f.Complete, f.Warnings)
	}
	if f.Tracepoint(0) == nil || f.EventName(1) != "cpu-clock" {
		t.Error("the sections before the data were not found")
	}
	if times, _ := readTimes(t, f); len(times) != 10 {
		t.Errorf("%d samples, want 10", len(times))
	}
}

// TestTruncatedKeepsTracepoints truncates a finished file at each position after the
// sections known at its start: it keeps these.
func TestTruncatedKeepsTracepoints(t *testing.T) {
	whole := testFile(t, true)
	first := int(whole.open(t).DataOffset())
	for n := first; n < len(whole.b); n++ {
		f := (&memFile{b: whole.b[:n]}).open(t)
		if f.Tracepoint(0) == nil || f.String(FeatureHostname) != "host" || f.EventName(1) != "cpu-clock" {
			t.Fatalf("cut to %d of %d bytes: no tracepoint, host or name", n, len(whole.b))
		}
		if !f.Truncated || len(f.Warnings) == 0 {
			t.Fatalf("cut to %d of %d bytes: truncated %v, warnings %v", n, len(whole.b), f.Truncated, f.Warnings)
		}
	}
}

// Rewind removes the partial record of a failed write; the next write continues there.
func TestRewind(t *testing.T) {
	m := &memFile{}
	w, err := NewWriter(m, testAttrs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sample := appendTestSample(nil, 12, 5, []uint64{1}, nil)
	w.Write(sample)
	whole := w.Size()
	w.Write(sample[:20])
	if err := w.Rewind(whole); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	times, r := readTimes(t, m.open(t))
	if len(times) != 1 || r.Skipped.Count != 0 {
		t.Errorf("%d samples, skipped %v", len(times), r.Skipped.First)
	}
}

// A file truncated anywhere gives an error, or all samples before the end and a report of
// the missing part.
func TestCutAnywhere(t *testing.T) {
	for _, closed := range []bool{true, false} {
		m := testFile(t, closed)
		last := 0
		for n := range len(m.b) {
			f, err := Open(bytes.NewReader(m.b[:n]), int64(n))
			if err != nil {
				var fe *Error
				if !errors.As(err, &fe) {
					t.Fatalf("cut at %d: %v is not an *Error", n, err)
				}
				if last > 0 {
					t.Fatalf("cut at %d: %v, but less was enough for %d samples", n, err, last)
				}
				continue
			}
			times, _ := readTimes(t, f)
			if len(times) < last {
				t.Fatalf("cut at %d: %d samples, fewer than the %d of a shorter file", n, len(times), last)
			}
			last = len(times)
			if len(f.Warnings) == 0 {
				t.Fatalf("cut at %d: not reported", n)
			}
		}
		if last != 10 {
			t.Errorf("closed %v: %d samples in the end", closed, last)
		}
	}
}

func TestNotPerfData(t *testing.T) {
	for _, text := range []string{"", "hello", "#!/bin/sh\n", "PERFILE2"} {
		_, err := Open(strings.NewReader(text), int64(len(text)))
		if err == nil {
			t.Errorf("%q was opened", text)
		} else if text != magic2 && !errors.Is(err, ErrNotPerfData) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAttrSizes(t *testing.T) {
	a := testAttrs()[0]
	a.Config2, a.SigData, a.SampleMaxStack = 5, 6, 7
	full := a.Append(nil)
	if len(full) != AttrSize {
		t.Fatalf("%d bytes", len(full))
	}
	for _, size := range []int{64, 72, 80, 96, 104, 112, 120, 128, 136, 144, 200} {
		b := append(bytes.Clone(full), make([]byte, 100)...)[:size]
		binary.LittleEndian.PutUint32(b[4:], uint32(size))
		got, err := parseAttr(b, LittleEndian)
		if err != nil {
			t.Fatalf("size %d: %v", size, err)
		}
		if got.Config != 7 || got.SampleType != a.SampleType || got.Size != uint32(size) {
			t.Errorf("size %d: %+v", size, got)
		}
		if has := got.Config2 == 5; has != (size >= 72) {
			t.Errorf("size %d: config2 is %d", size, got.Config2)
		}
	}
	if _, err := parseAttr(full[:63], LittleEndian); err == nil {
		t.Error("an attr of 63 bytes was read")
	}
}

// Rare output of perf_output_sample: group reads, an empty stack dump, the hardware index
// in front of the branches.
func TestSampleFields(t *testing.T) {
	words := func(v ...uint64) (b []byte) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, x)
		}
		return b
	}
	for _, tc := range []struct {
		name string
		attr Attr
		data []byte
		want func(*Sample) bool
	}{
		{"group read", Attr{SampleType: SampleRead | SampleCallchain, ReadFormat: ReadGroup | ReadID | ReadLost | ReadTotalTimeEnabled},
			words(2, 99, 1, 10, 0, 2, 11, 0, 1, 7),
			func(s *Sample) bool { return s.Read.Len() == 8 && s.Callchain.At(0) == 7 }},
		{"single read", Attr{SampleType: SampleRead | SampleCallchain, ReadFormat: ReadID},
			words(5, 10, 1, 7),
			func(s *Sample) bool { return s.Read.At(1) == 10 && s.Callchain.At(0) == 7 }},
		{"empty stack dump", Attr{SampleType: SampleStackUser | SampleWeight}, words(0, 3),
			func(s *Sample) bool { return s.UserStack == nil && s.Weight == 3 }},
		{"stack dump", Attr{SampleType: SampleStackUser | SampleWeight}, words(16, 1, 2, 8, 3),
			func(s *Sample) bool { return len(s.UserStack) == 8 && s.Weight == 3 }},
		{"no user registers", Attr{SampleType: SampleRegsUser | SampleWeight, SampleRegsUser: 0xff}, words(0, 3),
			func(s *Sample) bool { return s.UserRegs.Len() == 0 && s.Weight == 3 }},
		{"branches with index", Attr{SampleType: SampleBranchStack | SampleWeight, BranchSampleType: branchHWIndex}, words(1, 77, 1, 2, 3, 4),
			func(s *Sample) bool {
				b := s.Branch(&Attr{BranchSampleType: branchHWIndex})
				index, ok := b.HWIndex()
				return ok && index == 77 && b.Len() == 1 && b.From(0) == 1 && b.To(0) == 2 && b.Flags(0) == 3 && s.Weight == 4
			}},
		{"period of the event", Attr{SampleType: SampleIP, SamplePeriod: 1000}, words(1), func(s *Sample) bool { return s.Period == 1000 }},
	} {
		f := &File{Order: LittleEndian, Attrs: []Attr{tc.attr},
			layouts: []SampleLayout{NewSampleLayout(&tc.attr)}}
		var s Sample
		if err := f.Sample(Raw{Type: TypeSample, Data: tc.data}, &s); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		} else if !tc.want(&s) {
			t.Errorf("%s: %+v", tc.name, s)
		}
		for n := range len(tc.data) {
			if err := f.Sample(Raw{Type: TypeSample, Data: tc.data[:n]}, &s); err == nil {
				t.Errorf("%s: the first %d bytes are enough", tc.name, n)
			}
		}
	}
}

func TestSampleTooShort(t *testing.T) {
	a := Attr{SampleType: SampleCallchain}
	f := &File{Order: LittleEndian, Attrs: []Attr{a}, layouts: []SampleLayout{NewSampleLayout(&a)}}
	var s Sample
	err := f.Sample(Raw{Type: TypeSample, Off: 0x1a3f, Data: []byte{0, 16, 0, 0, 0, 0, 0, 0}}, &s)
	want := "at offset 0x1a3f: SAMPLE (9) record of 16 bytes is too short for its callchain (nr 4096)"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestSections(t *testing.T) {
	m := &memFile{}
	topology := CPUTopology{Packages: []string{"0-1"}, Cores: []string{"0", "1"}, Dies: []string{"0-1"},
		CPUs: []CPUPlace{{0, 0, 0}, {1, 0, 0}}}
	ids := []BuildIDEntry{{Misc: MiscUser, PID: -1, BuildID: BuildID{1, 2}, Filename: "/bin/x"},
		{Misc: MiscKernel, BuildID: bytes.Repeat([]byte{7}, 20), Filename: "[kernel.kallsyms]"}}
	w, err := NewWriter(m, testAttrs(), []Section{
		NrCPUs{2, 2}.Section(), StringsSection(FeatureCmdline, []string{"gperf", "record"}), topology.Section(),
		PMUMappingsSection([]PMU{{1, "software"}}), BuildIDSection(ids),
		NUMASection([]NUMANode{{0, 10, 5, "0-1"}}), CacheSection([]Cache{{1, 64, 64, 12, "Data", "48K", "0"}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(AppendMark(nil, TypeFinishedInit)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	f := m.open(t)
	check := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
	check("command line", f.Cmdline(), []string{"gperf", "record"})
	check("PMUs", f.PMUMappings(), []PMU{{1, "software"}})
	gotIDs, err := f.BuildIDs()
	if err != nil {
		t.Error(err)
	}
	check("build IDs", gotIDs, ids)
	cpus, _ := f.CPUTopology()
	check("CPUs", cpus, topology)
	nodes, _ := f.NUMATopology()
	check("nodes", nodes, []NUMANode{{0, 10, 5, "0-1"}})
	caches, _ := f.Caches()
	check("caches", caches, []Cache{{1, 64, 64, 12, "Data", "48K", "0"}})
}

// appendFilled appends a record whose body fill appends, and idSize zeros.
func appendFilled(b []byte, t Type, misc Misc, idSize int, fill func([]byte) []byte) []byte {
	start := len(b)
	b = fill(append(b, make([]byte, HeaderSize)...))
	return finish(append(b, make([]byte, idSize)...), start, t, misc)
}

package main

import (
	"bytes"
	enc "encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gperf/format"
)

// recordsFile builds a file with records of every type that a file can hold, in
// an order other than time. With safe it holds only records that perf takes
// from a file without acting on it.
type recordsFile struct {
	b    []byte
	safe bool
}

// record appends a record; the integers among fields keep their size. Of
// the kernel's, time, the CPU and the id of an event close it.
func (r *recordsFile) record(typ format.Type, misc format.Misc, time uint64, fields ...any) {
	if r.safe && typ >= format.TypeHeaderAttr && typ != format.TypeFinishedRound {
		return
	}
	var body []byte
	for _, f := range fields {
		if s, ok := f.(string); ok {
			body = append(body, s...)
		} else {
			body, _ = enc.Append(body, enc.LittleEndian, f)
		}
	}
	for len(body)%8 != 0 {
		body = append(body, 0)
	}
	if typ < format.TypeHeaderAttr && typ != format.TypeSample {
		for _, v := range []uint64{42<<32 | 41, time, time % 2, 20 + time%2} {
			body = enc.LittleEndian.AppendUint64(body, v)
		}
	}
	r.b = enc.LittleEndian.AppendUint32(r.b, uint32(typ))
	r.b = enc.LittleEndian.AppendUint16(r.b, uint16(misc))
	r.b = enc.LittleEndian.AppendUint16(r.b, uint16(len(body)+8))
	r.b = append(r.b, body...)
}

// zeros pads a string to n bytes.
func zeros(s string, n int) string { return s + strings.Repeat("\x00", n-len(s)) }

func (r *recordsFile) sample(time uint64) {
	r.record(format.TypeSample, format.MiscUser, time, uint64(20), uint64(0x401234), uint32(41), uint32(42), time,
		time%2, uint64(1000),
		uint64(2), 100+time, uint64(20), 2*time, uint64(21), uint64(4), format.ContextKernel,
		uint64(0xffffffff81000010), format.ContextUser, uint64(0x401234))
}

func (r *recordsFile) kernel() {
	const u32, u64 = uint32(0), uint64(0)
	r.record(format.TypeMmap, format.MiscKernel, 0, int32(-1), u32, uint64(0xffffffff81000000), uint64(0x1000000),
		uint64(0xffffffff81000000), "[kernel.kallsyms]_text\x00")
	r.record(format.TypeMmap, format.MiscUser|format.MiscMmapData, 10, uint32(41), uint32(41), uint64(0x7000),
		uint64(0x1000), u64, "/data\x00")
	r.record(format.TypeMmap2, format.MiscUser, 30, uint32(41), uint32(41), uint64(0x400000), uint64(0x2000), u64,
		uint32(8), uint32(1), uint64(77), uint64(3), uint32(5), uint32(2), "/bin/prog\x00")
	r.record(format.TypeMmap2, format.MiscUser|format.MiscMmapBuildID, 20, uint32(41), uint32(41), uint64(0x600000),
		uint64(0x2000), u64, "\x14\x00\x00\x00abcdefghijklmnopqrst", uint32(3), uint32(1), "/lib/x.so\x00")
	r.record(format.TypeComm, format.MiscCommExec, 40, uint32(41), uint32(41), "prog\x00")
	r.record(format.TypeComm, 0, 50, uint32(41), uint32(42), "worker\x00")
	r.record(format.TypeFork, 0, 60, uint32(50), uint32(41), uint32(50), uint32(42), uint64(60))
	r.record(format.TypeExit, 0, 80, uint32(50), uint32(41), uint32(50), uint32(42), uint64(80))
	r.sample(70)
	r.record(format.TypeFinishedRound, 0, 0)
	r.record(format.TypeLost, 0, 91, uint64(20), u64)
	r.record(format.TypeLostSamples, format.MiscLostSamplesBPF, 92, uint64(3))
	r.record(format.TypeThrottle, 0, 93, uint64(93), uint64(20), uint64(20))
	r.record(format.TypeUnthrottle, 0, 94, uint64(94), uint64(20), uint64(20))
	r.record(format.TypeRead, 0, 95, uint32(41), uint32(42), uint64(2), uint64(5), uint64(4), uint64(20),
		uint64(6), uint64(21))
	r.record(format.TypeSwitch, format.MiscSwitchOut|format.MiscSwitchPreempt, 97)
	r.record(format.TypeSwitch, 0, 96)
	r.record(format.TypeSwitchCPUWide, format.MiscSwitchOut, 98, uint32(0), uint32(0))
	r.record(format.TypeSwitchCPUWide, 0, 99, uint32(51), uint32(51))
	r.record(format.TypeNamespaces, 0, 100, uint32(41), uint32(41), uint64(8), uint64(4), uint64(1), uint64(4),
		uint64(2), uint64(4), uint64(3), uint64(4), uint64(4),
		uint64(4), uint64(5), uint64(4), uint64(6), uint64(4), uint64(7), uint64(4), u64)
	r.record(format.TypeKSymbol, 0, 101, uint64(0xffffffffc0001000), uint32(64), uint16(1), uint16(0),
		"bpf_prog_0123456789abcdef_test\x00")
	r.record(format.TypeBPFEvent, 0, 102, uint16(1), uint16(0), uint32(9), "\x01\x23\x45\x67\x89\xab\xcd\xef")
	r.record(format.TypeCgroup, 0, 103, uint64(12), "/a.slice\x00")
	r.record(format.TypeTextPoke, 0, 104, uint64(0xffffffff81000010), uint16(5), uint16(20), "\x0f\x1f\x44\x00\x00",
		zeros("\xe9\x10\x20\x30\x40", 20))
	r.record(format.TypeAux, 0, 105, uint64(0), uint64(8), uint64(5))
	r.record(format.TypeItraceStart, 0, 106, uint32(41), uint32(42))
	r.record(format.TypeAuxOutputHWID, 0, 107, uint64(3))
	r.sample(110)
	r.record(format.TypeFinishedRound, 0, 0)
}

func (r *recordsFile) user() {
	r.record(format.TypeCallchainDeferred, 0, 108, uint64(5), uint64(2), format.ContextUser, uint64(0x401234))
	r.record(format.TypeHeaderEventType, 0, 0, uint64(3), zeros("cycles", 64))
	r.record(format.TypeHeaderBuildID, format.MiscUser|1<<15, 0, int32(-1),
		"abcdefghijklmnopqrst\x14\x00\x00\x00/lib/x.so\x00")
	r.record(format.TypeIDIndex, 0, 0, uint64(1), uint64(20), uint64(0), uint64(1), int64(-1), uint64(7), uint64(0))
	r.record(format.TypeAuxtraceInfo, 0, 0, uint32(4), uint32(0), uint64(6))
	r.record(format.TypeAuxtrace, 0, 0, uint64(8), uint64(0), uint64(9), uint32(1), int32(-1), uint32(1), uint32(0))
	r.b = append(r.b, "its data"...)
	r.record(format.TypeAuxtraceError, 0, 0, uint32(1), uint32(2), uint32(3), uint32(4), uint32(5), uint32(1),
		uint64(6), uint64(7), zeros("lost a trace", 64))
	r.record(format.TypeThreadMap, 0, 0, uint64(2), int64(-1), zeros("", 16), int64(41), zeros("prog", 16))
	r.record(format.TypeCPUMap, 0, 0, uint16(0), uint16(3), uint16(0), uint16(1), uint16(5))
	r.record(format.TypeStatConfig, 0, 0, uint64(2), uint64(0), uint64(1), uint64(9), uint64(3))
	r.record(format.TypeStat, 0, 0, uint64(20), uint32(1), uint32(0), uint64(4), uint64(5), uint64(6))
	r.record(format.TypeStatRound, 0, 0, uint64(1), uint64(200))
	for kind, what := range []any{"msec\x00", 0.5, "clock\x00", "\x02\x00\x00\x00\x00\x00\x03\x00"} {
		r.record(format.TypeEventUpdate, 0, 0, uint64(kind), uint64(20), what)
	}
	r.record(format.TypeTimeConv, 0, 0, uint64(31), uint64(2), uint64(3), uint64(4), uint64(5), "\x01\x00")
	r.record(format.TypeHeaderFeature, 0, 0, uint64(format.FeatureHostname), "host")
	r.record(format.TypeFinishedInit, 0, 0)
	r.record(format.TypeBPFMetadata, 0, 0, zeros("bpf_prog_test", 512), uint64(1),
		zeros("key", 64), zeros("value", 256))
	r.record(format.TypeSchedstatCPU, 0, 0, uint64(1), uint32(0), uint16(17), uint16(0),
		zeros("\x01", 24), zeros("\x02", 24))
	r.record(format.TypeSchedstatDomain, 0, 0, uint64(1), uint32(0), uint16(17), uint16(2), zeros("\x01", 180))
	r.record(format.TypeSimpleperfDSO, 0, 0, "what simpleperf\nmade of it")
}

// write makes a file of the records.
func (r *recordsFile) write(t *testing.T) []byte {
	t.Helper()
	const st = format.SampleIdentifier | format.SampleIP | format.SampleTID | format.SampleTime |
		format.SampleCPU | format.SamplePeriod
	rf := format.ReadTotalTimeEnabled | format.ReadGroup | format.ReadID
	attrs := []format.Attr{
		{Type: format.TypeSoftware, Size: format.AttrSize, SamplePeriod: 1000, SampleType: st | format.SampleRead | format.SampleCallchain, ReadFormat: rf &^ format.ReadTotalTimeEnabled,
			Flags: format.FlagSampleIDAll, Name: "cpu-clock", IDs: []uint64{20}},
		{Type: format.TypeSoftware, Config: 9, Size: format.AttrSize, SampleType: st, ReadFormat: format.ReadTotalTimeEnabled | format.ReadGroup | format.ReadID,
			Flags: format.FlagSampleIDAll, Name: "dummy:u", IDs: []uint64{21}},
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w, err := format.NewWriter(out, attrs, []format.Section{format.EventDescSection(attrs)})
	if err == nil {
		err = w.Write(r.b)
	}
	if err == nil {
		err = w.Close(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// testdata/records.data is built here; -update writes it.
func TestRecordsData(t *testing.T) {
	var r recordsFile
	r.record(format.TypeHeaderAttr, 0, 0, uint32(1), uint32(64), zeros("\x03", 56), uint64(30))
	r.record(format.TypeHeaderTracing, 0, 0, uint32(0))
	r.kernel()
	r.user()
	want := r.write(t)
	file := filepath.Join("..", "..", "testdata", "records.data")
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from this test's output: -update regenerates it", file)
	}
}

// gperf dumps and reports a record that it cannot decode.
func TestDumpOfDamage(t *testing.T) {
	var r recordsFile
	r.record(format.TypeIDIndex, 0, 0, uint64(4096))
	r.record(format.TypeFinishedRound, 0, 0)
	file := filepath.Join(t.TempDir(), "damaged.data")
	if err := os.WriteFile(file, r.write(t), 0o644); err != nil {
		t.Fatal(err)
	}
	got, stderr := gperf(t, "script", "-D", "-i", file)
	const damage = "ID_INDEX (69) record of 16 bytes is too short for its fields (nr 4096)"
	if !strings.Contains(got, damage) || !strings.Contains(got, "PERF_RECORD_FINISHED_ROUND\n") ||
		!strings.Contains(got, ".  0000:  45 00 00 00 00 00 10 00 00 10 00") {
		t.Error(got)
	}
	if !strings.Contains(stderr, damage) {
		t.Errorf("on stderr: %s", stderr)
	}
}

// Lines for records are perf's, whichever are asked for.
func TestShownRecordsEqualPerfsAlone(t *testing.T) {
	o := needOracle(t)
	if o.compat != "7.3" {
		t.Skipf("the lines are those of perf 7.3; perf is %s here ($PERF names another)", o.version)
	}
	r := recordsFile{safe: true}
	r.kernel()
	made := filepath.Join(t.TempDir(), "records.data")
	if err := os.WriteFile(made, r.write(t), 0o644); err != nil {
		t.Fatal(err)
	}
	recorded := recordedBy(t, o, "sideband", []string{"-a", "-e", "cpu-clock", "--switch-events", "--namespaces", "--",
		"bash", "-c", "for i in 1 2 3; do ls / >/dev/null; done"})
	var all, args []string
	var cases [][]string
	for _, f := range shownRecords {
		cases = append(cases, []string{"--" + f.name})
		if all = append(all, "--"+f.name); f.name != "show-round-events" {
			args = append(args, "--"+f.name)
		}
	}
	cases = append(cases, args, all, append(slices.Clone(args), "-C", "1", "-F", "+misc"),
		append(slices.Clone(args), "--ns", "--tid", "1"))
	for _, file := range []string{made, recorded} {
		for _, c := range cases {
			line := slices.Concat([]string{"script", "--no-inline", "-i", file, "-G"}, c)
			want, err := o.run(t, line...)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := gperf(t, line...)
			sameText(t, strings.Join(line, " "), got, want)
		}
	}
	if shown, _ := gperf(t, append([]string{"script", "-i", made}, all...)...); strings.Count(shown,
		"PERF_RECORD_") != 20 {
		t.Errorf("not every record is shown:\n%s", shown)
	}
}

// The counts of records are perf's.
func TestStatsEqualPerfsAlone(t *testing.T) {
	o := needOracle(t)
	if o.compat != "7.3" {
		t.Skipf("the counts are set as by perf 7.3; perf is %s here ($PERF names another)", o.version)
	}
	for _, r := range recordings[:2] {
		file := recordedBy(t, o, r.name, r.args)
		want, err := o.run(t, "report", "--stats", "--stdio", "-i", file)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := gperf(t, "report", "--stats", "-i", file)
		sameText(t, r.name, got, want)
	}
}

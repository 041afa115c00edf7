package main

import (
	encoding "encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gperf/format"
)

// made are recordings that no machine at hand makes: each shows one feature of
// perf's format, and gperf must print it as perf does.
var made = []struct {
	name   string
	attrs  []format.Attr
	data   func() []byte
	fields []string // of -F; "" for the usual ones
}{
	{"what BPF programs write", []format.Attr{{Type: format.TypeSoftware, Config: 10, SamplePeriod: 1, SampleType: usual | format.SampleRaw, IDs: []uint64{7}}},
		func() (b []byte) {
			for i, text := range []string{"hello\x00", "perf\x00bad\x00", "0123456789abcdefghij\x00\x00\x00\x00", "\x01\x02\xff", "no end"} {
				raw := encoding.LittleEndian.AppendUint32(nil, uint32(len(text)))
				raw = append(raw, text...)
				for len(raw)%8 != 0 {
					raw = append(raw, 0)
				}
				b = append(b, sampleOf(format.MiscUser, uint64(i), raw)...)
			}
			return b
		}, []string{"", "comm,bpf-output,time", "time,ip"}},

	{"a group that is read", []format.Attr{
		{Type: format.TypeHardware, SamplePeriod: 100, SampleType: usual | format.SampleRead | format.SampleID, ReadFormat: format.ReadGroup | format.ReadID | format.ReadTotalTimeEnabled, IDs: []uint64{7}},
		{Type: format.TypeHWCache, Config: 0x10000, SampleType: usual | format.SampleRead | format.SampleID, ReadFormat: format.ReadGroup | format.ReadID | format.ReadTotalTimeEnabled, IDs: []uint64{8}, Flags: format.FlagExcludeKernel}},
		func() (b []byte) {
			for i, values := range [][2]uint64{{100, 3}, {200, 3}, {300, 10}, {300, 11}} {
				b = append(b, readSample(uint64(i), 2, 1000, values[0], 7, values[1], 8)...)
			}
			return append(b, readSample(9, 1, 1000, 5, 99)...) // a counter of no event
		}, []string{"", "event,period"}},

	{"counters by thread", []format.Attr{{Type: format.TypeRaw, Config: 0x1c2, SamplePeriod: 100, SampleType: usual | format.SampleRead | format.SampleID, Flags: format.FlagInherit.WithPreciseIP(2),
		ReadFormat: format.ReadID | format.ReadTotalTimeEnabled | format.ReadTotalTimeRunning | format.ReadLost, IDs: []uint64{7}}},
		func() (b []byte) {
			for i, value := range []uint64{100, 150, 150, 400} {
				b = append(b, readSample(uint64(i), value, 1, 1, 7, 0)...)
			}
			return b
		}, []string{"", "event,period"}},

	{"call stacks of LBR", []format.Attr{{Type: format.TypeHardware, SamplePeriod: 100, SampleType: usual | format.SampleCallchain | format.SampleBranchStack, BranchSampleType: 1<<11 | 1<<17, IDs: []uint64{7}}},
		func() (b []byte) {
			chain := u64s(6, format.ContextKernel, 0xffffffff81000010, 0xffffffff81000020, format.ContextUser, 0x400100, 0x400200)
			stack := u64s(2, 31, 0x400300, 0x400310, 1<<1, 0x400400, 0x400410, 1|20<<4)
			b = append(b, sampleOf(format.MiscKernel, 1, chain, stack)...)
			kernelOnly := u64s(2, format.ContextKernel, 0xffffffff81000010)
			b = append(b, sampleOf(format.MiscKernel, 2, kernelOnly, stack)...)
			damaged := u64s(3, format.ContextKernel, 1<<64-77, format.ContextUser)
			return append(b, sampleOf(format.MiscKernel, 3, damaged, stack)...)
		}, []string{"", "+brstack", "brstackoff,ip,dso", "brstacksym,ip,sym,dsoff", "ip,dsoff"}},

	{"damaged chains", []format.Attr{{Type: format.TypeBreakpoint, BPType: 3, Config1: 0x601040, SamplePeriod: 1, SampleType: usual | format.SampleCallchain, IDs: []uint64{7}}},
		func() (b []byte) {
			b = append(b, sampleOf(format.MiscUser, 1, u64s(4, format.ContextKernel, 0xffffffff81000010, 1<<64-5, 0x400100))...)
			long := u64s(300)
			for i := range uint64(300) {
				long = append(long, u64s(0x400000+i)...)
			}
			b = append(b, sampleOf(format.MiscUser, 2, long)...)
			return append(b, sampleOf(format.MiscUser, 3, u64s(0))...)
		}, []string{""}},

	{"chains of all contexts", []format.Attr{{Type: format.TypeSoftware, Config: 3, SamplePeriod: 1, SampleType: usual | format.SampleCallchain, IDs: []uint64{7}}},
		func() (b []byte) {
			for i, mark := range []uint64{format.ContextHV, format.ContextKernel, format.ContextUser, format.ContextGuest, format.ContextGuestKernel, format.ContextGuestUser, 1<<64 - 640} {
				b = append(b, sampleOf(format.MiscUser, uint64(i), u64s(2, mark, 0x400100))...)
				b = append(b, sampleOf(format.MiscUser, uint64(i), u64s(5, mark, 0x400200, 0xffffffff81000010, format.ContextUser, 0x400100))...)
			}
			return b
		}, []string{""}},

	{"user frames that come later", []format.Attr{{Type: format.TypeSoftware, SamplePeriod: 1, SampleType: usual | format.SampleCallchain, Flags: format.FlagSampleIDAll | 3<<38, IDs: []uint64{7}}}, // defer_callchain, defer_output
		func() (b []byte) {
			later := func(n, cookie uint64, chain ...uint64) []byte {
				r := sample(format.MiscUser, u64s(cookie, uint64(len(chain))), u64s(chain...), pidTID(10, 10), u64s(1000+n*1000))
				r[0] = byte(format.TypeCallchainDeferred)
				return r
			}
			const deferred = 1<<64 - 640
			for n := range uint64(6) { // cookies 77, 78, 79, twice each
				b = append(b, sampleOf(format.MiscKernel, n, u64s(4, format.ContextKernel, 0xffffffff81000010, deferred, 77+n/2))...)
			}
			b = append(b, sampleOf(format.MiscUser, 6, u64s(2, format.ContextUser, 0x400200))...)
			b = append(b, later(7, 79, format.ContextUser, 0x400300, 0x400400)...)
			b = append(b, later(8, 79, format.ContextUser, 0x400500)...)
			b = append(b, sampleOf(format.MiscKernel, 9, u64s(4, format.ContextKernel, 0xffffffff81000010, deferred, 80))...)
			return append(b, sampleOf(format.MiscUser, 10, u64s(2, format.ContextUser, 0x400200))...)
		}, []string{""}},

	{"a call through NULL", []format.Attr{{Type: format.TypeSoftware, Config: 2, SamplePeriod: 1, SampleType: usual | format.SampleCallchain | format.SampleRegsUser | format.SampleStackUser,
		SampleRegsUser: 1<<7 | 1<<8, SampleStackUser: 16, IDs: []uint64{7}}}, // sp and ip
		func() (b []byte) {
			for n, ip := range []uint64{0, 0x400100} {
				stack := u64s(16, 0x400200, 0, 16)
				b = append(b, sample(format.MiscUser, u64s(ip), pidTID(10, 10), u64s(1000+uint64(n)*1000, 0), u64s(2, 0x7fff0000, ip), stack)...)
			}
			return b
		}, []string{""}},

	{"branches one by one", []format.Attr{{Type: format.TypeHardware, Config: 4, SamplePeriod: 1, SampleType: usual | format.SampleAddr, IDs: []uint64{7}}},
		func() (b []byte) {
			return sample(format.MiscUser, u64s(0x400100), pidTID(10, 10), u64s(1000, 0x400200))
		}, []string{"", "ip,sym", "ip,addr,dso"}},

	{"a thread with two processes", []format.Attr{{Type: format.TypeSoftware, SamplePeriod: 1, SampleType: usual, IDs: []uint64{7}}},
		func() (b []byte) {
			b = append(b, sample(format.MiscUser, u64s(0x400100), pidTID(10, 10), u64s(1))...)
			b = append(b, sample(format.MiscUser, u64s(0x400100), pidTID(11, 10), u64s(2))...)
			return append(b, sample(format.MiscUser, u64s(0x400100), pidTID(0, 0), u64s(3))...)
		}, []string{"", "comm,pid,tid,misc,time,ip,dso"}},
}

const usual = format.SampleIP | format.SampleTID | format.SampleTime

func u64s(v ...uint64) (b []byte) {
	for _, w := range v {
		b = encoding.LittleEndian.AppendUint64(b, w)
	}
	return b
}

func pidTID(pid, tid uint32) []byte { return u64s(uint64(tid)<<32 | uint64(pid)) }

func sample(misc format.Misc, parts ...[]byte) []byte {
	b := make([]byte, 8)
	for _, p := range parts {
		b = append(b, p...)
	}
	encoding.LittleEndian.PutUint32(b, uint32(format.TypeSample))
	encoding.LittleEndian.PutUint16(b[4:], uint16(misc))
	encoding.LittleEndian.PutUint16(b[6:], uint16(len(b)))
	return b
}

// sampleOf is a sample of the usual parts and others, n microseconds after the
// first.
func sampleOf(misc format.Misc, n uint64, parts ...[]byte) []byte {
	return sample(misc, append([][]byte{u64s(0x400100), pidTID(10, 10), u64s(1000 + n*1000)}, parts...)...)
}

// readSample is a sample with counters' values.
func readSample(n uint64, values ...uint64) []byte {
	return sample(format.MiscUser, u64s(0x400100), pidTID(10, 10), u64s(1000+n*1000, 7), u64s(values...))
}

func TestMadeRecordingsEqualPerfs(t *testing.T) {
	empty := t.TempDir()
	for _, m := range made {
		t.Run(m.name, func(t *testing.T) {
			file := makeRecording(t, "x86_64", m.attrs, m.data())
			for _, fields := range m.fields {
				args := []string{"script", "-f", "--no-inline", "--symfs", empty, "-i", file}
				if fields != "" {
					args = append(args, "-F", fields)
				}
				want := perfPrints(t, fields, args...)
				if strings.TrimSpace(want) == "" {
					t.Errorf("perf prints nothing of fields %q", fields)
				}
				got, _ := gperf(t, args...)
				sameText(t, fields, got, want)
			}
		})
	}
}

// Copied stacks of 32-bit Arm programs contain the sampled address, on machines of 32 and 64 bits, and stderr says why
// not more.
func TestMadeStacksOfArm(t *testing.T) {
	for arch, mask := range map[string]uint64{"armv7l": 1<<13 | 1<<15, "aarch64": 1<<31 | 1<<32} { // sp and pc
		attrs := []format.Attr{{Type: format.TypeSoftware, SamplePeriod: 1, SampleRegsUser: mask, SampleStackUser: 16,
			SampleType: usual | format.SampleCallchain | format.SampleRegsUser | format.SampleStackUser, IDs: []uint64{7}}}
		const abi32 = 1
		file := makeRecording(t, arch, attrs, sampleOf(format.MiscKernel, 1, u64s(2, format.ContextKernel, 0xc0008000),
			u64s(abi32, 0x7fff0000, 0x400123), u64s(16, 0x400200, 0, 16)))
		out, stderr := gperf(t, "script", "--symfs", t.TempDir(), "-i", file, "-F", "ip")
		if got := strings.Fields(out); !slices.Equal(got, []string{"c0008000", "400123"}) {
			t.Errorf("%s: %q", arch, out)
		}
		if want := "1 stacks of 32-bit Arm programs have only the sampled function"; !strings.Contains(stderr, want) {
			t.Errorf("%s: %q, want %s", arch, stderr, want)
		}
	}
}

// makeRecording writes a recording of a process with one file mapped.
func makeRecording(t *testing.T, arch string, attrs []format.Attr, samples []byte,
	sections ...format.Section) (path string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "perf.data"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sections = append([]format.Section{format.StringSection(format.FeatureArch, arch)}, sections...)
	w, err := format.NewWriter(f, attrs, sections)
	if err != nil {
		t.Fatal(err)
	}
	id := attrs[0].SampleIDSize()
	comm := format.Comm{PID: 10, TID: 10, Comm: "made"}
	m := format.Mmap{V2: true, Misc: format.MiscUser, PID: 10, TID: 10, Start: 0x400000, Len: 0x1000,
		Prot: format.ProtExec, Filename: "/bin/made"}
	if err := w.Write(append(m.Append(comm.Append(nil, id), id), samples...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

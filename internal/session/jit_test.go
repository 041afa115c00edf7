package session

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/symbolize"
)

// writeJITDump writes a dump in which the function "first" lies at 0x1000 from time 10 on, and "second" over the
// end of "first" from 20 on.
func writeJITDump(t *testing.T, path string) {
	t.Helper()
	le := binary.LittleEndian
	b := make([]byte, 40)
	copy(b, "DTiJ")
	le.PutUint32(b[8:], 40)
	load := func(time, start uint64, name string) {
		r := le.AppendUint32(make([]byte, 4), uint32(56+len(name)+1))
		r = append(le.AppendUint64(r, time), make([]byte, 16)...)
		r = le.AppendUint64(le.AppendUint64(le.AppendUint64(r, start), 0x100), time)
		b = append(append(append(b, r...), name...), 0)
	}
	load(10, 0x1000, "first")
	load(20, 0x1080, "second")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Code that a process generates is named by the dump from the time of the dump's record on if the clocks agree,
// otherwise all the time.
func TestJITDump(t *testing.T) {
	root := t.TempDir()
	writeJITDump(t, filepath.Join(root, "dumps/jit-7.dump"))
	for _, tc := range []struct {
		clock int32
		time  uint64
		want  map[uint64]string
	}{
		{clockMonotonic, 9, map[uint64]string{0x1010: "[unknown]", 0x1090: "[unknown]"}},
		{clockMonotonic, 10, map[uint64]string{0x1010: "first", 0x1090: "first", 0x1100: "[unknown]"}},
		{clockMonotonic, 20, map[uint64]string{0x1010: "first", 0x1090: "second", 0x1100: "second", 0x1180: "[unknown]"}},
		{0, 9, map[uint64]string{0x1010: "first", 0x1090: "second"}},
	} {
		attrs := []format.Attr{{Flags: format.FlagUseClockID, ClockID: tc.clock}}
		s := New(Options{
			File:    &format.File{Order: format.LittleEndian, Attrs: attrs},
			Symbols: symbolize.New(symbolize.Options{Locator: &dso.Locator{Tree: dso.Tree{Root: root}}}),
		})
		s.Apply(mmapOf(7, 0, 0x10000, 0, "//anon"))
		s.Apply(mmapOf(7, 0x20000, 0x1000, 0, "/dumps/jit-7.dump"))
		s.machine.jitUntil(tc.time)
		fs := newFrames(s.machine, &WalkOptions{})
		for ip, want := range tc.want {
			frame := fs.user(s.machine.thread(7, 7).space.maps, ip, false)
			if frame.Symbol() != want || want != "[unknown]" && frame.Off() != frame.IP-frame.Sym().Start {
				t.Errorf("clock %d, time %d, at %#x: %s+%#x, want %s",
					tc.clock, tc.time, ip, frame.Symbol(), frame.Off(), want)
			}
		}
		if other := fs.user(s.machine.thread(8, 8).space.maps, 0x1010, false); other.Map != nil {
			t.Errorf("another process has it too: %+v", other.Map)
		}
	}
}

// perf treats named memory as a DSO; code in it is named like code in unnamed memory.
func TestNamedMemory(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(root+"/tmp", 0o755); err != nil {
		t.Fatal(err)
	}
	perfMap := []byte("1000 100 made up\n21000 100 of huge pages\n")
	if err := os.WriteFile(root+"/tmp/perf-7.map", perfMap, 0o644); err != nil {
		t.Fatal(err)
	}
	s := New(Options{
		File:    &format.File{Order: format.LittleEndian, Attrs: make([]format.Attr, 1)},
		Symbols: symbolize.New(symbolize.Options{Locator: &dso.Locator{Tree: dso.Tree{Root: root}}}),
	})
	s.Apply(mmapOf(7, 0x1000, 0x1000, 0x3000, "/memfd:doublemapper (deleted)"))
	s.Apply(mmapOf(8, 0x1000, 0x1000, 0x3000, "/memfd:doublemapper (deleted)"))
	huge := mmapOf(7, 0x20000, 0x2000, 0, "/huge/file")
	huge.Flags = format.MapHugeTLB
	s.Apply(huge)
	fs := newFrames(s.machine, &WalkOptions{})
	for _, tc := range []struct {
		pid       int32
		ip        uint64
		name, dso string
	}{
		{7, 0x1010, "made up", "/memfd:doublemapper (deleted)"},
		{8, 0x1010, "[unknown]", "/memfd:doublemapper (deleted)"},
		{7, 0x21010, "of huge pages", "/tmp/perf-7.map"},
	} {
		f := fs.user(s.machine.thread(tc.pid, tc.pid).space.maps, tc.ip, false)
		if f.Symbol() != tc.name || f.DSO() != tc.dso {
			t.Errorf("process %d at %#x: %s (%s), want %s (%s)", tc.pid, tc.ip, f.Symbol(), f.DSO(), tc.name, tc.dso)
		}
	}
}

// The lines of BPF programs' frames are from the recording.
func TestBPFLines(t *testing.T) {
	const at = 0xffffffffc0001000
	s := newSession()
	s.machine.bpfLines = func() []format.BPFLine {
		return []format.BPFLine{
			{IP: at - 8, File: "before.c", Line: 1},
			{IP: at, File: "a.c", Line: 7},
			{IP: at + 8, File: "a.c", Line: 9},
			{IP: at + 64, File: "after.c", Line: 1},
		}
	}
	s.Apply(&format.KSymbol{Addr: at, Len: 64, Type: 1, Name: "bpf_prog_0102030405060708_f"})
	s.Apply(&format.KSymbol{Addr: at + 0x1000, Len: 64, Type: 1, Name: "bpf_prog_1111111111111111_g"})
	fs := newFrames(s.machine, &WalkOptions{})
	for ip, want := range map[uint64]string{at: "a.c:7", at + 7: "a.c:7", at + 63: "a.c:9", at + 0x1000: ":0"} {
		f := fs.kernel(ip, false, nil)
		line := ":0"
		if calls := f.Calls(); len(calls) > 0 {
			line = fmt.Sprintf("%s:%d", calls[0].File, calls[0].Line)
		}
		if line != want || !strings.HasPrefix(f.Symbol(), "bpf_prog_") {
			t.Errorf("at %#x: %s at %s, want %s", ip, f.Symbol(), line, want)
		}
	}
}

// TestCallersOfPerf: a caller is the function of the call, which may end where another function starts. In perf's text
// it is the one at the return address, unless gperf made the recording.
func TestCallersOfPerf(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	perfMap := []byte("10000 10 dies\n10010 10 next\n")
	if err := os.WriteFile(filepath.Join(root, "tmp", "perf-7.map"), perfMap, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		by               string
		asPerf, isReturn bool
		name             string
		off              uint64
	}{
		{"6.1", true, true, "next", 0},
		{"6.1", false, true, "dies", 0x10},
		{"6.1", false, false, "next", 0},
		{"gperf 1", true, true, "dies", 0x10},
		{"gperf 1", true, false, "next", 0},
	} {
		f := &format.File{Order: format.LittleEndian, Sections: map[format.Feature][]byte{
			format.FeatureVersion: append([]byte{byte(len(tc.by) + 1), 0, 0, 0}, tc.by+"\x00"...)}}
		s := New(Options{File: f,
			Symbols: symbolize.New(symbolize.Options{Locator: &dso.Locator{Tree: dso.Tree{Root: root}}})})
		s.Apply(mmapOf(7, 0x10000, 0x1000, 0, "//anon"))
		fs := newFrames(s.machine, &WalkOptions{AsPerf: tc.asPerf})
		got := fs.user(s.machine.thread(7, 7).space.maps, 0x10010, tc.isReturn)
		if got.Symbol() != tc.name || got.Off() != tc.off {
			t.Errorf("%+v: %s+%#x", tc, got.Symbol(), got.Off())
		}
	}
}

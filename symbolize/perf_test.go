package symbolize

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/dso"
)

func writeLE(w io.Writer, data any) error { return binary.Write(w, binary.LittleEndian, data) }

// perfData makes a perf.data file of a process that maps path from offset 0 on at
// base, with one sample of cpu-clock at each of the offsets, at 1 µs, 2 µs, …
func perfData(path string, base uint64, offs []uint64) []byte {
	const (
		headerSize, attrSize                   = 104, 128
		typeComm, typeSample, typeMmap2        = 3, 9, 10
		user                                   = 2 // PERF_RECORD_MISC_USER
		sampleIP, sampleTID, sampleTime        = 1, 2, 4
		pid, software                   uint32 = 1, 1
	)
	var data bytes.Buffer
	record := func(kind uint32, misc uint16, fields ...any) {
		var b bytes.Buffer
		for _, f := range fields {
			if err := writeLE(&b, f); err != nil {
				panic(err)
			}
		}
		b.Write(make([]byte, -b.Len()&7))
		writeLE(&data, struct {
			Type       uint32
			Misc, Size uint16
		}{kind, misc, uint16(8 + b.Len())})
		data.Write(b.Bytes())
	}
	record(typeComm, 0, pid, pid, []byte("test\x00\x00\x00\x00"))
	record(typeMmap2, user, pid, pid, base, uint64(1)<<40, uint64(0), [6]uint32{}, uint32(5),
		uint32(2), []byte(path+"\x00"))
	for i, off := range offs {
		record(typeSample, user, base+off, pid, pid, uint64(i+1)*1000)
	}
	attr := make([]byte, attrSize)
	binary.LittleEndian.PutUint32(attr, software)
	binary.LittleEndian.PutUint32(attr[4:], attrSize)
	binary.LittleEndian.PutUint64(attr[16:], 1)
	binary.LittleEndian.PutUint64(attr[24:], sampleIP|sampleTID|sampleTime)
	var file bytes.Buffer
	file.WriteString("PERFILE2")
	const dataAt = headerSize + attrSize + 16
	writeLE(&file, []uint64{headerSize, attrSize + 16, headerSize, attrSize + 16, dataAt,
		uint64(data.Len()), 0, 0, 0, 0, 0, 0})
	file.Write(attr)
	file.Write(make([]byte, 16))
	file.Write(data.Bytes())
	return file.Bytes()
}

// Perf itself is the oracle. GPERF_TEST_PERF names the command, by default perf;
// before version 7 it chose and demangled many symbols differently, so then only a
// program is compared whose symbols all have sizes, go, and without demangling.
func TestAgainstPerf(t *testing.T) {
	perf := strings.Fields(os.Getenv("GPERF_TEST_PERF"))
	if len(perf) == 0 {
		perf = []string{"perf"}
	}
	version, err := exec.Command(perf[0], append(perf[1:], "--version")...).Output()
	if err != nil {
		t.Skip("perf is not installed (package linux-perf): ", err)
	}
	small := filepath.Join(t.TempDir(), "small")
	if err := os.WriteFile(small, testELF(), 0o755); err != nil {
		t.Fatal(err)
	}
	var paths []string
	if path, err := exec.LookPath("go"); err == nil {
		paths = append(paths, path)
	}
	var major int
	if fmt.Sscanf(string(version), "perf version %d.", &major); major >= 7 {
		paths = append(paths, small)
		for _, pattern := range []string{"/lib/*-linux-gnu/libc.so.6", "/lib/*-linux-gnu/libstdc++.so.6",
			"/lib/*-linux-gnu/ld-linux-*", "/usr/bin/git", "/bin/bash"} {
			found, _ := filepath.Glob(pattern)
			paths = append(paths, found...)
		}
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { compareWithPerf(t, perf, path, major >= 7) })
	}
	if major >= 7 {
		t.Run("gnu_debugdata", func(t *testing.T) { compareWithPerf(t, perf, miniProgram(t), true) })
	}
}

func compareWithPerf(t *testing.T, perf []string, path string, everything bool) {
	s := New(Options{Demangle: everything})
	d := s.userSymbols.dso(path, dso.BuildID{})
	if d.err != nil {
		t.Skip(d.err)
	}
	offs := []uint64{0, 1, 0x40}
	for i := range d.table.entries {
		e := &d.table.entries[i]
		offs = append(offs, e.start, e.start+(e.end-e.start)/2, e.end-1)
		if everything {
			offs = append(offs, e.start-1, e.start+1, e.end)
		}
	}
	const base, most = 0x100000000, 40_000
	if step := len(offs)/most + 1; step > 1 {
		for i := range len(offs) / step {
			offs[i] = offs[i*step+i%step]
		}
		offs = offs[:len(offs)/step]
	}
	data := filepath.Join(t.TempDir(), "perf.data")
	if err := os.WriteFile(data, perfData(path, base, offs), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append(perf[1:], "script", "--no-inline", "-i", data, "-F", "time,ip,sym,symoff")
	if !everything {
		args = append(args, "--no-demangle")
	}
	out, err := exec.Command(perf[0], args...).Output()
	if err != nil {
		t.Skip("perf script: ", err)
	}
	compared, differ := 0, 0
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		when, rest, ok := strings.Cut(strings.TrimSpace(sc.Text()), ":")
		var sec, usec int
		if _, err := fmt.Sscanf(when, "%d.%d", &sec, &usec); !ok || err != nil || usec < 1 || usec > len(offs) {
			continue
		}
		_, want, _ := strings.Cut(strings.TrimSpace(rest), " ")
		want = strings.TrimSpace(want)
		off, got := offs[usec-1], "[unknown]"
		if sym, offset, why := s.User(path, dso.BuildID{}, off); why == Found {
			got = fmt.Sprintf("%s+0x%x", sym.Name, offset)
		}
		compared++
		if got != want {
			if differ++; differ <= 10 {
				t.Errorf("at off %#x: %s, perf says %s", off, got, want)
			}
		}
	}
	if compared < len(offs) {
		t.Errorf("perf script printed %d of %d samples", compared, len(offs))
	}
	if differ > 10 {
		t.Errorf("%d of %d addresses differ", differ, compared)
	}
}

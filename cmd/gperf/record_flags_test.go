package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gperf/format"
)

// recordsOf returns the records of a recording, samples not among them, with the event that wrote each.
func recordsOf(t *testing.T, path string) (l []format.Record) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for recs := f.Records(); ; {
		raw, err := recs.Next()
		if errors.Is(err, io.EOF) {
			return l
		}
		if err != nil {
			t.Fatal(err)
		}
		if raw.Type == format.TypeSample {
			continue
		}
		rec, err := f.Record(raw)
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, rec)
	}
}

// A process that maps its code on a CPU that is not recorded may run on one that is.
func TestRecordSideBandOfOtherCPUs(t *testing.T) {
	needTracepoints(t)
	if _, err := os.Stat("/sys/devices/system/cpu/cpu1/online"); err != nil {
		t.Skip("there is one CPU only")
	}
	for _, stacks := range []string{"no", "fp", "dwarf"} {
		t.Run(stacks, func(t *testing.T) {
			dir := t.TempDir()
			mustRecord(t, dir, "-e", "cpu-clock", "-C", "0", "--call-graph", stacks, "--", "taskset", "-c", "1", "true")
			mapped := 0
			for _, rec := range recordsOf(t, filepath.Join(dir, "perf.data")) {
				if m, ok := rec.(*format.Mmap); ok && m.ID.CPU == 1 && m.ID.Time != 0 && filepath.Base(m.Filename) == "true" {
					mapped++
				}
			}
			if mapped == 0 {
				t.Error("no record of what was mapped on CPU 1")
			}
		})
	}
}

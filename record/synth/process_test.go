package synth

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"testing"

	"gperf/format"
	"gperf/internal/procfs"
)

// forks returns the pids of the FORK records of processes, and the number of a process's MMAP2
// records.
func forks(b []byte, pid int32) (pids []int, maps int) {
	for len(b) >= format.HeaderSize {
		size := int(binary.LittleEndian.Uint16(b[6:]))
		raw := format.Raw{Type: format.Type(binary.LittleEndian.Uint32(b)), Data: b[format.HeaderSize:size]}
		rec, err := format.ParseRecord(raw, 0)
		if err != nil {
			return nil, 0
		}
		switch rec := rec.(type) {
		case *format.Fork:
			if rec.PID == rec.TID {
				pids = append(pids, int(rec.PID))
			}
		case *format.Mmap:
			if rec.PID == pid {
				maps++
			}
		}
		b = b[size:]
	}
	return pids, maps
}

// TestProcesses checks that the records of many processes have the order of their pids,
// although several goroutines read them.
func TestProcesses(t *testing.T) {
	running, err := procfs.Processes()
	if err != nil {
		t.Fatal(err)
	}
	self := os.Getpid()
	var pids []int
	for range 5 { // more than one goroutine reads at once
		pids = append(pids, running[:min(len(running), 100)]...)
		pids = append(pids, self)
	}
	var b []byte
	files := map[string]bool{}
	s := New(Options{Files: files, Out: func(p []byte) error { b = append(b, p...); return nil }})
	done := 0
	for n, err := range s.Processes(pids) {
		if err != nil {
			t.Fatal(err)
		}
		files["written meanwhile"] = true
		done = n
	}
	if err := s.Flush(1); err != nil {
		t.Fatal(err)
	}
	got, maps := forks(b, int32(self))
	if done != len(pids) || maps < 5 || !slices.Contains(got, self) {
		t.Errorf("%d of %d processes, %d mappings of this one", done, len(pids), maps)
	}
	if exe, err := os.Readlink("/proc/self/exe"); err != nil || !files[exe] {
		t.Errorf("%s is not among the mapped files: %v", exe, files)
	}
	for rest := pids; len(got) > 0; got = got[1:] { // others have exited
		i := slices.Index(rest, got[0])
		if i < 0 {
			t.Fatalf("process %d comes too late", got[0])
		}
		rest = rest[i+1:]
	}
	full := errors.New("disk full")
	s = New(Options{Out: func([]byte) error { return full }})
	const many = 1000 // a process has at least two records, so that they are written before the last process
	for done, err = range s.Processes(slices.Repeat([]int{self}, many)) {
	}
	if err != full || done == many {
		t.Errorf("after %d processes, although records cannot be written: %v", done, err)
	}
}

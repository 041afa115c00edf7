package format

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// numbered returns a file of samples. The raw data of each sample is n bytes that contain
// its time. The times come from two rings, copied one after the other in rounds of a
// fixed number of samples.
func numbered(t testing.TB, samples, n, round int) *memFile {
	t.Helper()
	m := &memFile{}
	w, err := NewWriter(m, testAttrs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for first := 1; first <= samples; first += round {
		for ring := range 2 {
			for time := first + ring; time < first+round; time += 2 {
				raw := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, uint64(time)), n/8)
				b = appendTestSample(b, 10, uint64(time), nil, raw)
			}
		}
		b = AppendMark(b, TypeFinishedRound)
	}
	if err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	return m
}

// readNumbered reads records up to the end or up to the given number of samples. It checks
// their data and their order, and returns how many it read.
func readNumbered(t *testing.T, f *File, r *Reader, samples int) (n int) {
	t.Helper()
	for last := uint64(0); n < samples; {
		raw, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if raw.Type != TypeSample {
			continue
		}
		n++
		var s Sample
		if err := f.Sample(raw, &s); err != nil {
			t.Fatal(err)
		}
		for b := s.Raw; len(b) >= 8; b = b[8:] {
			if got := binary.LittleEndian.Uint64(b); got != s.Time {
				t.Fatalf("the sample of time %d has data of %d", s.Time, got)
			}
		}
		if s.Time <= last {
			t.Fatalf("the sample of time %d comes after that of %d", s.Time, last)
		}
		last = s.Time
		raw.Release()
	}
	return n
}

// TestChunks checks that samples keep their data until Release, even if the pending
// samples exceed the memory limit.
func TestChunks(t *testing.T) {
	for _, test := range []struct {
		name                 string
		samples, size, round int
	}{
		{"samples across chunks", 20000, 1000, 500},
		{"samples larger than the rest of a chunk", 200, 60000, 20},
		{"a round larger than maxHeld", 2 * maxHeld / 60000, 60000, 2 * maxHeld / 60000},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := numbered(t, test.samples, test.size, test.round).open(t)
			r := f.Records()
			if n := readNumbered(t, f, r, 1<<30); n != test.samples || r.Late > 0 || r.Skipped.Count > 0 {
				t.Errorf("%d samples, %d late, skipped %v; want %d samples", n, r.Late, r.Skipped, test.samples)
			}
		})
	}
}

// TestTruncatedWhileRead truncates a file while a Reader reads it: the samples read before
// count, and the Reader reports the rest.
func TestTruncatedWhileRead(t *testing.T) {
	for _, test := range []struct {
		name        string
		size, round int
		halves      int // remaining halves of the file
	}{
		{"in rounds", 1000, 100, 1},
		{"to nothing", 1000, 100, 0},
		{"in a round larger than maxHeld", 60000, 2 * maxHeld / 60000, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			const samples = 2 * maxHeld / 60000
			path := filepath.Join(t.TempDir(), "perf.data")
			data := numbered(t, samples, test.size, test.round).b
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			fd, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer fd.Close()
			f, err := Open(fd, int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			r := f.Records()
			n := readNumbered(t, f, r, 1)
			if err := os.Truncate(path, int64(test.halves*len(data)/2)); err != nil {
				t.Fatal(err)
			}
			for _, err := r.Next(); err != io.EOF; _, err = r.Next() {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n == 0 || n >= samples || r.Skipped.Count == 0 ||
				!strings.Contains(r.Skipped.First.Error(), "truncated while reading") {
				t.Errorf("%d of %d samples, skipped %v; want some samples, and that the file was truncated", n, samples,
					r.Skipped)
			}
		})
	}
}

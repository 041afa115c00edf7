package session

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gperf/format"
	"gperf/symbolize"
)

func words(v ...uint64) (b []byte) {
	for _, w := range v {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

func record(t format.Type, parts ...[]byte) []byte {
	b := words(uint64(t) | uint64(format.MiscUser)<<32)
	b = append(b, slices.Concat(parts...)...)
	binary.LittleEndian.PutUint16(b[6:], uint16(len(b)))
	return b
}

// walked returns the samples of a recording of these events and records, in the
// order in which they come: "time: frames".
func walked(t *testing.T, attrs []format.Attr, records ...[]byte) (list []string, skipped format.Skipped) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "perf.data"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w, err := format.NewWriter(out, attrs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(slices.Concat(records...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(out, w.Size())
	if err != nil {
		t.Fatal(err)
	}
	session := New(Options{File: f, Symbols: symbolize.New(symbolize.Options{Kallsyms: "testdata/none"})})
	skipped, err = session.Walk(WalkOptions{}, func(b *Batch) error {
		for i := range b.Samples {
			s := &b.Samples[i]
			text := fmt.Sprintf("%d/%d:", s.Time, s.Event)
			for i := range s.Chain.Len() {
				f := s.Chain.Frame(i)
				text += fmt.Sprintf(" %x", f.IP)
				if name := f.Symbol(); name != "[unknown]" {
					text += name
				}
			}
			list = append(list, fmt.Sprintf("%s %d", text, s.Period))
		}
		b.Release()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list, skipped
}

func pidTID(pid, tid uint32) []byte { return words(uint64(tid)<<32 | uint64(pid)) }

// Samples whose user frames come later wait for them.
func TestDeferredCallchains(t *testing.T) {
	attr := format.Attr{Type: format.TypeSoftware, SamplePeriod: 1,
		SampleType: format.SampleTID | format.SampleTime | format.SampleCallchain,
		Flags:      format.FlagSampleIDAll | format.FlagDeferCallchain, IDs: []uint64{7}}
	sample := func(tid uint32, time uint64, chain ...uint64) []byte {
		return record(format.TypeSample, pidTID(10, tid), words(time), words(uint64(len(chain))), words(chain...))
	}
	later := func(tid uint32, time, cookie, n uint64, chain ...uint64) []byte {
		return record(format.TypeCallchainDeferred, words(cookie, n), words(chain...), pidTID(10, tid), words(time))
	}
	const kernel, user, deferred = format.ContextKernel, format.ContextUser, format.ContextUserDeferred
	got, skipped := walked(t, []format.Attr{attr},
		sample(10, 1, kernel, 0x100, deferred, 77),
		sample(11, 2, kernel, 0x200, deferred, 77), // another thread's
		sample(10, 3, kernel, 0x300, deferred, 78),
		sample(10, 4, user, 0x400),
		later(10, 5, 78, 3, user, 0x1, 0x2),
		later(10, 6, 78, 2, user, 0x3), // no sample waits for it
		later(10, 7, 78, 1<<61, user, 0x3),
		sample(10, 8, kernel, 0x500, 1<<64-77, deferred, 79),
		sample(10, 9, deferred, 80),
	)
	want := []string{"4/0: 400 1", "1/0: 100 4d 1", "3/0: 300 1 2 1", "2/0: 200 4d(cookie) 1",
		"8/0: 1", "9/0: 50(cookie) 1"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if skipped.Count != 1 {
		t.Errorf("%d records were skipped, want the one that is too short: %v", skipped.Count, skipped.First)
	}
}

// The sample of a group becomes one sample for each event that advanced.
func TestGroupReads(t *testing.T) {
	const rf = format.ReadGroup | format.ReadID
	const st = format.SampleTID | format.SampleTime | format.SampleID | format.SampleRead
	attrs := []format.Attr{{SampleType: st, ReadFormat: rf, IDs: []uint64{7}},
		{Config: 1, SampleType: st, ReadFormat: rf, IDs: []uint64{8}}}
	sample := func(time, n uint64, values ...uint64) []byte {
		return record(format.TypeSample, pidTID(10, 10), words(time, 7, n), words(values...))
	}
	got, _ := walked(t, attrs, sample(1, 2, 100, 7, 5, 8), sample(2, 2, 150, 7, 5, 8),
		sample(3, 3, 150, 7, 9, 8, 4, 99), sample(4, 0))
	if want := []string{"1/0: 100", "1/1: 5", "2/0: 50", "3/1: 4"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

package perfevent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"gperf/format"
)

// fakeRing is a ring whose kernel side is the test.
func fakeRing(size int) *Ring {
	words := make([]uint64, 2)
	return &Ring{words: ringWords(make([]byte, size)), head: &words[0], tail: &words[1]}
}

// put writes a record as the kernel does, wrapping at the end, if it fits, and reports
// whether it did.
func (r *Ring) put(rec []byte) bool {
	if *r.head-*r.tail+uint64(len(rec)) > uint64(len(r.data)) {
		return false
	}
	for i, c := range rec {
		r.data[(*r.head+uint64(i))%uint64(len(r.data))] = c
	}
	*r.head += uint64(len(rec))
	return true
}

func testRecord(typ format.Type, words ...uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(typ)|uint64(8+8*len(words))<<48)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// TestRingDrain passes records of all lengths through a small ring, many times around it: the
// output equals the input, consists of complete records, and is counted.
func TestRingDrain(t *testing.T) {
	r := fakeRing(256)
	tl := Tally{Layout: format.SampleLayout{Time: 0}}
	var in, out []byte
	wrapped, samples, lost := 0, uint64(0), uint64(0)
	for i := range uint64(1000) {
		var rec []byte
		switch i % 5 {
		case 0:
			rec = testRecord(format.TypeLost, 7, i, 0)
			lost += i
		case 1:
			rec = testRecord(format.TypeComm, i, i, i, i, i)
		default:
			rec = testRecord(format.TypeSample, append(make([]uint64, i%4), 1000+i)...)
			binary.LittleEndian.PutUint64(rec[8:], 1000+i)
			samples++
		}
		if !r.put(rec) {
			t.Fatalf("record %d does not fit", i)
		}
		in = append(in, rec...)
		if i%3 != 0 {
			continue
		}
		pieces := 0
		tail := *r.tail
		n, err := r.drain(&tl, func(b []byte) error {
			if *r.tail != tail {
				t.Fatal("the space is released before its bytes are written")
			}
			pieces++
			out = append(out, b...)
			return nil
		})
		if err != nil || n == 0 || *r.tail != *r.head {
			t.Fatalf("drained %d bytes, %v; head %d, tail %d", n, err, *r.head, *r.tail)
		}
		if pieces > 1 {
			wrapped++
		}
	}
	if !bytes.Equal(in, out) {
		t.Error("what came out of the ring is not what went in")
	}
	if wrapped == 0 {
		t.Error("no record wrapped: the test is too small")
	}
	if tl.Samples != samples || tl.Lost != lost || tl.First != 1002 || tl.Last != 1999 {
		t.Errorf("counted %+v; want %d samples, %d lost, times 1002 to 1999", tl, samples, lost)
	}
	if n, err := r.drain(&tl, nil); n != 0 || err != nil {
		t.Errorf("an empty ring: %d, %v", n, err)
	}
}

// TestRingDrainError checks that a failed write keeps its records in the ring, uncounted.
func TestRingDrainError(t *testing.T) {
	r := fakeRing(64)
	tl := Tally{Layout: format.SampleLayout{Time: 0}}
	r.put(testRecord(format.TypeSample, 1))
	full := errors.New("disk full")
	if n, err := r.drain(&tl, func([]byte) error {
		return full
	}); n != 0 || err != full || tl.Samples != 0 || *r.tail != 0 {
		t.Errorf("%d, %v, %+v, tail %d", n, err, tl, *r.tail)
	}
}

// TestTallyBadRecord checks that an invalid header ends the count.
func TestTallyBadRecord(t *testing.T) {
	r := fakeRing(128)
	r.put(testRecord(format.TypeSample, 1))
	r.put(make([]byte, 64))
	r.put(testRecord(format.TypeSample, 2))
	tl := Tally{Layout: format.SampleLayout{Time: 0}}
	tl.count(&r.words, r.Read, *r.head)
	if tl.Samples != 1 {
		t.Errorf("%d samples are counted, want 1", tl.Samples)
	}
}

func TestTallyMapped(t *testing.T) {
	r := fakeRing(512)
	m := format.Mmap{PID: 1, TID: 1, Start: 1, Len: 2, Filename: "/usr/lib/libc.so.6"}
	*r.head = 512 - 64 // the name wraps
	r.Read = *r.head
	*r.tail = *r.head
	if !r.put(m.Append(nil, 24)) {
		t.Fatal("does not fit")
	}
	tl := Tally{Mapped: map[string]bool{}}
	tl.count(&r.words, r.Read, *r.head)
	if len(tl.Mapped) != 1 || !tl.Mapped["/usr/lib/libc.so.6"] {
		t.Errorf("mapped files: %v", tl.Mapped)
	}
}

// TestTallyThrottled checks that the records of throttled counters are counted by id, without their ends.
func TestTallyThrottled(t *testing.T) {
	r := fakeRing(512)
	for _, rec := range [][]byte{testRecord(format.TypeThrottle, 1000, 7, 70),
		testRecord(format.TypeUnthrottle, 2000, 7, 70),
		testRecord(format.TypeThrottle, 3000, 7, 71), testRecord(format.TypeThrottle, 4000, 8, 80),
		testRecord(format.TypeThrottle, 5000)} { // the last is too short
		r.put(rec)
	}
	tl := Tally{Layout: format.SampleLayout{Time: 0}}
	tl.count(&r.words, r.Read, *r.head)
	if len(tl.Throttled) != 2 || tl.Throttled[7] != 2 || tl.Throttled[8] != 1 {
		t.Errorf("throttled: %v", tl.Throttled)
	}
}

func BenchmarkTally(b *testing.B) {
	r := fakeRing(1 << 19)
	rec := testRecord(format.TypeSample, make([]uint64, 42)...)
	for r.put(rec) {
	}
	b.SetBytes(int64(*r.head))
	b.ReportAllocs()
	for b.Loop() {
		tl := Tally{Layout: format.SampleLayout{Time: 0}}
		tl.count(&r.words, r.Read, *r.head)
	}
}

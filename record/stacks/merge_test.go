package stacks

import (
	"encoding/binary"
	"math/rand"
	"slices"
	"testing"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/perfevent"
)

const (
	testOutput = 7 // ids of counters
	testClock  = 8
	testTrace  = 9
)

var testAttrs = map[uint64]format.Attr{
	testClock: {SampleType: format.SampleIdentifier | format.SampleIP | format.SampleTID | format.SampleTime | format.SampleCallchain | format.SamplePeriod,
		Flags: format.FlagExcludeCallchainUser, SamplePeriod: 1},
	testTrace: {SampleType: format.SampleIdentifier | format.SampleIP | format.SampleTID | format.SampleTime | format.SampleRead |
		format.SampleCallchain | format.SampleRaw, ReadFormat: format.ReadGroup | format.ReadID | format.ReadTotalTimeEnabled,
		Flags: format.FlagExcludeCallchainUser, SamplePeriod: 1},
}

func testRecord(typ format.Type, words ...uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(typ)|uint64(8+8*len(words))<<48)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// stackRecord is BPF's output: frames, or with end EndNoTable registers and 8 bytes of stack.
func stackRecord(tid uint64, end bpf.End, frames ...uint64) []byte {
	le := binary.LittleEndian
	stack := uint32(0)
	n := uint32(len(frames))
	if end == bpf.EndNoTable {
		stack, n = 8, 0
		frames = make([]uint64, bpf.CopyAhead/8+1)
	}
	raw := le.AppendUint32(nil, uint32(bpf.HeadSize+8*len(frames)))
	for _, w := range []uint32{uint32(end), uint32(tid), 1, n, stack, 0, 0} {
		raw = le.AppendUint32(raw, w)
	}
	for _, f := range frames {
		raw = le.AppendUint64(raw, f)
	}
	words := []uint64{testOutput, tid, 0}
	for i := 0; i < len(raw); i += 8 {
		words = append(words, le.Uint64(raw[i:]))
	}
	return testRecord(format.TypeSample, words...)
}

// testClockSample contains a kernel part of one frame and the context marker.
func testClockSample(tid, time uint64) []byte {
	return testRecord(format.TypeSample, testClock, 0x1234, tid, time, 1000, 2, format.ContextKernel,
		0xffffffff81000000+time)
}

func testClockMerged(tid, time uint64, frames ...uint64) []byte {
	words := append([]uint64{testClock, 0x1234, tid, time, 1000, uint64(3 + len(frames)), format.ContextKernel,
		0xffffffff81000000 + time,
		format.ContextUser}, frames...)
	return testRecord(format.TypeSample, words...)
}

// testRing is a Merger and the memory of the Merger's ring.
type testRing struct {
	*Merger
	data []byte
	head uint64
}

// testMerger returns a Merger of a ring of size bytes whose data starts at pos.
func testMerger(size int, pos uint64) (*testRing, *uint64) {
	events := map[uint64]Event{testOutput: outputEvent}
	for id, a := range testAttrs {
		events[id] = NewEvent(&a)
	}
	r := &testRing{data: make([]byte, size), head: pos}
	tally := &perfevent.Tally{Layout: format.SampleLayout{Time: 24}}
	r.Merger = &Merger{Ring: perfevent.NewRing(r.data, &r.head), events: events, tally: tally}
	return r, &r.head
}

func fill(n *testRing, head *uint64, recs ...[]byte) {
	for _, r := range recs {
		for _, b := range r {
			n.data[*head&uint64(len(n.data)-1)] = b
			*head++
		}
	}
}

func TestMerge(t *testing.T) {
	comm := testRecord(format.TypeComm, 1, 2, 3)
	// 2 counters, empty chain, 4 bytes raw
	read := []uint64{testTrace, 1, 5, 70, 2, 999, 11, 1, 22, 2, 0, 0xaabbccdd00000004}
	traced := append(slices.Clone(read[:10]), 3, format.ContextUser, 0x41, 0x42, read[11])
	for _, c := range []struct {
		name string
		in   [][]byte
		out  [][]byte
		ends map[bpf.End]uint64
		want Merged
	}{
		{name: "a pair", in: [][]byte{comm, stackRecord(5, bpf.EndEntry, 0x10, 0x20), testClockSample(5, 1), comm},
			out: [][]byte{comm, testClockMerged(5, 1, 0x10, 0x20), comm}, ends: map[bpf.End]uint64{bpf.EndEntry: 1}},
		{name: "nested pairs", in: [][]byte{stackRecord(5, bpf.EndEntry, 1), stackRecord(5, bpf.EndEntry, 2), stackRecord(5, bpf.EndDepth, 3),
			testClockSample(5, 3), testClockSample(5, 2), comm, testClockSample(5, 1)},
			out:  [][]byte{testClockMerged(5, 3, 3), testClockMerged(5, 2, 2), comm, testClockMerged(5, 1, 1)},
			ends: map[bpf.End]uint64{bpf.EndEntry: 2, bpf.EndDepth: 1}},
		{name: "a pair inside a pair's gap", in: [][]byte{stackRecord(5, bpf.EndEntry, 1), stackRecord(5, bpf.EndEntry, 2), testClockSample(5, 2),
			stackRecord(5, bpf.EndEntry, 3), testClockSample(5, 3), testClockSample(5, 1)},
			out: [][]byte{testClockMerged(5, 2, 2), testClockMerged(5, 3, 3), testClockMerged(5, 1, 1)}, ends: map[bpf.End]uint64{bpf.EndEntry: 3}},
		{name: "threads in turns", in: [][]byte{stackRecord(5, bpf.EndEntry, 1), stackRecord(6, bpf.EndEntry, 2), testClockSample(5, 1),
			stackRecord(7, bpf.EndEntry, 3), testClockSample(6, 2), testClockSample(7, 3)},
			out: [][]byte{testClockMerged(5, 1, 1), testClockMerged(6, 2, 2), testClockMerged(7, 3, 3)}, ends: map[bpf.End]uint64{bpf.EndEntry: 3}},
		{name: "a sample alone", in: [][]byte{testClockSample(5, 1)}, out: [][]byte{testClockSample(5, 1)}, want: Merged{single: 1}},
		{name: "a sample of another thread", in: [][]byte{stackRecord(4, bpf.EndEntry, 9), testClockSample(5, 1)},
			out: [][]byte{testClockSample(5, 1)}, want: Merged{single: 1}},
		{name: "stacks without samples", in: [][]byte{stackRecord(5, bpf.EndEntry, 1), stackRecord(5, bpf.EndEntry, 2), stackRecord(5, bpf.EndEntry, 3),
			stackRecord(5, bpf.EndEntry, 4), stackRecord(5, bpf.EndEntry, 5), stackRecord(5, bpf.EndEntry, 6), testClockSample(5, 1)},
			out: [][]byte{testClockMerged(5, 1, 6)}, ends: map[bpf.End]uint64{bpf.EndEntry: 1}},
		{name: "lost between", in: [][]byte{stackRecord(5, bpf.EndEntry, 1), testRecord(format.TypeLost, 0, 4), testClockSample(5, 1)},
			out: [][]byte{testRecord(format.TypeLost, 0, 4), testClockSample(5, 1)}, want: Merged{single: 1}},
		{name: "no user stack", in: [][]byte{stackRecord(5, bpf.EndNoUser), testClockSample(5, 1)}, out: [][]byte{testClockSample(5, 1)},
			ends: map[bpf.End]uint64{bpf.EndNoUser: 1}},
		{name: "counters before the chain, raw data after it", in: [][]byte{stackRecord(5, bpf.EndEntry, 0x41, 0x42), testRecord(format.TypeSample, read...)},
			out: [][]byte{testRecord(format.TypeSample, traced...)}, ends: map[bpf.End]uint64{bpf.EndEntry: 1}},
		{name: "an unknown event's sample", in: [][]byte{testRecord(format.TypeSample, 1000, 1, 2, 3)}, out: [][]byte{testRecord(format.TypeSample, 1000, 1, 2, 3)}},
		{name: "a chain longer than its record", in: [][]byte{stackRecord(5, bpf.EndEntry, 1), testRecord(format.TypeSample, testClock, 0, 5, 0, 0, 1<<61)},
			out: [][]byte{testRecord(format.TypeSample, testClock, 0, 5, 0, 0, 1<<61)}, want: Merged{single: 1}},
	} {
		in, out := slices.Concat(c.in...), slices.Concat(c.out...)
		for at := uint64(0); at < 1024; at += 8 { // where the ring wraps
			n, head := testMerger(1024, at)
			if len(in) > 1024 {
				n, head = testMerger(4096, at+3072)
			}
			fill(n, head, in)
			var j Merged
			n.Merge(&j, *head)
			j.joinMoved([]*Merger{n.Merger})
			if !slices.Equal(j.Records, out) {
				t.Fatalf("%s, from %d on:\n%x\nwant\n%x", c.name, at, j.Records, out)
			}
			for end, got := range j.ends {
				if got != c.ends[bpf.End(end)] {
					t.Fatalf("%s: %d × %v, want %d", c.name, got, bpf.End(end), c.ends[bpf.End(end)])
				}
			}
			var all int
			for end, n := range j.ends {
				if e := bpf.End(end); e != bpf.EndEntry && e != bpf.EndNoUser {
					all += int(n)
				}
			}
			if len(j.early) != all {
				t.Fatalf("%s: %d of %d early ends are counted by place", c.name, len(j.early), all)
			}
			if j.single != c.want.single || len(j.unresolved) != 0 {
				t.Fatalf("%s: %d single, %d unresolved", c.name, j.single, len(j.unresolved))
			}
		}
	}
}

// TestMergeInPieces checks that the result does not depend on how the ring is drained: drains
// may separate pairs.
func TestMergeInPieces(t *testing.T) {
	var recs [][]byte
	for i := range uint64(20) {
		recs = append(recs, stackRecord(5, bpf.EndEntry, i), stackRecord(5, bpf.EndEntry, i+100),
			testClockSample(5, i+100), testClockSample(5, i))
	}
	all, head := testMerger(1<<14, 0)
	fill(all, head, recs...)
	var want Merged
	all.Merge(&want, *head)
	rnd := rand.New(rand.NewSource(1))
	for range 200 {
		n, head := testMerger(1024, 0)
		var got Merged
		for i := 0; i < len(recs); {
			k := min(i+1+rnd.Intn(5), len(recs))
			fill(n, head, recs[i:k]...)
			n.Merge(&got, *head)
			n.Ring.Release(*head)
			i = k
		}
		if !slices.Equal(got.Records, want.Records) || got.single != 0 {
			t.Fatalf("drained in pieces: %d bytes, %d single; want %d bytes", len(got.Records), got.single,
				len(want.Records))
		}
	}
}

// TestMergeUnresolved checks that stacks that BPF could not walk are taken from the ring with the samples, to be
// walked later.
func TestMergeUnresolved(t *testing.T) {
	n, head := testMerger(1024, 0)
	fill(n, head, stackRecord(5, bpf.EndNoTable), testClockSample(5, 77))
	var j Merged
	n.Merge(&j, *head)
	if len(j.Records) != 0 || len(j.unresolved) != 1 {
		t.Fatalf("%d bytes, %d unresolved", len(j.Records), len(j.unresolved))
	}
	m := j.unresolved[0]
	if m.time != 77 || m.pid != 5 || m.head.Stack != 8 || len(m.data) < bpf.CopyAhead+8 {
		t.Errorf("time %d, pid %d, %+v, %d bytes", m.time, m.pid, m.head, len(m.data))
	}
	j.add(m.sample, m.chain, m.max, binary.LittleEndian.AppendUint64(nil, 0x99))
	if want := testClockMerged(5, 77, 0x99); !slices.Equal(j.Records, want) {
		t.Errorf("%x, want %x", j.Records, want)
	}
}

// TestMergeTooLong checks that the outermost frames are dropped, and counted, because a record
// cannot be longer than 64 KiB.
func TestMergeTooLong(t *testing.T) {
	sample := testRecord(format.TypeSample, append([]uint64{testClock, 0, 5, 0, 0, 0}, make([]uint64, 8000)...)...)
	var j Merged
	j.add(sample, 48, 1<<16, make([]byte, 8*1000))
	size := int(binary.LittleEndian.Uint16(j.Records[6:]))
	nr := binary.LittleEndian.Uint64(j.Records[48:])
	if j.cut != 1 || size != len(j.Records) || size > 1<<16-8 || len(j.Records) != len(sample)+8*int(nr) {
		t.Errorf("cut %d, size %d of %d bytes, %d in the chain", j.cut, size, len(j.Records), nr)
	}
}

// TestMergeAllocates checks that merging does not allocate per record.
func TestMergeAllocates(t *testing.T) {
	n, head := testMerger(1<<16, 0)
	for i := range uint64(100) {
		fill(n, head, stackRecord(5, bpf.EndEntry, i), testClockSample(5, i))
	}
	var j Merged
	allocs := testing.AllocsPerRun(10, func() {
		j.Records = j.Records[:0]
		n.Ring.Read = 0
		n.Merge(&j, *head)
	})
	if allocs > 0 {
		t.Errorf("%v allocations for 100 samples", allocs)
	}
}

// TestMergeLost checks that a LOST record of the ring becomes one of the file's first event: a LOST record of a
// BPF output event comes without a sample id, and refers to a counter that is not in the file.
func TestMergeLost(t *testing.T) {
	n, head := testMerger(1024, 0)
	n.first, n.trailer = 77, format.SampleTID|format.SampleTime|format.SampleIdentifier
	lost := binary.LittleEndian.AppendUint64(nil, 24<<48|uint64(format.TypeLost))
	lost = binary.LittleEndian.AppendUint64(lost, testOutput)
	lost = binary.LittleEndian.AppendUint64(lost, 5)
	fill(n, head, lost)
	var j Merged
	n.Merge(&j, *head)
	want := (&format.Lost{EventID: 77, Lost: 5, ID: format.RecordID{PID: -1, TID: -1, ID: 77}}).AppendTo(nil, n.trailer)
	if !slices.Equal(j.Records, want) {
		t.Errorf("%x\nwant\n%x", j.Records, want)
	}
	if err := j.Write(n.tally, func([]byte) error { return nil }); err != nil || n.tally.Lost != 5 {
		t.Errorf("%d counted as lost, %v", n.tally.Lost, err)
	}
}

// TestMergeMaxStack checks that a chain contains at most as many frames, kernel frames included, as the event
// allows.
func TestMergeMaxStack(t *testing.T) {
	a := testAttrs[testClock]
	a.SampleMaxStack = 3
	n, head := testMerger(1<<12, 0)
	n.events[testClock] = NewEvent(&a)
	fill(n, head, stackRecord(5, bpf.EndEntry, 0x10, 0x20, 0x30), testClockSample(5, 1))
	var j Merged
	n.Merge(&j, *head)
	if want := testClockMerged(5, 1, 0x10, 0x20); !slices.Equal(j.Records, want) {
		t.Errorf("%x, want %x", j.Records, want)
	}
}

// TestMergeFiltered checks that stacks without a sample are dropped, and not Merged with
// another sample.
func TestMergeFiltered(t *testing.T) {
	n, head := testMerger(1<<12, 0)
	fill(n, head, stackRecord(5, bpf.EndEntry, 0x10), stackRecord(6, bpf.EndNoTable),
		stackRecord(5, bpf.EndEntry, 0x20), testClockSample(5, 1),
		stackRecord(7, bpf.EndEntry, 0x30), stackRecord(8, bpf.EndEntry, 0x40), testClockSample(8, 2),
		testClockSample(9, 3))
	var j Merged
	n.Merge(&j, *head)
	j.joinMoved([]*Merger{n.Merger})
	want := slices.Concat(testClockMerged(5, 1, 0x20), testClockMerged(8, 2, 0x40), testClockSample(9, 3))
	if !slices.Equal(j.Records, want) {
		t.Errorf("%x, want %x", j.Records, want)
	}
	if j.unused != 3 || j.single != 1 || len(j.unresolved) != 1 || j.unresolved[0].sample != nil ||
		j.unresolved[0].pid != 6 {
		t.Errorf("%d unused, %d without a stack, unresolved %+v", j.unused, j.single, j.unresolved)
	}
}

// TestMergeRewritten checks that a rewritten sample gets the stack that precedes it, by the new callchain.
func TestMergeRewritten(t *testing.T) {
	n, head := testMerger(1<<12, 0)
	a := testAttrs[testClock]
	e := NewEvent(&a)
	e.Rewrite = func([]byte) []byte { return testClockSample(5, 77) }
	n.Add(testTrace, e)
	fill(n, head, stackRecord(5, bpf.EndEntry, 0x10), testRecord(format.TypeSample, testTrace, 1, 5, 70))
	var j Merged
	n.Merge(&j, *head)
	if want := testClockMerged(5, 77, 0x10); !slices.Equal(j.Records, want) {
		t.Errorf("%x, want %x", j.Records, want)
	}
}

// A record that the kernel made too long gets the right size in the file, between others.
func TestMergeRepairs(t *testing.T) {
	r, head := testMerger(1<<10, 1000)
	r.Ring.Repair = perfevent.RepairOf([]format.Attr{{SampleType: format.SampleTime,
		Flags: format.FlagSampleIDAll | format.FlagBPFEvent}})
	comm := testRecord(format.TypeComm, 1, 2, 3)
	fill(r, head, comm, testRecord(format.TypeBPFEvent, 1, 2, 1000, 8, 9), comm)
	var j Merged
	r.Merge(&j, *head)
	want := slices.Concat(comm, testRecord(format.TypeBPFEvent, 1, 2, 1000), comm)
	if !slices.Equal(j.Records, want) {
		t.Errorf("%x, want %x", j.Records, want)
	}
}

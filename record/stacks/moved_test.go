package stacks

import (
	"encoding/binary"
	"slices"
	"testing"

	"gperf/bpf"
)

// stackAt is a stack from BPF at a time.
func stackAt(tid, time uint64, end bpf.End, frames ...uint64) []byte {
	b := stackRecord(tid, end, frames...)
	binary.LittleEndian.PutUint64(b[8+2*8:], time)
	return b
}

// TestMergeMoved checks that a thread that changes CPU between stack and sample keeps the stack, whichever ring is
// merged first: the thread's last stack before the sample, which starts at the sampled instruction.
func TestMergeMoved(t *testing.T) {
	const ip = 0x1234 // of testClockSample
	for _, c := range []struct {
		name         string
		first, other [][]byte
		want         []byte
		single       uint64
		unresolved   int
	}{
		{name: "the stack in another ring", first: [][]byte{testClockSample(5, 9)},
			other: [][]byte{stackAt(5, 8, bpf.EndEntry, ip, 0x20)}, want: testClockMerged(5, 9, ip, 0x20)},
		{name: "the sample in another ring", first: [][]byte{stackAt(5, 8, bpf.EndEntry, ip, 0x20)},
			other: [][]byte{testClockSample(5, 9)}, want: testClockMerged(5, 9, ip, 0x20)},
		{name: "among other threads", first: [][]byte{stackAt(5, 7, bpf.EndEntry, ip), stackAt(6, 8, bpf.EndEntry, ip),
			testClockSample(6, 8)}, other: [][]byte{stackAt(7, 8, bpf.EndEntry, ip, 0x70), testClockSample(5, 9),
			testClockSample(7, 9)},
			want: slices.Concat(testClockMerged(6, 8, ip), testClockMerged(7, 9, ip, 0x70), testClockMerged(5, 9, ip))},
		{name: "the last of several",
			first: [][]byte{stackAt(5, 3, bpf.EndEntry, ip, 3), stackAt(5, 8, bpf.EndEntry, ip, 8)},
			other: [][]byte{stackAt(6, 1, bpf.EndEntry, ip), testClockSample(5, 9)},
			want:  testClockMerged(5, 9, ip, 8)},
		{name: "a later stack", first: [][]byte{stackAt(5, 10, bpf.EndEntry, ip)},
			other: [][]byte{testClockSample(5, 9)}, want: testClockSample(5, 9), single: 1},
		{name: "a stack of another place", first: [][]byte{stackAt(5, 8, bpf.EndEntry, 0x77)},
			other: [][]byte{testClockSample(5, 9)}, want: testClockSample(5, 9), single: 1},
		{name: "another thread's stack", first: [][]byte{stackAt(6, 8, bpf.EndEntry, ip)},
			other: [][]byte{testClockSample(5, 9)}, want: testClockSample(5, 9), single: 1},
		{name: "a copy", first: [][]byte{testClockSample(5, 9)}, other: [][]byte{stackAt(5, 8, bpf.EndNoTable)},
			unresolved: 1},
	} {
		var j Merged
		var rings []*Merger
		for _, recs := range [][][]byte{c.first, c.other} {
			n, head := testMerger(1<<12, 0)
			fill(n, head, recs...)
			n.Merge(&j, *head)
			rings = append(rings, n.Merger)
		}
		j.joinMoved(rings)
		if !slices.Equal(j.Records, c.want) || j.single != c.single || len(j.unresolved) != c.unresolved {
			t.Errorf("%s: %d without a stack, %d unresolved, %x\nwant %d, %d, %x", c.name, j.single, len(j.unresolved),
				j.Records, c.single, c.unresolved, c.want)
		}
	}
}

package perfevent

import (
	"encoding/binary"
	"testing"

	"gperf/format"
)

func TestParseOnline(t *testing.T) {
	for _, test := range []struct {
		uevent string
		cpu    int
		ok     bool
	}{
		{"online@/devices/system/cpu/cpu1\x00ACTION=online\x00SUBSYSTEM=cpu\x00", 1, true},
		{"online@/devices/system/cpu/cpu127", 127, true},
		{"offline@/devices/system/cpu/cpu1\x00ACTION=offline\x00", 0, false},
		{"online@/devices/system/memory/memory1\x00", 0, false},
		{"online@/devices/system/cpu/cpufreq\x00", 0, false},
		{"online@/devices/system/cpu/cpu\x00", 0, false},
		{"", 0, false},
	} {
		if cpu, ok := parseOnline([]byte(test.uevent)); cpu != test.cpu || ok != test.ok {
			t.Errorf("%q: %d, %v", test.uevent, cpu, ok)
		}
	}
}

// TestReopenedIDs checks that the records of a reopened counter get the id of the counter
// that it replaces, wherever they have it, and no other number changes.
func TestReopenedIDs(t *testing.T) {
	const kernel, file, other = 71, 7, 5
	sampleID, identifier := format.SampleID|format.SampleIP|format.SampleTID|format.SampleTime|format.SampleCPU,
		format.SampleIdentifier|format.SampleIP
	record := func(typ format.Type, words ...uint64) (b []byte) {
		b = binary.LittleEndian.AppendUint64(nil, uint64(typ)|uint64(8+8*len(words))<<48)
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return b
	}
	for _, test := range []struct {
		name string
		st   format.SampleType
		rec  func(id uint64) []byte
	}{
		{"sample with ID", sampleID, func(id uint64) []byte { return record(format.TypeSample, kernel, kernel, kernel, id, kernel) }},
		{"sample with IDENTIFIER", identifier, func(id uint64) []byte { return record(format.TypeSample, id, kernel) }},
		{"comm with ID", sampleID, func(id uint64) []byte { return record(format.TypeComm, kernel, kernel, kernel, kernel, id, kernel) }},
		{"comm with IDENTIFIER", identifier, func(id uint64) []byte { return record(format.TypeComm, kernel, kernel, id) }},
		{"lost", identifier, func(id uint64) []byte { return record(format.TypeLost, id, kernel, id) }},
		{"throttle", identifier, func(id uint64) []byte { return record(format.TypeThrottle, kernel, id, kernel, id) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec, want := append(test.rec(kernel), test.rec(other)...), append(test.rec(file), test.rec(other)...)
			size := uint64(len(rec))
			for _, start := range []uint64{0, 1<<10 - 16} { // the second wraps around
				head := start + size
				ring := &Ring{words: ringWords(make([]byte, 1<<10)), head: &head, tail: new(uint64), Read: start}
				for i := range rec {
					ring.data[(start+uint64(i))%(1<<10)] = rec[i]
				}
				ring.renameID(&format.Attr{SampleType: test.st, Flags: format.FlagSampleIDAll}, kernel, file)
				if got := ring.Append(nil, start, ring.Written()); string(got) != string(want) {
					t.Errorf("at %d: % x, want % x", start, got, want)
				}
			}
		})
	}
}

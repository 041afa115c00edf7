package perfevent

import (
	"bytes"
	"testing"

	"gperf/format"
)

// TestRingRepair passes records that the kernel has made too long through a small ring: written ones have their own
// size, and are counted as such.
func TestRingRepair(t *testing.T) {
	attr := format.Attr{SampleType: format.SampleTime | format.SampleIdentifier,
		Flags: format.FlagSampleIDAll | format.FlagBPFEvent}
	r := fakeRing(256)
	r.Repair = RepairOf([]format.Attr{attr})
	var side []byte
	tl := Tally{Layout: format.NewSampleLayout(&attr), SideBand: &side}
	var want, out []byte
	for i := range uint64(100) {
		long := testRecord(format.TypeBPFEvent, 1, i, 1000+i, 5, 66, 77)
		short := testRecord(format.TypeBPFEvent, 1, i, 1000+i, 5)
		comm := testRecord(format.TypeComm, i, i, i, i)
		r.put(comm)
		r.put(long)
		want = append(append(want, comm...), short...)
		if i%2 == 0 {
			continue
		}
		if _, err := r.drain(&tl, func(b []byte) error { out = append(out, b...); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(out, want) {
		t.Errorf("%d bytes, want %d", len(out), len(want))
	}
	if !bytes.Equal(side, want) {
		t.Errorf("the side band has %d bytes, want %d", len(side), len(want))
	}
}

// The oldest records are too long in rings that are overwritten, too, and ids at the real end are replaced.
func TestRingRepairElsewhere(t *testing.T) {
	attr := format.Attr{SampleType: format.SampleTime | format.SampleIdentifier,
		Flags: format.FlagSampleIDAll | format.FlagBPFEvent}
	long := testRecord(format.TypeBPFEvent, 1, 2, 1000, 5, 5, 5)
	r := fakeRing(256)
	r.Repair = RepairOf([]format.Attr{attr})
	r.put(long)
	if got := r.AppendRecord(nil, 0); !bytes.Equal(got, testRecord(format.TypeBPFEvent, 1, 2, 1000, 5)) {
		t.Errorf("appended %x", got)
	}
	r.renameID(&attr, 5, 6)
	r.Written()
	if got := r.AppendRecord(nil, 0); !bytes.Equal(got, testRecord(format.TypeBPFEvent, 1, 2, 1000, 6)) {
		t.Errorf("with another id %x", got)
	}
}

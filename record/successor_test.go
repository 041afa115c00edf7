package record

import (
	"encoding/binary"
	"testing"

	"gperf/format"
	"gperf/internal/session/track"
	"gperf/record/perfevent"
	"gperf/record/synth"
)

// TestSuccessorOrder: a process that is forked on one CPU and exits on another leaves nothing, although the ring with
// its exit is read first, in the same drain or in the one before.
func TestSuccessorOrder(t *testing.T) {
	attr := format.Attr{SampleType: format.SampleIP | format.SampleTID | format.SampleTime,
		Flags: format.FlagSampleIDAll}
	idSize := attr.SampleIDSize()
	set := &perfevent.Set{Attrs: []format.Attr{attr}}
	f := &file{set: set}
	f.tally.Layout = format.NewSampleLayout(&attr)
	s := successor{opts: new(plan), file: f, describe: &describer{file: f}, machine: track.New()}
	f.tally.SideBand = &s.side
	add := func(kind format.Type, pid int32, at uint64) {
		b := (&format.Fork{PID: pid, TID: pid, PPID: 1, PTID: 1}).Append(nil, idSize)
		binary.LittleEndian.PutUint32(b, uint32(kind))
		synth.Stamp(b, idSize, at)
		f.tally.Count(b)
	}
	add(format.TypeExit, 10, 105) // of ring 0
	add(format.TypeExit, 11, 130)
	add(format.TypeFork, 10, 100) // of ring 1
	add(format.TypeFork, 12, 120)
	s.drained()
	add(format.TypeFork, 13, 140) // of ring 0
	add(format.TypeFork, 11, 125) // of ring 1, written after it was read
	s.drained()
	s.drained()
	var pids []int32
	for b := s.begin(); len(b) > 0; b = b[binary.LittleEndian.Uint16(b[6:]):] {
		if format.Type(binary.LittleEndian.Uint32(b)) == format.TypeFork {
			pids = append(pids, int32(binary.LittleEndian.Uint32(b[format.HeaderSize:])))
		}
	}
	if len(pids) != 2 || pids[0] != 12 || pids[1] != 13 {
		t.Errorf("processes %v run, want 12 and 13", pids)
	}
	if len(s.side) > 0 {
		t.Errorf("%d bytes of side band are left", len(s.side))
	}
}

package stacks

import (
	"cmp"
	"encoding/binary"
	"slices"

	"gperf/format"
)

// sideBand is the side-band records of the rings whose time has not come: samples of an earlier
// time still need the mappings from before them.
type sideBand struct {
	types   map[uint64]format.SampleType // by the ids of counters
	scanned []uint64                     // by ring: position up to which its side band is read
	records []sideRecord                 // by time
	newest  uint64                       // time of the newest side-band record before the merged records
}

// sideRecord is a record of the side band.
type sideRecord struct {
	time uint64
	rec  format.Record
}

// collect reads the side band of all rings, at least up to heads.
func (s *sideBand) collect(mergers []*Merger, heads []uint64) {
	for i, n := range mergers {
		s.scan(i, n, heads[i])
	}
	for i := range s.records {
		s.newest = max(s.newest, s.records[i].time)
	}
	// A record on another CPU that precedes a sample in time may have been written after that
	// ring's head was read: it is there now.
	for i, n := range mergers {
		s.scan(i, n, n.Ring.Written())
	}
	slices.SortStableFunc(s.records, func(a, b sideRecord) int { return cmp.Compare(a.time, b.time) })
}

// scan reads the side band of a ring up to head.
func (s *sideBand) scan(i int, n *Merger, head uint64) {
	r := n.Ring
	pos := s.scanned[i]
	for pos < head {
		h := r.Word(pos)
		size := h >> 48
		if size < format.HeaderSize || size > head-pos {
			break
		}
		switch format.Type(uint32(h)) {
		case format.TypeMmap, format.TypeMmap2, format.TypeFork, format.TypeExit, format.TypeComm:
			s.add(r.Append(nil, pos, pos+size)) // a copy, because decoded records refer to it
		case format.TypeLost:
			s.records = append(s.records, sideRecord{rec: &format.Lost{}})
		}
		pos += size
	}
	s.scanned[i] = head
}

// add stores a record until its time has come.
func (s *sideBand) add(b []byte) {
	h := binary.LittleEndian.Uint64(b)
	id := binary.LittleEndian.Uint64(b[len(b)-8:])
	raw := format.Raw{Type: format.Type(uint32(h)), Misc: format.Misc(h >> 32), Data: b[format.HeaderSize:]}
	rec, err := format.ParseRecord(raw, s.types[id])
	if err != nil {
		return
	}
	var time uint64
	switch rec := rec.(type) {
	case *format.Mmap:
		time = rec.ID.Time
		if !rec.Executable() {
			return
		}
	case *format.Fork:
		time = rec.ID.Time
	case *format.Exit:
		time = rec.ID.Time
	case *format.Comm:
		time = rec.ID.Time
		if !rec.Exec {
			return
		}
	}
	s.records = append(s.records, sideRecord{time, rec})
}

// until passes the records up to a time to apply, and drops them.
func (s *sideBand) until(time uint64, apply func(format.Record)) {
	i := 0
	for ; i < len(s.records) && s.records[i].time <= time; i++ {
		apply(s.records[i].rec)
	}
	s.records = slices.Delete(s.records, 0, i)
}

package stacks

import (
	"cmp"
	"encoding/binary"
	"slices"

	"gperf/format"
	"gperf/record/perfevent"
	"gperf/record/synth"
)

// sideBand is the side-band records of the rings whose time is still to come: samples of an earlier time still
// need the mappings from before them.
type sideBand struct {
	types   map[uint64]format.SampleType // by the ids of counters
	scanned []uint64                     // by ring: position up to which the side band is read
	records []sideRecord                 // by time
	chunk   []byte                       // memory for the bytes of further records
	newest  uint64                       // time of the newest side-band record before the merged records
	copies  synth.Copies
}

// sideRecord is a record of the side band.
type sideRecord struct {
	time uint64
	rec  format.Record
}

// collect reads the side band of all rings, at least up to heads. It adds the mappings of files whose code
// processes copied, and returns these, because no ring contains them.
func (s *sideBand) collect(mergers []*Merger, heads []uint64) (copies []format.Mmap) {
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
	copies = s.copies.Find(mergers[0].tally.Last)
	for i := range copies {
		at := copies[i].ID.Time
		s.records = append(s.records, sideRecord{at, &copies[i]})
		s.newest = max(s.newest, at)
	}
	slices.SortStableFunc(s.records, func(a, b sideRecord) int { return cmp.Compare(a.time, b.time) })
	return copies
}

// scan reads the side band of a ring up to head.
func (s *sideBand) scan(i int, n *Merger, head uint64) {
	r := n.Ring
	for pos, h := range r.Records(s.scanned[i], head) {
		switch format.Type(uint32(h)) {
		case format.TypeMmap, format.TypeMmap2, format.TypeFork, format.TypeExit, format.TypeComm:
			s.add(s.copyOf(r, pos, h>>48))
		case format.TypeLost:
			s.records = append(s.records, sideRecord{rec: &format.Lost{}})
		}
	}
	s.scanned[i] = head
}

// chunkSize is the size of the memory that many records share, in bytes.
const chunkSize = 1 << 15

// copyOf returns a copy of a record of so many bytes in a ring, because decoded records refer to the encoded
// bytes.
func (s *sideBand) copyOf(r *perfevent.Ring, pos, size uint64) []byte {
	if uint64(cap(s.chunk)-len(s.chunk)) < size {
		s.chunk = make([]byte, 0, max(chunkSize, size))
	}
	from := len(s.chunk)
	s.chunk = r.AppendRecord(s.chunk, pos)
	return s.chunk[from:len(s.chunk):len(s.chunk)]
}

// add stores a record until the record's time comes.
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
		s.copies.Mapped(rec)
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

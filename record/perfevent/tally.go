package perfevent

import (
	"math"
	"slices"

	"gperf/format"
)

// Tally collects counts, times and names from the kernel's records, once they are written.
type Tally struct {
	Layout      format.SampleLayout // of all records: the id and the time have the same positions
	Samples     uint64
	First, Last uint64 // times of these samples, in ns
	Lost        uint64 // according to LOST records
	LostAt      uint64 // time of the last LOST record, or of the last sample before it
	// Throttled counts the THROTTLE records by id of the counter, which is nil without any.
	Throttled map[uint64]uint64
	// Mapped collects file names from MMAP2 records, if the kernel does not put build IDs
	// into them; nil otherwise.
	Mapped map[string]bool
	// Mmap, if set, receives the MMAP2 records.
	Mmap func(rec []byte)
	// Forked are the processes that were forked and have not exited; nil if not needed.
	Forked map[int32]bool
	// SideBand collects side-band records; nil if not needed.
	SideBand *[]byte
}

// Count counts the records in b.
func (t *Tally) Count(b []byte) {
	t.count(&words{b, math.MaxUint64}, 0, uint64(len(b)))
}

// NewFile resets the counts that belong to a file.
func (t *Tally) NewFile() { t.Samples, t.First, t.Last = 0, 0, 0 }

// count counts the records between two positions.
func (t *Tally) count(r *words, from, head uint64) {
	for pos, h := range r.Records(from, head) {
		t.record(r, pos, h)
	}
}

// record counts the record at pos, with header h.
func (t *Tally) record(r *words, pos, h uint64) {
	switch format.Type(uint32(h)) {
	case format.TypeSample:
		t.Samples++
		at := format.HeaderSize + uint64(t.Layout.Time)
		if t.Layout.Time < 0 || at+8 > h>>48 {
			break
		}
		time := r.Word(pos + at)
		if time < t.First || t.First == 0 {
			t.First = time
		}
		t.Last = max(t.Last, time)
	case format.TypeLost:
		t.Lost += r.Word(pos + 16)
		t.LostAt = t.Last
		if at := lostTime(r, pos, &t.Layout); at != 0 {
			t.LostAt = at
		}
	case format.TypeThrottle:
		if h>>48 < throttleID+8 {
			break
		}
		if t.Throttled == nil {
			t.Throttled = map[uint64]uint64{}
		}
		t.Throttled[r.Word(pos+throttleID)]++
	case format.TypeFork:
		if t.Forked != nil {
			t.Forked[int32(r.Word(pos+8))] = true
		}
	case format.TypeExit:
		if ids := r.Word(pos + 8); t.Forked != nil && uint32(ids) == uint32(r.Word(pos+16)) {
			delete(t.Forked, int32(ids))
		}
	case format.TypeMmap2:
		if t.Mapped != nil {
			t.Mapped[r.cstring(pos+format.HeaderSize+format.Mmap2Filename, pos+h>>48)] = true
		}
		if t.Mmap != nil {
			t.Mmap(r.Append(nil, pos, pos+h>>48))
		}
	}
	if t.SideBand != nil && slices.Contains(sideBand, format.Type(uint32(h))) {
		*t.SideBand = r.Append(*t.SideBand, pos, pos+h>>48)
	}
}

// sideBand are the types of records that describe processes and their mappings.
var sideBand = []format.Type{format.TypeMmap, format.TypeMmap2, format.TypeComm, format.TypeFork, format.TypeExit,
	format.TypeKSymbol, format.TypeBPFEvent, format.TypeNamespaces, format.TypeCgroup, format.TypeTextPoke}

// lostTime returns the time of the LOST record at pos, 0 if it has none: an event without sample id wrote it.
func lostTime(r *words, pos uint64, l *format.SampleLayout) uint64 {
	size := r.Word(pos) >> 48
	if l.TimeFromEnd == 0 || size < lostSize+uint64(l.TimeFromEnd) {
		return 0
	}
	return r.Word(pos + size - uint64(l.TimeFromEnd))
}

// LostTime returns the time of the LOST record at pos of a ring, 0 if it has none.
func (t *Tally) LostTime(r *Ring, pos uint64) uint64 { return lostTime(&r.words, pos, &t.Layout) }

// lostSize is the size of a LOST record without sample id: id and count.
const lostSize = format.HeaderSize + 8 + 8

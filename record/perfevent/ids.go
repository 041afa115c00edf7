package perfevent

import (
	"unsafe"

	"gperf/format"
)

// idNames replaces ids of counters in a copy of a ring by those in the file's header.
type idNames struct {
	mapped []byte            // the ring's data
	ids    map[uint64]uint64 // new ones, by the kernel's
	sample uint64            // position of the id in samples, in bytes from the header
	others uint64            // position of the id in other records, in bytes from their end
	done   uint64            // data is copied up to this position
}

// renameID replaces the id of one of the ring's counters, whose attr is a, in all records
// from then on. A file with one event needs no ids.
func (r *Ring) renameID(a *format.Attr, from, to uint64) {
	if a.SampleType&(format.SampleIdentifier|format.SampleID) == 0 {
		return
	}
	if r.ids == nil {
		r.ids = newIDNames(a)
		r.ids.mapped, r.ids.done = r.data, r.Read
		r.words = ringWords(make([]byte, len(r.data)))
	}
	r.ids.ids[from] = to
}

// newIDNames finds the ids in records by an attr: if attrs differ, all have IDENTIFIER, else
// their fields are the same.
func newIDNames(a *format.Attr) *idNames {
	l := format.NewSampleLayout(a)
	return &idNames{ids: map[uint64]uint64{}, sample: format.HeaderSize + uint64(l.ID), others: uint64(l.IDFromEnd)}
}

// Positions of a second id in records of these types, in bytes from the header.
const (
	lostID     = 8
	throttleID = 8 + 8
)

// take copies the records up to head and replaces their ids.
func (n *idNames) take(r *Ring, head uint64) {
	if n.done == head {
		return
	}
	size := uint64(len(r.data))
	from, to := n.done&(size-1), head&(size-1)
	if from < to {
		copy(r.data[from:], n.mapped[from:to])
	} else {
		copy(r.data[from:], n.mapped[from:])
		copy(r.data, n.mapped[:to])
	}
	for pos, h := range r.Records(n.done, head) {
		size := h >> 48
		if size < 16 {
			break // without an id: not the kernel's
		}
		switch format.Type(uint32(h)) {
		case format.TypeSample:
			n.rename(r, pos+n.sample)
			continue
		case format.TypeLost:
			n.rename(r, pos+lostID)
		case format.TypeThrottle, format.TypeUnthrottle:
			n.rename(r, pos+throttleID)
		}
		if fixed := r.Repaired(pos); fixed != nil {
			size = uint64(len(fixed))
		}
		n.rename(r, pos+size-n.others)
	}
	n.done = head
}

// setWord changes the 64 bits at a position, a multiple of 8.
func (w *words) setWord(pos, to uint64) {
	*(*uint64)(unsafe.Pointer(&w.data[pos&w.mask])) = to
}

func (n *idNames) rename(r *Ring, pos uint64) {
	if id, ok := n.ids[r.Word(pos)]; ok {
		r.setWord(pos, id)
	}
}

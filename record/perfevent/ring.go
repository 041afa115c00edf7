package perfevent

import (
	"encoding/binary"
	"iter"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/format"
)

// Ring is a ring buffer that the kernel fills with records, shared by all counters of a CPU.
// Positions in it count all bytes ever written.
type Ring struct {
	FD  int // of the counter that owns the ring
	CPU int // -1: it belongs to a thread
	// Read is the position up to which the records have been read and their space released.
	Read uint64
	// Repair corrects records for Repaired.
	Repair format.Repair

	words
	mem  []byte // one page for head and tail, then the data
	head *uint64
	tail *uint64 // equals Read; only this process writes it
	ids  *idNames

	fixed []byte // memory for a repaired record
}

// words is memory with records. Positions wrap at its end; records lie at multiples of 8.
type words struct {
	data []byte // of a ring with reopened counters a copy, which can be changed
	mask uint64 // for positions: the length minus 1, a power of 2 minus 1
}

// ringWords returns the words of a ring.
func ringWords(data []byte) words { return words{data, uint64(len(data) - 1)} }

// Word returns the 64 bits at a position, a multiple of 8.
func (w *words) Word(pos uint64) uint64 {
	return *(*uint64)(unsafe.Pointer(&w.data[pos&w.mask]))
}

// Records yields the positions and headers of the records between two positions. A header has the type in its first 32
// bits, then the misc bits, and the size in the last 16. Records ends at an incomplete or invalid record: the file's
// reader reports that.
func (w *words) Records(from, head uint64) iter.Seq2[uint64, uint64] {
	return func(yield func(pos, header uint64) bool) {
		for pos := from; pos < head; {
			h := w.Word(pos)
			size := h >> 48
			if size < format.HeaderSize || size > head-pos || !yield(pos, h) {
				return
			}
			pos += size
		}
	}
}

// cstring returns the string at from, which ends before to.
func (w *words) cstring(from, to uint64) string {
	var b []byte
	for ; from < to; from++ {
		c := w.data[from&w.mask]
		if c == 0 {
			break
		}
		b = append(b, c)
	}
	return string(b)
}

// Append appends the data between two positions to b.
func (w *words) Append(b []byte, from, to uint64) []byte {
	if from == to {
		return b
	}
	i, j := from&w.mask, to&w.mask
	if i < j {
		return append(b, w.data[i:j]...)
	}
	return append(append(b, w.data[i:]...), w.data[:j]...)
}

// NewRing returns a ring that the caller fills, for tests: it writes data at head, and then
// increases head.
func NewRing(data []byte, head *uint64) *Ring {
	return &Ring{words: ringWords(data), Read: *head, head: head, tail: new(uint64)}
}

// Size returns the number of bytes of records that fit into the ring.
func (r *Ring) Size() int { return len(r.data) }

// mapRing maps a counter's ring. If it is mapped for reading only, the kernel overwrites
// unread records.
func mapRing(fd, pages, prot int) (*Ring, error) {
	page := os.Getpagesize()
	mem, err := unix.Mmap(fd, 0, (pages+1)*page, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, &MapError{pages, err}
	}
	meta := (*unix.PerfEventMmapPage)(unsafe.Pointer(&mem[0]))
	return &Ring{FD: fd, mem: mem, words: ringWords(mem[page:]), head: &meta.Data_head, tail: &meta.Data_tail}, nil
}

func (r *Ring) unmap() { unix.Munmap(r.mem) }

// Attach directs another counter's records to this ring.
func (r *Ring) Attach(fd int) error {
	return unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, r.FD)
}

// Repaired returns the record at pos as it should be, if the kernel has spoiled it (package format), else nil.
// It is valid until the next call.
func (r *Ring) Repaired(pos uint64) []byte {
	h := r.Word(pos)
	if !r.Repair.Concerns(format.Type(uint32(h))) {
		return nil
	}
	r.fixed = r.Append(r.fixed[:0], pos, pos+h>>48)
	misc, body := format.Misc(h>>32), r.fixed[format.HeaderSize:]
	r.Repair.Apply(format.Type(uint32(h)), &misc, &body, format.LittleEndian)
	size := format.HeaderSize + len(body)
	right := h&(1<<32-1) | uint64(misc)<<32 | uint64(size)<<48
	if right == h {
		return nil
	}
	binary.LittleEndian.PutUint64(r.fixed, right)
	return r.fixed[:size]
}

// RepairOf returns the Repair of the records of these events.
func RepairOf(attrs []format.Attr) (r format.Repair) {
	for i := range attrs {
		r.Add(&attrs[i])
	}
	return r
}

// AppendRecord appends the record at pos to b, repaired.
func (r *Ring) AppendRecord(b []byte, pos uint64) []byte {
	if fixed := r.Repaired(pos); fixed != nil {
		return append(b, fixed...)
	}
	return r.Append(b, pos, pos+r.Word(pos)>>48)
}

// repaired returns a copy of the records between two positions if some of them need the repair, else nil.
func (r *Ring) repaired(from, head uint64) (b []byte) {
	done := from // copied up to here
	for pos, h := range r.Records(from, head) {
		if fixed := r.Repaired(pos); fixed != nil {
			b = append(r.Append(b, done, pos), fixed...)
			done = pos + h>>48
		}
	}
	if b == nil {
		return nil
	}
	return r.Append(b, done, head)
}

// drain passes all data in the ring to write, as complete records in at most two pieces, and
// only then releases their space to the kernel and counts the records.
func (r *Ring) drain(t *Tally, write func([]byte) error) (n int, err error) {
	head := r.Written() // load-acquire: the data up to head is visible
	if head == r.Read {
		return 0, nil
	}
	size := uint64(len(r.data))
	from, to := r.Read&(size-1), head&(size-1)
	fixed := r.repaired(r.Read, head)
	if fixed != nil {
		err = write(fixed)
	} else if from < to {
		err = write(r.data[from:to])
	} else if err = write(r.data[from:]); err == nil && to > 0 {
		err = write(r.data[:to])
	}
	if err != nil {
		return 0, err
	}
	if fixed != nil {
		t.Count(fixed)
	} else {
		t.count(&r.words, r.Read, head)
	}
	n = int(head - r.Read)
	r.Release(head)
	return n, nil
}

// Release returns the space up to head to the kernel.
func (r *Ring) Release(head uint64) {
	r.Read = head
	atomic.StoreUint64(r.tail, head)
}

// Written returns the position up to which there are complete records.
func (r *Ring) Written() uint64 {
	head := atomic.LoadUint64(r.head)
	if r.ids != nil {
		r.ids.take(r, head)
	}
	return head
}

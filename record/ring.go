package record

import (
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/format"
)

// Ring is a ring buffer that the kernel fills with records, shared by all counters of a CPU.
type Ring struct {
	fd   int
	cpu  int    // -1: it belongs to a thread
	mem  []byte // one page for head and tail, then data
	data []byte // its length is a power of 2; with ids, a copy that can be changed
	head *uint64
	tail *uint64
	read uint64 // data is read up to here: *tail, which only we write
	ids  *idNames
}

// mapRing maps a counter's ring. If it is mapped for reading only, the kernel overwrites
// unread records.
func mapRing(fd, pages, prot int) (*Ring, error) {
	page := os.Getpagesize()
	mem, err := unix.Mmap(fd, 0, (pages+1)*page, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, &MapError{pages, err}
	}
	meta := (*unix.PerfEventMmapPage)(unsafe.Pointer(&mem[0]))
	return &Ring{fd: fd, mem: mem, data: mem[page:], head: &meta.Data_head, tail: &meta.Data_tail}, nil
}

func (r *Ring) close() { unix.Munmap(r.mem) }

// attach directs another counter's records to this ring.
func (r *Ring) attach(fd int) error {
	return unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, r.fd)
}

// word returns the 64 bits at a position, a multiple of 8.
func (r *Ring) word(pos uint64) uint64 {
	return *(*uint64)(unsafe.Pointer(&r.data[pos&uint64(len(r.data)-1)]))
}

// drain passes all data in the ring to write, as complete records in at most two pieces, and
// only then releases the space to the kernel. It counts the records in t.
func (r *Ring) drain(t *tally, write func([]byte) error) (n int, err error) {
	head := r.written() // load-acquire: the data up to head is visible
	if head == r.read {
		return 0, nil
	}
	size := uint64(len(r.data))
	from, to := r.read&(size-1), head&(size-1)
	if from < to {
		err = write(r.data[from:to])
	} else if err = write(r.data[from:]); err == nil && to > 0 {
		err = write(r.data[:to])
	}
	if err != nil {
		return 0, err
	}
	t.count(r, head)
	n = int(head - r.read)
	r.release(head)
	return n, nil
}

// release returns the space up to head to the kernel.
func (r *Ring) release(head uint64) {
	r.read = head
	atomic.StoreUint64(r.tail, head)
}

// written returns the position up to which there are complete records.
func (r *Ring) written() uint64 {
	head := atomic.LoadUint64(r.head)
	if r.ids != nil {
		r.ids.take(r, head)
	}
	return head
}

// setWord changes the 64 bits at a position, a multiple of 8.
func (r *Ring) setWord(pos, to uint64) {
	*(*uint64)(unsafe.Pointer(&r.data[pos&uint64(len(r.data)-1)])) = to
}

// append appends the data between two positions to b.
func (r *Ring) append(b []byte, from, to uint64) []byte {
	if from == to {
		return b
	}
	size := uint64(len(r.data))
	i, j := from&(size-1), to&(size-1)
	if i < j {
		return append(b, r.data[i:j]...)
	}
	return append(append(b, r.data[i:]...), r.data[:j]...)
}

// tally collects counts, times and names from the headers of drained records.
type tally struct {
	layout      format.SampleLayout // of all records: the id and the time have the same positions
	samples     uint64
	lost        uint64 // according to LOST records
	lostAt      uint64 // time of the last LOST record
	first, last uint64 // times of samples
	// mapped collects file names from MMAP2 records, if the kernel does not put build IDs
	// into them; nil otherwise.
	mapped map[string]bool
	// forked are the processes that were forked and have not exited; nil if not needed.
	forked map[int32]bool
	side   *[]byte // collects side-band records; nil if not needed
}

// count counts the records from r.read to head.
func (t *tally) count(r *Ring, head uint64) {
	for pos := r.read; pos < head; {
		h := r.word(pos)
		size := h >> 48
		if size < 8 {
			return // not a record: the file's reader reports it
		}
		t.record(r, pos, h)
		pos += size
	}
}

// record counts the record at pos, with header h.
func (t *tally) record(r *Ring, pos, h uint64) {
	switch format.Type(uint32(h)) {
	case format.TypeSample:
		t.samples++
		if t.layout.Time < 0 {
			break
		}
		time := r.word(pos + format.HeaderSize + uint64(t.layout.Time))
		if time < t.first || t.first == 0 {
			t.first = time
		}
		t.last = max(t.last, time)
	case format.TypeLost:
		t.lost += r.word(pos + 16)
		t.lostAt = t.last
		// An event without sample id writes LOST without a time.
		if size := h >> 48; t.layout.TimeFromEnd > 0 && size >= lostSize+uint64(t.layout.TimeFromEnd) {
			t.lostAt = r.word(pos + size - uint64(t.layout.TimeFromEnd))
		}
	case format.TypeFork:
		if t.forked != nil {
			t.forked[int32(r.word(pos+8))] = true
		}
	case format.TypeExit:
		if ids := r.word(pos + 8); t.forked != nil && uint32(ids) == uint32(r.word(pos+16)) {
			delete(t.forked, int32(ids))
		}
	case format.TypeMmap2:
		if t.mapped != nil {
			t.mapped[r.cstring(pos+format.HeaderSize+format.Mmap2Filename, pos+h>>48)] = true
		}
	}
	if t.side != nil && slices.Contains(sideBand, format.Type(uint32(h))) {
		*t.side = r.append(*t.side, pos, pos+h>>48)
	}
}

// sideBand are the types of records that describe processes and their mappings.
var sideBand = []format.Type{format.TypeMmap, format.TypeMmap2, format.TypeComm, format.TypeFork, format.TypeExit,
	format.TypeKSymbol, format.TypeBPFEvent, format.TypeNamespaces, format.TypeCgroup, format.TypeTextPoke}

// lostSize is the size of a LOST record without sample id: id and count.
const lostSize = format.HeaderSize + 8 + 8

// cstring returns the string at from, which ends before to.
func (r *Ring) cstring(from, to uint64) string {
	var b []byte
	for ; from < to; from++ {
		c := r.data[from&uint64(len(r.data)-1)]
		if c == 0 {
			break
		}
		b = append(b, c)
	}
	return string(b)
}

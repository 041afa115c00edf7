package stacks

import (
	"encoding/binary"
	"math"
	"os"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/perfevent"
)

// If BPF walks user stacks, a ring contains two records for each sample: the BPF program's stack, and directly
// after it the kernel's sample, with the kernel's part of the callchain. Another pair may lie between the two,
// because an interrupt's sample may interrupt another one: the pairs nest as brackets do. The file gets one record
// for both.

// Event describes the samples that an event writes to a ring.
type Event struct {
	format.SampleLayout
	// Rewrite, if set, turns a sample into the one for the file. It may change rec.
	Rewrite func(rec []byte) []byte
	// Take, if set, takes the samples: the file does not get them. rec is valid until Take returns.
	Take func(rec []byte)
	// Walked means that BPF programs walk the user stacks: a stack precedes each sample.
	Walked bool

	output bool // it is a stack from BPF
	max    int  // maximum number of frames of the callchain, kernel frames included
}

// NewEvent returns the Event of an attr.
func NewEvent(a *format.Attr) Event {
	e := Event{SampleLayout: format.NewSampleLayout(a), Walked: perfevent.Walked(a), max: math.MaxUint16}
	if a.SampleMaxStack != 0 {
		e.max = int(a.SampleMaxStack)
	}
	return e
}

// word returns the 64 bits at a position in a record's body.
func (e *Event) word(rec []byte, at int) uint64 {
	return binary.LittleEndian.Uint64(rec[format.HeaderSize+at:])
}

// callchain returns the position of a record's callchain, -1 if there is none.
func (e *Event) callchain(rec []byte) int {
	if at := e.Callchain(rec[format.HeaderSize:]); at >= 0 {
		return format.HeaderSize + at
	}
	return -1
}

const (
	maxNested = 4         // task, soft interrupt, interrupt, NMI
	maxRecord = 1<<16 - 8 // the largest size of a record, as a multiple of 8
)

// bpfStack is a stack from BPF that waits for a sample.
type bpfStack struct {
	tid  uint64 // pid and tid, as in records
	time uint64
	head bpf.Head
	data []byte // the data after the head
}

// Merger merges the records of a ring.
type Merger struct {
	Ring *perfevent.Ring

	self    int32             // this process: BPF does not walk this process's stacks at tracepoints and probes
	first   uint64            // id of one of the first event's counters
	trailer format.SampleType // fields of the sample id at the end of the events' records, 0 without
	events  map[uint64]Event  // by the ids of counters
	tally   *perfevent.Tally
	waiting []bpfStack // stacks without sample, the innermost last
	rec     []byte
}

// NewMergers returns a Merger for each ring. All records written are counted in tally.
func NewMergers(rings []*perfevent.Ring, attrs []format.Attr, tally *perfevent.Tally) (l []*Merger) {
	events := map[uint64]Event{}
	for i := range attrs {
		e := NewEvent(&attrs[i])
		for _, id := range attrs[i].IDs {
			events[id] = e
		}
	}
	for _, ring := range rings {
		l = append(l, &Merger{Ring: ring, self: int32(os.Getpid()), first: attrs[0].IDs[0],
			trailer: format.NewSampleLayout(&attrs[0]).Trailer, events: events, tally: tally})
	}
	return l
}

// Add adds an event by the id of the event's counter.
func (n *Merger) Add(id uint64, e Event) { n.events[id] = e }

// Merge takes the records up to head out of the ring, and adds the merged ones to j, as copies: the caller must
// still release the ring's space. A record is one of these:
//   - a stack from BPF: it waits for its sample;
//   - a sample with a stack before it: both become one sample;
//   - a sample whose stack BPF could not walk, because a table is missing: it is unresolved, and
//     j.Records gets it later;
//   - a sample of a walked event without a stack: j.joinMoved searches the other rings for it;
//   - LOST: it becomes one of the file's first event, and no stack waits any more;
//   - any other record, or a sample of another event: it stays as it is, unless the kernel has spoiled it.
func (n *Merger) Merge(j *Merged, head uint64) {
	r := n.Ring
	from := r.Read // start of the data that is not yet copied to j.Records
	for pos, h := range r.Records(r.Read, head) {
		size := h >> 48
		switch format.Type(uint32(h)) {
		case format.TypeSample:
			e, known := n.events[r.Word(pos+format.HeaderSize)]
			if !known || !e.Walked && !e.output && e.Rewrite == nil && e.Take == nil {
				break
			}
			j.Records = r.Append(j.Records, from, pos)
			from = pos + size
			n.rec = r.Append(n.rec[:0], pos, from)
			n.sample(j, &e)
		case format.TypeLost:
			n.waiting = n.waiting[:0] // the lost records may include stacks or samples
			j.lostAt = n.tally.LostTime(r, pos)
			j.Records = r.Append(j.Records, from, pos)
			from = pos + size
			j.Records = n.lost(r.Word(pos+format.HeaderSize+8)).AppendTo(j.Records, n.trailer)
		default:
			if fixed := r.Repaired(pos); fixed != nil {
				j.Records = append(r.Append(j.Records, from, pos), fixed...)
				from = pos + size
			}
		}
	}
	j.Records = r.Append(j.Records, from, head)
}

// sample adds the sample in n.rec, or keeps it if it is a stack.
func (n *Merger) sample(j *Merged, e *Event) {
	switch {
	case e.output:
		n.push(j)
		return
	case e.Take != nil:
		e.Take(n.rec)
		return
	case e.Rewrite != nil:
		n.rec = e.Rewrite(n.rec)
	}
	if !e.Walked {
		j.Records = append(j.Records, n.rec...)
		return
	}
	n.merge(j, e)
}

// lost returns a LOST record of the file's first event: the ring's own record may belong to a
// BPF output event, which is not in the file.
func (n *Merger) lost(count uint64) *format.Lost {
	id := format.RecordID{PID: -1, TID: -1, CPU: uint32(n.Ring.CPU), ID: n.first}
	return &format.Lost{EventID: n.first, Lost: count, ID: id}
}

// push stores a stack from BPF until the sample comes. No sample comes if the event's filter or cgroup does not
// match, which the kernel checks after the BPF program.
func (n *Merger) push(j *Merged) {
	out, ok := ParseOutput(n.rec)
	if !ok {
		return
	}
	head, ok := bpf.ParseHead(out.Raw)
	if !ok {
		return
	}
	if len(n.waiting) == maxNested { // the outermost stack's sample never came
		j.discard(n.take(0))
	}
	if len(n.waiting) < cap(n.waiting) {
		n.waiting = n.waiting[:len(n.waiting)+1]
	} else {
		n.waiting = append(n.waiting, bpfStack{})
	}
	f := &n.waiting[len(n.waiting)-1]
	f.tid = out.TID
	f.time = out.Time
	f.head = head
	f.data = append(f.data[:0], out.Raw[bpf.HeadSize:]...)
}

// merge adds the sample in n.rec with the stack from BPF.
func (n *Merger) merge(j *Merged, e *Event) {
	rec := n.rec
	tid, time := e.word(rec, e.TID), e.word(rec, e.Time)
	chain := e.callchain(rec)
	f := n.pop(tid)
	switch {
	case f == nil && int32(tid) == n.self:
		j.ends[bpf.EndNoUser]++
		j.Records = append(j.Records, rec...)
	case chain < 0:
		j.single++
		j.Records = append(j.Records, rec...)
	case f == nil:
		n.moved(j, e, tid, time, chain)
	default:
		j.join(f, rec, tid, time, chain, e.max)
	}
}

// pop returns the last stack of a thread. Nested samples belong to one thread; stacks of other threads still wait
// for samples, because a thread can be preempted between a uprobe's program and its sample.
func (n *Merger) pop(tid uint64) *bpfStack {
	for i := len(n.waiting) - 1; i >= 0; i-- {
		if n.waiting[i].tid == tid {
			return n.take(i)
		}
	}
	return nil
}

// discardAll drops all waiting stacks.
func (n *Merger) discardAll(j *Merged) {
	for i := range n.waiting {
		j.discard(&n.waiting[i])
	}
	n.waiting = n.waiting[:0]
}

// take removes the ith waiting stack. The result is valid until the next push, which reuses the memory of the
// result.
func (n *Merger) take(i int) *bpfStack {
	last := len(n.waiting) - 1
	f := n.waiting[i]
	copy(n.waiting[i:], n.waiting[i+1:])
	n.waiting[last] = f
	n.waiting = n.waiting[:last]
	return &n.waiting[:last+1][last]
}

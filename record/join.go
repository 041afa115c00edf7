package record

import (
	"encoding/binary"
	"math"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/perfevent"
)

// If BPF walks user stacks, a ring has two records for each sample: the BPF program's stack,
// and directly after it the kernel's sample, with the kernel's part of the callchain. Another
// pair may lie between the two, because an interrupt's sample may interrupt another one: the
// pairs nest as brackets do. The file gets one record for both.

// ringEvent describes the samples that an event writes to a ring.
type ringEvent struct {
	format.SampleLayout
	output  bool     // it is a stack from BPF
	emitter *emitter // its programs made the sample; nil: the kernel did
	ipOnly  bool     // its callchain is recorded for the sample's ip only
	walked  bool     // BPF adds to the callchain
	max     int      // maximum number of frames of the callchain, kernel frames included
}

func newRingEvent(a *format.Attr) ringEvent {
	e := ringEvent{SampleLayout: format.NewSampleLayout(a), walked: perfevent.Walked(a), max: math.MaxUint16}
	if a.SampleMaxStack != 0 {
		e.max = int(a.SampleMaxStack)
	}
	return e
}

// word returns the 64 bits at a position in a record's body.
func (e *ringEvent) word(rec []byte, at int) uint64 {
	return binary.LittleEndian.Uint64(rec[format.HeaderSize+at:])
}

// callchain returns the position of a record's callchain, -1 if it has none.
func (e *ringEvent) callchain(rec []byte) int {
	if at := e.Callchain(rec[format.HeaderSize:]); at >= 0 {
		return format.HeaderSize + at
	}
	return -1
}

// The BPF output events for stacks have samples of this type.
const outputSample = format.SampleIdentifier | format.SampleTID | format.SampleTime | format.SampleRaw

// outputEvent describes these samples.
var outputEvent = ringEvent{SampleLayout: format.NewSampleLayout(&format.Attr{SampleType: outputSample}), output: true}

const (
	maxNested = 4         // task, soft interrupt, interrupt, NMI
	maxRecord = 1<<16 - 8 // the largest size of a record, as a multiple of 8
)

// found is a stack from BPF that waits for its sample.
type found struct {
	tid  uint64 // pid and tid, as in records
	time uint64
	head bpf.Head
	data []byte // the data after the head
}

// missed is a sample whose stack BPF could not walk because a table or mapping was missing.
// The sample is nil if the kernel made none.
type missed struct {
	time   uint64
	pid    int32
	head   bpf.Head
	data   []byte // registers, stack
	sample []byte
	chain  int // position of the callchain in sample
	max    int // maximum number of its frames
}

// joined is the result of joining the rings' records.
type joined struct {
	out    []byte // records for the file
	missed []missed
	early  []endedEarly        // not yet counted by place
	ends   [bpf.NumEnds]uint64 // of walks
	single uint64              // samples without a stack from BPF
	unused uint64              // stacks from BPF without a sample
	cut    uint64              // stacks that did not fit into a record
	lostAt uint64              // time of the last LOST record, whose record in out has no time; 0: unknown
}

// joiner joins the records of a ring.
type joiner struct {
	ring    *perfevent.Ring
	cpu     int
	self    int32                // this process: BPF does not walk its stacks at tracepoints and probes
	first   uint64               // id of one of the first event's counters
	trailer format.SampleType    // fields of the sample id at the end of the events' records, 0 without
	events  map[uint64]ringEvent // by the ids of counters
	tally   *perfevent.Tally
	open    []found // innermost last
	rec     []byte
}

// join takes the records up to head out of the ring, and adds the joined records to j, as
// copies: the caller still has to release the ring's space.
func (n *joiner) join(j *joined, head uint64) {
	r := n.ring
	from := r.Read // start of the data that is not yet copied to j.out
	pos := r.Read
	for pos < head {
		h := r.Word(pos)
		size := h >> 48
		if size < 8 || size > head-pos {
			break // not a record: the file's reader reports it
		}
		switch format.Type(uint32(h)) {
		case format.TypeSample:
			l, known := n.events[r.Word(pos+8)]
			if !known || !l.walked && !l.output && l.emitter == nil {
				break
			}
			j.out = r.Append(j.out, from, pos)
			from = pos + size
			n.rec = r.Append(n.rec[:0], pos, from)
			if l.output {
				n.push(j, &l, n.rec)
			} else {
				if l.emitter != nil {
					n.rec = l.emitter.become(n.rec, &l)
				}
				if !l.walked {
					j.out = append(j.out, n.rec...)
					break
				}
				n.sample(j, &l, n.rec)
			}
		case format.TypeLost:
			n.open = n.open[:0] // the lost records may include stacks or their samples
			j.lostAt = n.tally.LostTime(r, pos)
			j.out = r.Append(j.out, from, pos)
			from = pos + size
			j.out = n.lost(r.Word(pos+16)).AppendTo(j.out, n.trailer)
		}
		pos += size
	}
	j.out = r.Append(j.out, from, head)
}

// write passes the records to write, and counts them.
func (j *joined) write(t *perfevent.Tally, write func([]byte) error) error {
	if len(j.out) == 0 {
		return nil
	}
	if err := write(j.out); err != nil {
		return err
	}
	t.Count(j.out)
	if j.lostAt != 0 {
		t.LostAt, j.lostAt = j.lostAt, 0
	}
	j.out = j.out[:0]
	return nil
}

// lost returns a LOST record of the file's first event: the ring's own record may belong to a
// BPF output event, which is not in the file.
func (n *joiner) lost(count uint64) *format.Lost {
	return &format.Lost{EventID: n.first, Lost: count, ID: format.RecordID{PID: -1, TID: -1, CPU: uint32(n.cpu), ID: n.first}}
}

// push stores a stack from BPF until its sample comes. No sample comes if the event's filter
// or cgroup does not match, which the kernel checks after the BPF program.
func (n *joiner) push(j *joined, e *ringEvent, rec []byte) {
	body := rec[format.HeaderSize:]
	at := e.Raw(body)
	if at < 0 {
		return
	}
	raw := body[at+4:]
	head, ok := bpf.ParseHead(raw)
	if !ok {
		return
	}
	if len(n.open) == maxNested { // the outermost stack's sample never came
		j.leave(n.take(0))
	}
	if len(n.open) < cap(n.open) {
		n.open = n.open[:len(n.open)+1]
	} else {
		n.open = append(n.open, found{})
	}
	f := &n.open[len(n.open)-1]
	f.tid = binary.LittleEndian.Uint64(body[e.TID:])
	f.time = binary.LittleEndian.Uint64(body[e.Time:])
	f.head = head
	f.data = append(f.data[:0], raw[bpf.HeadSize:]...)
}

// sample adds a sample with its stack from BPF.
func (n *joiner) sample(j *joined, e *ringEvent, rec []byte) {
	tid, time := e.word(rec, e.TID), e.word(rec, e.Time)
	chain := e.callchain(rec)
	f := n.pop(j, tid)
	switch {
	case f == nil && int32(tid) == n.self:
		j.ends[bpf.EndNoUser]++
		j.out = append(j.out, rec...)
	case f == nil || chain < 0:
		j.single++
		j.out = append(j.out, rec...)
	case f.head.Copy:
		j.missed = append(j.missed, missed{time: time, pid: int32(tid), head: f.head,
			data: append([]byte(nil), f.data...), sample: append([]byte(nil), rec...), chain: chain, max: e.max})
	default:
		frames := f.data[:8*f.head.Frames]
		j.ended(f.head, int32(tid), time, frames)
		j.add(rec, chain, e.max, frames)
	}
}

// ended counts how a stack that BPF walked ended.
func (j *joined) ended(head bpf.Head, pid int32, time uint64, frames []byte) {
	j.ends[head.End]++
	if head.End == bpf.EndEntry || head.End == bpf.EndNoUser {
		return
	}
	e := endedEarly{time: time, pid: pid, head: head}
	if n := len(frames); n > 0 {
		if e.ip = binary.LittleEndian.Uint64(frames[n-8:]); n > 8 {
			e.ip--
		}
	}
	j.early = append(j.early, e)
}

// pop returns the last stack of a thread. Nested samples belong to one thread; newer stacks
// of other threads still wait for their samples, because a thread can be preempted between a
// uprobe's program and its sample. If the thread has no stack, no stack of another thread can
// get a sample any more, except that the recorder's own samples never have a stack.
func (n *joiner) pop(j *joined, tid uint64) *found {
	for i := len(n.open) - 1; i >= 0; i-- {
		if n.open[i].tid == tid {
			return n.take(i)
		}
	}
	if int32(tid) == n.self {
		return nil
	}
	for i := range n.open {
		j.leave(&n.open[i])
	}
	n.open = n.open[:0]
	return nil
}

// take removes the ith open stack. The result is valid until the next push, which reuses its
// memory.
func (n *joiner) take(i int) *found {
	last := len(n.open) - 1
	f := n.open[i]
	copy(n.open[i:], n.open[i+1:])
	n.open[last] = f
	n.open = n.open[:last]
	return &n.open[:last+1][last]
}

// leave drops a stack that has no sample. A missing table is still requested, or BPF would
// keep asking for it.
func (j *joined) leave(f *found) {
	j.unused++
	if f.head.Copy {
		j.missed = append(j.missed, missed{time: f.time, pid: int32(f.tid), head: f.head, data: append([]byte(nil), f.data...)})
	}
}

// add appends a sample whose callchain has the user's frames after the kernel's, with at most
// so many frames.
func (j *joined) add(rec []byte, chain, most int, frames []byte) {
	frames = frames[:min(len(frames), 8*max(0, most-kernelFrames(rec, chain)))]
	if len(frames) == 0 {
		j.out = append(j.out, rec...)
		return
	}
	if room := maxRecord - len(rec) - 8; len(frames) > room {
		j.cut++
		frames = frames[:max(room, 0)&^7]
	}
	le := binary.LittleEndian
	at := len(j.out)
	n := le.Uint64(rec[chain:])
	end := chain + 8 + int(n)*8
	j.out = append(j.out, rec[:end]...)
	j.out = le.AppendUint64(j.out, format.ContextUser)
	j.out = append(j.out, frames...)
	j.out = append(j.out, rec[end:]...)
	le.PutUint64(j.out[at+chain:], n+1+uint64(len(frames)/8))
	le.PutUint16(j.out[at+6:], uint16(len(j.out)-at))
}

// kernelFrames returns the number of the kernel's frames in a callchain: its words except
// PERF_CONTEXT_KERNEL.
func kernelFrames(rec []byte, chain int) int {
	return max(0, int(binary.LittleEndian.Uint64(rec[chain:]))-1)
}

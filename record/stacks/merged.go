package stacks

import (
	"bytes"
	"encoding/binary"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/perfevent"
)

// unresolvedSample is a sample whose stack BPF could not walk because a table or mapping was
// missing. The sample is nil if the kernel made none.
type unresolvedSample struct {
	time   uint64
	pid    int32
	head   bpf.Head
	data   []byte // registers, stack
	sample []byte
	chain  int // position of the callchain in sample
	max    int // maximum number of frames in the callchain
	// space is the mappings at this time, which resolver.place finds; nil if they are unknown.
	space *addrSpace
}

// Merged is the result of merging the rings' records.
type Merged struct {
	Records []byte // for the file

	unresolved []unresolvedSample
	moved      []movedSample       // the stacks of these samples may be in other rings
	early      []earlyEnd          // not yet counted by place
	ends       [bpf.NumEnds]uint64 // of walks
	single     uint64              // samples without a stack from BPF
	unused     uint64              // stacks from BPF without a sample
	cut        uint64              // stacks that did not fit into a record
	names      *interpreted        // nil: stacks contain no functions of interpreters
	late       func(*Merged)       // adds further samples; may be nil
	lostAt     uint64              // time of the last LOST record, whose merged record contains no time; 0: unknown
}

// SetLate makes Complete call a function, which may add samples.
func (j *Merged) SetLate(late func(*Merged)) { j.late = late }

// Complete adds the samples that depend on the records of all rings, after these are merged.
func (j *Merged) Complete() {
	if j.late != nil {
		j.late(j)
	}
}

// Join adds a sample of event e with the user stack: frames, or a copy for the walk in Go.
func (j *Merged) Join(e *Event, rec []byte, head bpf.Head, data []byte) {
	chain := e.callchain(rec)
	if chain < 0 {
		j.Records = append(j.Records, rec...)
		return
	}
	if j.names != nil && !head.Copy {
		j.names.need(int32(e.word(rec, e.TID)), e.word(rec, e.Time), data)
	}
	j.join(&bpfStack{head: head, data: data}, rec, e.word(rec, e.TID), e.word(rec, e.Time), chain, e.max)
}

// JoinNone adds a sample of event e whose user stack was lost.
func (j *Merged) JoinNone(rec []byte) {
	j.single++
	j.Records = append(j.Records, rec...)
}

// Request requests the tables for a copy of a stack, which becomes part of no sample yet.
func (j *Merged) Request(pid int32, time uint64, head bpf.Head, data []byte) {
	j.unresolved = append(j.unresolved, unresolvedSample{time: time, pid: pid, head: head, data: data})
}

// Write passes the records to write, and counts them.
func (j *Merged) Write(t *perfevent.Tally, write func([]byte) error) error {
	if len(j.Records) == 0 {
		return nil
	}
	if err := write(j.Records); err != nil {
		return err
	}
	t.Count(j.Records)
	if j.lostAt != 0 {
		t.LostAt, j.lostAt = j.lostAt, 0
	}
	j.Records = j.Records[:0]
	return nil
}

// ended counts how a stack that BPF walked ended.
func (j *Merged) ended(head bpf.Head, pid int32, time uint64, frames []byte) {
	j.ends[head.End]++
	if head.End == bpf.EndEntry || head.End == bpf.EndNoUser {
		return
	}
	e := earlyEnd{time: time, pid: pid, head: head}
	if n := len(frames); n > 0 {
		e.only = n == 8
		if e.ip = binary.LittleEndian.Uint64(frames[n-8:]); n > 8 {
			e.ip--
		}
	}
	j.early = append(j.early, e)
}

// discard drops a stack without a sample. Missing tables are still requested, or BPF would keep asking.
func (j *Merged) discard(f *bpfStack) {
	j.unused++
	if f.head.Copy {
		j.Request(int32(f.tid), f.time, f.head, bytes.Clone(f.data))
	}
}

// join adds a sample with the stack from BPF.
func (j *Merged) join(f *bpfStack, rec []byte, tid, time uint64, chain, most int) {
	if f.head.Copy {
		j.unresolved = append(j.unresolved, unresolvedSample{time: time, pid: int32(tid), head: f.head,
			data: bytes.Clone(f.data), sample: bytes.Clone(rec), chain: chain, max: most})
		return
	}
	frames := f.data[:8*f.head.Frames]
	j.ended(f.head, int32(tid), time, frames)
	named := j.names.insert(int32(tid), time, &f.head, frames, f.data[len(frames):][:16*f.head.Interpreted])
	j.addNamed(rec, chain, most, frames, named)
}

// addNamed appends a sample with the frames in which functions replace native ones.
func (j *Merged) addNamed(rec []byte, chain, most int, native, named []byte) {
	at := len(j.Records)
	j.add(rec, chain, most, named)
	if len(native) > 0 && len(named) > 0 {
		replaceIP(j.Records[at:], native[:8], named[:8])
	}
}

// ipAt is the position of a sample's ip: it follows the identifier.
const ipAt = format.HeaderSize + 8

// replaceIP gives a sample of user code the ip of the function that replaced the innermost frame.
func replaceIP(rec, old, with []byte) {
	if len(rec) >= ipAt+8 && bytes.Equal(rec[ipAt:][:8], old) {
		copy(rec[ipAt:], with)
	}
}

// add appends a sample whose callchain contains the user's frames after the kernel's, with at most so many frames.
func (j *Merged) add(rec []byte, chain, most int, frames []byte) {
	frames = frames[:min(len(frames), 8*max(0, most-kernelFrames(rec, chain)))]
	if len(frames) == 0 {
		j.Records = append(j.Records, rec...)
		return
	}
	if room := maxRecord - len(rec) - 8; len(frames) > room {
		j.cut++
		frames = frames[:max(room, 0)&^7]
	}
	le := binary.LittleEndian
	at := len(j.Records)
	n := le.Uint64(rec[chain:])
	end := chain + 8 + int(n)*8
	j.Records = append(j.Records, rec[:end]...)
	j.Records = le.AppendUint64(j.Records, format.ContextUser)
	j.Records = append(j.Records, frames...)
	j.Records = append(j.Records, rec[end:]...)
	le.PutUint64(j.Records[at+chain:], n+1+uint64(len(frames)/8))
	le.PutUint16(j.Records[at+6:], uint16(len(j.Records)-at))
}

// kernelFrames returns the number of the kernel's frames in a callchain: the words except PERF_CONTEXT_KERNEL.
func kernelFrames(rec []byte, chain int) int {
	return max(0, int(binary.LittleEndian.Uint64(rec[chain:]))-1)
}

package stacks

import (
	"encoding/binary"

	"gperf/bpf"
)

// movedSample is a sample without a stack in the same ring. A thread can be preempted between a uprobe's program
// and the sample, and continue on another CPU: then the stack is in another ring.
type movedSample struct {
	ring      *Merger
	tid, time uint64
	ip        uint64 // the sampled instruction; 0 if it is unknown or in the kernel
	sample    []byte
	chain     int // position of the callchain in sample
	max       int // maximum number of frames in the callchain
}

// moved keeps the sample in n.rec until the stacks of all rings are known.
func (n *Merger) moved(j *Merged, e *Event, tid, time uint64, chain int) {
	m := movedSample{ring: n, tid: tid, time: time, sample: append([]byte(nil), n.rec...), chain: chain, max: e.max}
	if e.IP >= 0 {
		m.ip = e.word(n.rec, e.IP)
	}
	if int64(m.ip) < 0 {
		m.ip = 0
	}
	j.moved = append(j.moved, m)
}

// joinMoved adds the samples without a stack in the same ring, with the stacks if other rings contain them. If no
// ring contains a stack, no stack that waits in the sample's ring can get a sample any more, except stacks of
// threads that were moved.
func (j *Merged) joinMoved(mergers []*Merger) {
	var alone []*Merger
	for i := range j.moved {
		m := &j.moved[i]
		if n, at := m.findStack(mergers); n != nil {
			j.join(n.take(at), m.sample, m.tid, m.time, m.chain, m.max)
			continue
		}
		j.single++
		j.Records = append(j.Records, m.sample...)
		alone = append(alone, m.ring)
	}
	j.moved = j.moved[:0]
	for _, n := range alone {
		n.discardAll(j)
	}
}

// findStack returns the ring with the thread's last stack before the sample, and the place of the stack among the
// waiting ones; nil if there is none.
func (m *movedSample) findStack(mergers []*Merger) (ring *Merger, at int) {
	var newest uint64
	for _, n := range mergers {
		for i := range n.waiting {
			if f := &n.waiting[i]; f.tid == m.tid && f.time >= newest && f.time <= m.time && m.startsAt(f) {
				ring, at, newest = n, i, f.time
			}
		}
	}
	return ring, at
}

// startsAt reports whether a stack may belong to the sample: a walked one starts at the sampled instruction.
func (m *movedSample) startsAt(f *bpfStack) bool {
	return m.ip == 0 || f.head.Copy || f.head.End == bpf.EndNoUser || len(f.data) < 8 ||
		binary.LittleEndian.Uint64(f.data) == m.ip
}

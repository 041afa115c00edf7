package programs

import (
	"slices"

	"gperf/bpf"
)

// copied is a copy of the user stack of a thread that begins to wait.
type copied struct {
	pid  int32
	time uint64
	head bpf.Head
	data []byte
}

// copies keeps copies of stacks until the waits end.
type copies struct {
	byTID map[int32][]copied // by time
	fresh []copied           // added since the tables of copies were last requested
	bytes int
}

// maxCopies limits the memory of copies, in bytes. Waits whose copies are dropped are recorded without a user
// stack.
const maxCopies = 48 << 20

// add adds a copy. If there are too many, it drops the older ones.
func (l *copies) add(tid int32, c copied) {
	if l.bytes += len(c.data); l.bytes > maxCopies || l.byTID == nil {
		l.byTID, l.bytes = map[int32][]copied{}, len(c.data)
	}
	l.byTID[tid] = append(l.byTID[tid], c)
	l.fresh = append(l.fresh, c)
}

// slack is how much earlier than the start of the wait a copy may seem to be made, in ns. The two are measured by
// different clocks, and in virtual machines the CPUs' clocks differ.
const slack = 10e6

// late is the time after which the wait of an older copy does not come any more, in ns: rings are read
// once a second, and one after the other.
const late = 10e9

// take returns the copy of the stack of a wait from start to end, and removes it unless it is kept. It drops copies of
// the thread whose waits were lost. The copy is made directly before the start.
func (l *copies) take(tid int32, start, end uint64, keep bool) (c copied, ok bool) {
	of := l.byTID[tid]
	best := -1
	for i := range of {
		if t := of[i].time; t+slack < start || t > end {
			continue
		}
		if best < 0 || distance(of[i].time, start) < distance(of[best].time, start) {
			best = i
		}
	}
	if best < 0 {
		return c, false
	}
	c = of[best]
	of = slices.DeleteFunc(of, func(o copied) bool {
		drop := o.time == c.time && !keep || o.time+late < c.time
		if drop {
			l.bytes -= len(o.data)
		}
		return drop
	})
	if l.byTID[tid] = of; len(of) == 0 {
		delete(l.byTID, tid)
	}
	return c, true
}

// distance returns the time between two times, in ns.
func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }

package record

import (
	"golang.org/x/sys/unix"

	"gperf/internal/procfs"
)

// sleepers are the threads that sleep when the recording of waits starts. A wait becomes a sample if it begins during
// the recording, and theirs have begun before.
type sleepers struct {
	since    uint64         // CLOCK_MONOTONIC, in ns
	switches map[int]uint64 // by tid: how often they had stopped running until then
}

// findSleepers returns the sleeping ones of the recorded threads.
func findSleepers(threads []int) sleepers {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return sleepers{}
	}
	s := sleepers{uint64(now.Nano()), map[int]uint64{}}
	for _, tid := range threads {
		if n, asleep, err := procfs.Switches(tid); err == nil && asleep {
			s.switches[tid] = n
		}
	}
	return s
}

// remaining returns the sleepers that did not run since.
func (s sleepers) remaining() (tids []uint32) {
	for tid, switches := range s.switches {
		if now, asleep, err := procfs.Switches(tid); err == nil && asleep && now == switches {
			tids = append(tids, uint32(tid))
		}
	}
	return tids
}

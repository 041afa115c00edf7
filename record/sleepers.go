package record

import "gperf/internal/procfs"

// sleepers are the threads that sleep when the recording of waits starts: by tid, how often they had stopped
// running until then. A wait becomes a sample if it begins during the recording, and theirs have begun before.
type sleepers map[int]uint64

// findSleepers returns those of the recorded threads.
func findSleepers(threads []int) sleepers {
	s := sleepers{}
	for _, tid := range threads {
		if n, asleep, err := procfs.Switches(tid); err == nil && asleep {
			s[tid] = n
		}
	}
	return s
}

// remaining returns how many of them have not run since.
func (s sleepers) remaining() (n uint64) {
	for tid, switches := range s {
		if now, asleep, err := procfs.Switches(tid); err == nil && asleep && now == switches {
			n++
		}
	}
	return n
}

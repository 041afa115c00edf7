package record

import (
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"gperf/bpf"
)

// How much memory the recorder must be allowed, in bytes. With less than leastMemory, the kernel would end the
// recorder while it builds the unwind table of a compiler, which takes half of it. With less than smallMemory, all
// tables together take an eighth, and building them keeps nothing else.
const (
	leastMemory = 96 << 20
	smallMemory = 256 << 20
)

// rowsWithin returns the number of rows of unwind tables for a process that may use this many bytes of memory.
func rowsWithin(limit uint64) uint32 { return uint32(min(limit/8/bpf.RowSize, bpf.MaxRows)) }

// SmallMemoryError says that the recorder may use too little memory for unwind tables.
type SmallMemoryError struct{ Limit uint64 } // in bytes

func (e *SmallMemoryError) Error() string {
	return fmt.Sprintf("gperf's limit allows %d MB of memory, unwind tables need %d MB", e.Limit>>20, leastMemory>>20)
}

// Hint says how to allow more memory, or to record without unwind tables.
func (e *SmallMemoryError) Hint() string {
	return "Allow more (memory.max of its cgroup, ulimit -v); --call-graph fp records the same without this message.\n"
}

// settleTime is how long a recording runs until it returns the memory that only its start needed.
const settleTime = 5 * time.Second

// settle returns the memory of the heap that only the start needed. The kernel must not make huge pages of what stays:
// the free parts would come back with them. An error means that more memory stays in use.
func settle() {
	unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
	debug.FreeOSMemory()
}

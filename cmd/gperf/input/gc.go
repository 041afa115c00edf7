// This file sets how often garbage is collected: rarely, while little memory is in use.

package input

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"gperf/internal/procfs"
)

// Garbage is how much garbage a command allows. With a small live heap, rare collections save
// time for little memory; with a large one, they cost too much memory.
type Garbage struct {
	spare uint64 // bytes that are always allowed
	least uint64 // minimum GC percentage
	later uint64 // spare once the start is over, 0 for the same
}

// startTime is how long the start of a recorder takes at most, which reads the kernel's symbols and types.
const startTime = 5 * time.Second

var (
	// Reading a recording allocates garbage in proportion to the file's size.
	whileReading = Garbage{spare: 96 << 20, least: 40}
	// The recorder shares the machine with the target. It allocates garbage in proportion to the
	// number of processes that start.
	WhileRecording = Garbage{spare: 16 << 20, least: 40, later: 4 << 20}
	// A recorder that stays uses the same memory for weeks.
	WhileStaying = Garbage{spare: 2 << 20, least: 20}
)

// heapShare is the percentage of a memory limit for Go's allocations. The rest is for BPF maps, rings and files.
const heapShare = 60

// minHeap is the runtime's minimum heap, to which the GC percentage refers at first.
const minHeap = 4 << 20

// Tune sets the GC percentage, now and after each collection. Near the limit of the process's cgroup, where the kernel
// would kill gperf, garbage is collected all the time.
func (g Garbage) Tune() {
	if limit := procfs.MemoryLimit(); os.Getenv("GOMEMLIMIT") == "" && limit < math.MaxInt64 {
		debug.SetMemoryLimit(int64(limit / 100 * heapShare))
		g.spare = min(g.spare, limit/16)
	}
	debug.SetGCPercent(g.factor(minHeap))
	g.sentinel(time.Now())
}

// TuneReading sets the GC percentage for reading.
var TuneReading = sync.OnceFunc(whileReading.Tune)

// sentinel allocates an object whose collection adjusts the GC percentage and allocates
// the next sentinel.
func (g Garbage) sentinel(began time.Time) {
	s := new([16]byte)
	runtime.AddCleanup(s, func(struct{}) {
		if g.later > 0 && time.Since(began) > startTime {
			g.spare = min(g.spare, g.later)
		}
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(g.factor(live[0].Value.Uint64()))
		g.sentinel(began)
	}, struct{}{})
}

// factor returns the GC percentage for a live heap of this many bytes.
func (g Garbage) factor(live uint64) int {
	return int(max(g.spare*100/max(live, minHeap), g.least))
}

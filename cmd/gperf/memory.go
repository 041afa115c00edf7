package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Reading a recording makes garbage at the rate of the file, of which little
// stays. While that is little, collecting it seldom costs less memory than it
// saves time; when much stays, memory counts.
const (
	spareHeap   = 96 << 20 // bytes of garbage that may always be there
	minGCFactor = 100      // percent of what stays that may be there at least
	maxGCFactor = 2400     // of the 4 MiB that the runtime takes for the least
)

// tuneGC sets how much garbage may gather, now and after each collection.
var tuneGC = sync.OnceFunc(func() {
	debug.SetGCPercent(maxGCFactor)
	sentinel()
})

// sentinel is collected with the next garbage, and sets another one.
func sentinel() {
	s := new([16]byte)
	runtime.AddCleanup(s, func(struct{}) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(gcFactor(live[0].Value.Uint64()))
		sentinel()
	}, struct{}{})
}

// gcFactor is the percentage of garbage that may gather when live bytes stay.
func gcFactor(live uint64) int {
	return int(min(max(spareHeap*100/max(live, 1), minGCFactor), maxGCFactor))
}

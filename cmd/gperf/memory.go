package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Reading a recording allocates garbage in proportion to the file's size, with a small live
// heap. With a small live heap, rare collections save time for little memory; with a large
// one, they cost too much memory.
const (
	spareHeap   = 96 << 20 // bytes of garbage that are always allowed
	minGCFactor = 100      // minimum GC percentage
	maxGCFactor = 2400     // maximum: percent of the runtime's minimum heap of 4 MiB
)

// tuneGC sets the GC percentage, now and after each collection.
var tuneGC = sync.OnceFunc(func() {
	debug.SetGCPercent(maxGCFactor)
	sentinel()
})

// sentinel allocates an object whose collection adjusts the GC percentage and allocates
// the next sentinel.
func sentinel() {
	s := new([16]byte)
	runtime.AddCleanup(s, func(struct{}) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(gcFactor(live[0].Value.Uint64()))
		sentinel()
	}, struct{}{})
}

// gcFactor returns the GC percentage for a live heap of this many bytes.
func gcFactor(live uint64) int {
	return int(min(max(spareHeap*100/max(live, 1), minGCFactor), maxGCFactor))
}

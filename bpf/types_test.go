package bpf

import (
	"runtime"
	"testing"
	"time"
)

// The kernel's types are read once while they are used, and take no memory afterwards.
func TestTypesShared(t *testing.T) {
	first := Types()
	if Types() != first {
		t.Error("types that are in use were read again")
	}
	runtime.KeepAlive(first)
	first = nil
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) { // other tests may use them, too
		runtime.GC()
		types.mu.Lock()
		kept := types.cache.Value() != nil
		types.mu.Unlock()
		if !kept {
			return
		}
		if time.Now().After(end) {
			t.Fatal("types that nothing uses take memory")
		}
	}
}

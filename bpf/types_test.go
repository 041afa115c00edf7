package bpf

import (
	"runtime"
	"testing"
)

// The kernel's types are read once while they are used, and take no memory afterwards.
func TestTypesShared(t *testing.T) {
	first := Types()
	if Types() != first {
		t.Error("types that are in use were read again")
	}
	runtime.KeepAlive(first)
	first = nil
	runtime.GC()
	types.mu.Lock()
	defer types.mu.Unlock()
	if types.cache.Value() != nil {
		t.Error("types that nothing uses take memory")
	}
}

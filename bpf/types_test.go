package bpf

import (
	"runtime"
	"testing"
)

// The kernel's types are read once while they are used, and take no memory afterwards.
func TestTypesShared(t *testing.T) {
	var types sharedTypes // others use those of Types
	first := types.get()
	if types.get() != first {
		t.Error("types that are in use were read again")
	}
	runtime.KeepAlive(first)
	first = nil
	runtime.GC()
	if types.cache.Value() != nil {
		t.Error("types that nothing uses take memory")
	}
}

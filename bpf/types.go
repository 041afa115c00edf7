package bpf

import (
	"sync"
	"weak"

	"github.com/cilium/ebpf/btf"
)

// types are the types that were read last, while anything keeps them.
var types struct {
	mu    sync.Mutex
	cache weak.Pointer[btf.Cache]
}

// Types returns the types of the kernel and its modules. Reading the kernel's takes some 20 ms, so that all share them
// while one keeps them; a recording that has begun should not, because they take memory.
func Types() *btf.Cache {
	types.mu.Lock()
	defer types.mu.Unlock()
	if c := types.cache.Value(); c != nil {
		return c
	}
	c := btf.NewCache()
	types.cache = weak.Make(c)
	return c
}

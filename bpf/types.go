package bpf

import (
	"sync"
	"weak"

	"github.com/cilium/ebpf/btf"
)

// sharedTypes are the types that were read last, while anything keeps them.
type sharedTypes struct {
	mu    sync.Mutex
	cache weak.Pointer[btf.Cache]
}

var types sharedTypes

// Types returns the types of the kernel and its modules. Reading the kernel's takes some 20 ms, so that all share them
// while one keeps them; a recording that has begun should not, because they take memory.
func Types() *btf.Cache { return types.get() }

func (t *sharedTypes) get() *btf.Cache {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.cache.Value(); c != nil {
		return c
	}
	c := btf.NewCache()
	t.cache = weak.Make(c)
	return c
}

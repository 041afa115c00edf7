package symbolize

import (
	"strings"

	"gperf/internal/dso"
	"gperf/unwind"
)

// UserCall returns the file offset that names a return address, which is at file offset off of the DSO recorded at path
// with build ID id (zero if not recorded): off-1, which belongs to the call. A call that never returns may be the last
// instruction of its function, and another function starts at off. It returns off if no call ends there, such as where
// a signal interrupted a function at its start, at the code that returns from a signal, or where a thread begins.
func (s *Symbolizer) UserCall(path string, id dso.BuildID, off uint64) uint64 {
	d := s.userSymbols.dso(path, id)
	before, _, _ := d.symbol(off - 1)
	if before != nil && off < before.End && d.table.search == nil { // no other symbol is at off
		return off - 1
	}
	at, _, _ := d.symbol(off)
	if before == at {
		return off - 1
	}
	called, known := s.called(path, id, off)
	if called || !known && before != nil {
		return off - 1
	}
	return off
}

// maxCall is the length of the longest call, in bytes.
const maxCall = 8

// called reports whether a call ends before off. known is false if the code cannot be read.
func (s *Symbolizer) called(path string, id dso.BuildID, off uint64) (called, known bool) {
	if dso.IsFunctions(path) || off < maxCall {
		return false, false // functions of runtimes have no instructions
	}
	c, err := s.UserCode(path, id, off-maxCall, off)
	if err != nil || len(c.Bytes) < maxCall {
		return false, false
	}
	return unwind.EndsWithCall(c.Machine, c.Bytes), true
}

// padding begins the names of the space before the kernel's functions (Linux 6.2 and later), which has no calls.
const padding = "__pfx_"

// KernelCall returns the ip that names a return address in the kernel, as UserCall does: the kernel's functions call
// each other, so that the function at ip is the caller's only if there is none before it, or if an interrupt came at
// its first instruction.
func (s *Symbolizer) KernelCall(ip uint64) uint64 {
	before, _, _, why := s.kernelSymbols.symbol(ip - 1)
	if why != Found || strings.HasPrefix(before.Name, padding) {
		return ip
	}
	return ip - 1
}

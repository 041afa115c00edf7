package programs

import (
	"encoding/binary"

	"gperf/format"
)

// thread is the thread of a sample.
type thread struct{ pid, tid uint32 }

// sample returns a sample of an attr, for a wait, with the kernel's part of its callchain. Its ip is the
// innermost frame of the kernel, or that of user space if kernel code is excluded or unknown.
func (w *wait) sample(a *format.Attr, of thread, stack callers) []byte {
	le := binary.LittleEndian
	kernel := stack.kernel
	if a.Flags&format.FlagExcludeKernel != 0 {
		kernel = nil
	}
	mode, ip := format.MiscKernel, uint64(0)
	switch {
	case len(kernel) > 0:
		ip = le.Uint64(kernel)
	case len(stack.user) > 0:
		mode, ip = format.MiscUser, le.Uint64(stack.user)
	}
	if a.Flags&format.FlagExcludeCallchainKernel != 0 {
		kernel = nil
	}
	if n := 8 * int(a.SampleMaxStack); n > 0 && len(kernel) > n {
		kernel = kernel[:n]
	}
	one := format.Sample{Misc: mode, ID: a.IDs[0], IP: ip, PID: int32(of.pid), TID: int32(of.tid), Time: w.time,
		CPU: w.cpu, Period: w.Duration, Callchain: kernelChain(kernel)}
	return one.AppendTo(nil, a.SampleType)
}

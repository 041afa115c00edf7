package session

import (
	"gperf/format"
	"gperf/internal/container"
	"gperf/unwind"
)

// Sample is a sample with its thread and frames. It belongs to a Batch: Batch.Release invalidates it, with the
// bytes that it borrows from the file's records (Raw, Callchain, UserStack, …). Frames and Thread stay valid.
type Sample struct {
	format.Sample
	Thread *Thread // at the sample's time; Thread.Comm may change later
	Comm   string
	Named  bool   // Comm is a name, not the thread's number
	Leaf   *Frame // of the sample's IP
	// Chain is the callchain. Release invalidates it except with
	// WalkOptions.KeepChains.
	Chain
	// Unwound means that the user frames were unwound from a stack copy; End is the
	// reason why they end.
	Unwound bool
	End     unwind.Reason

	Cgroup string // path, "" if not recorded
	// Container is the container or pod that the cgroup's path names, or nil.
	Container *container.Named
	// Parallelism is the number of the recording's threads that ran at the sample's
	// time, at least 1; context switches change it.
	Parallelism int
	// Namespaces are the thread's at the sample's time, nil without NAMESPACES records.
	Namespaces []format.Namespace
	// Branches holds the addresses of the branch stack, from and to in turn
	// (WalkOptions.Branches).
	Branches []*Frame
	Data     *Frame // of Addr (WalkOptions.Data)
	// Waker is the thread or interrupt that ended the sample's wait. It is nil for other samples, and if unknown.
	Waker *Waker

	maps   *maps   // of the process at the sample's time
	frames *frames // of the walk
	parts  parts   // of the callchain, see predecoded
}

// ResolveData returns the frame of the data that the sample accessed, in the address space of its instruction. It must
// be called during Walk's use, or by Session.Select.
func (s *Sample) ResolveData() *Frame { return s.frames.mode(s, s.Addr, false) }

// abi32 is PERF_SAMPLE_REGS_ABI_32.
const abi32 = 1

// Is32Bit reports whether pointers of the sample's program are 32 bits wide. Without registers, the mappings show
// it: the latest one of the vDSO, or else the highest mapping.
func (s *Sample) Is32Bit() bool {
	if s.UserRegsABI != 0 {
		return s.UserRegsABI == abi32
	}
	switch {
	case s.maps == nil:
		return false
	case s.maps.pointers != 0:
		return s.maps.pointers == 32
	}
	last := s.maps.space.Last()
	return last != nil && last.End <= 1<<32
}

// Guest reports whether the sample was taken in a virtual machine. The recording contains no mappings of guests, so
// that guest addresses are not resolved.
func (s *Sample) Guest() bool {
	mode := s.Misc & format.MiscCPUModeMask
	return mode == format.MiscGuestKernel || mode == format.MiscGuestUser
}

// inKernel reports whether the sampled instruction is the kernel's.
func (s *Sample) inKernel() bool { return s.Misc&format.MiscCPUModeMask == format.MiscKernel }

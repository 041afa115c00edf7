package runtimes

import (
	"io"
	"time"
)

// Native is a runtime whose functions run in native frames of their own, rather than in the frames of the
// interpreter's function.
type Native interface {
	Process
	// Bind returns the functions that a native frame runs. It is called for frames in generated code, and for
	// frames with an interpreted frame from BPF. An error costs the names of this frame.
	Bind(mem io.ReaderAt, f NativeFrame) (Bound, error)
}

// NativeFrame is a native frame of a process.
type NativeFrame struct {
	// IP is the address of an instruction. For callers, it is an address in the call.
	IP uint64
	// Generation is a number that changes when the process unloads functions and may use the memory for other
	// functions.
	Generation uint32
	// Generated means that the code is in no file.
	Generated bool
	// Passed is the interpreted frame that BPF read, if Has is true.
	Passed Interpreted
	Has    bool
}

// Bound is the functions of a native frame.
type Bound struct {
	// Functions are for Process.Function, the innermost first: each one is inlined into the next.
	Functions []Interpreted
	// Others are functions whose names may be needed later, when the process may be gone.
	Others []Interpreted
	// Replaces means that the functions take the frame's place. Otherwise they follow the frame, as callers.
	Replaces bool
	// Partial means that not all could be read: Bind may return more later.
	Partial bool
}

// Renewed is a runtime whose generated code makes way for other code.
type Renewed interface {
	// Stale reports whether earlier results of Bind may be wrong now, and after which time to call Stale again.
	Stale(mem io.ReaderAt) (stale bool, pause time.Duration)
}

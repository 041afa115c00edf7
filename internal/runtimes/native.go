package runtimes

import (
	"io"
	"time"
)

// Native is a runtime whose functions run in native frames of their own, rather than in those of an interpreter's one
// function.
type Native interface {
	Process
	// Bind returns the functions that a native frame runs. It is called for frames in generated code, and for those
	// that BPF has passed an interpreted frame for. An error costs the names of this frame.
	Bind(mem io.ReaderAt, f NativeFrame) (Bound, error)
}

// NativeFrame is a native frame of a process.
type NativeFrame struct {
	// IP is the address of an instruction: of a frame that has called another one, an address in its call.
	IP uint64
	// Generation is a number that changes when the process has unloaded functions, whose memory it may use for others.
	Generation uint32
	// Generated means that the code is in no file.
	Generated bool
	// Passed is what BPF has read for the frame, if Has is true.
	Passed Interpreted
	Has    bool
}

// Bound is the functions of a native frame.
type Bound struct {
	// Functions are for Process.Function, the innermost first: the others have it inlined.
	Functions []Interpreted
	// Others are functions whose names may be needed later, when the process may have exited.
	Others []Interpreted
	// Replaces means that the functions take the frame's place. Otherwise they follow it, as its callers.
	Replaces bool
	// Partial means that not all could be read: Bind may return more later.
	Partial bool
}

// Renewed is a runtime whose generated code makes way for other code.
type Renewed interface {
	// Stale reports whether what Bind has returned may be wrong now, and after which time it should be called again.
	Stale(mem io.ReaderAt) (stale bool, pause time.Duration)
}

package runtimes

import "io"

// Memory is the memory of a process.
type Memory interface {
	io.ReaderAt
	// Generated reports whether an address is in code without a file, or in the code of a virtual machine.
	Generated(ip uint64) bool
	// BeginsFiber reports whether fibers begin with the code at an address.
	BeginsFiber(ip uint64) bool
}

// Stack is a stack of a process, as the BPF programs read it.
type Stack struct {
	Mem         Memory
	Native      []byte        // the ip, and the return addresses of the callers, 8 bytes each
	Interpreted []Interpreted // the innermost first
	Complete    bool          // Native has all callers
	Generation  uint32        // changes when the process unloads functions and may use the memory for others
	Retry       bool          // Frames reads the functions again that it could not read before

	parts []Part // reused
}

// Decode sets the interpreted frames: two words each.
func (s *Stack) Decode(b []byte) {
	const nativeShift = 48
	for s.Interpreted = s.Interpreted[:0]; len(b) >= 16; b = b[16:] {
		code, at := le.Uint64(b), le.Uint64(b[8:])
		s.Interpreted = append(s.Interpreted, Interpreted{Code: code & (1<<nativeShift - 1), Check: uint32(at >> 32),
			Off: uint32(at) &^ 1, First: at&1 != 0, Native: uint16(code >> nativeShift)})
	}
}

// len returns the number of native frames.
func (s *Stack) len() int { return len(s.Native) / 8 }

// ip returns the address of a native frame's instruction. For callers, it is an address in the call.
func (s *Stack) ip(i int) uint64 {
	return le.Uint64(s.Native[8*i:]) - uint64(min(i, 1))
}

// Part is a part of a stack: native frames, and functions that the last one runs.
type Part struct {
	Native []byte // Stack's
	// Functions are for Process.Function, the innermost first. They follow the native frames, as callers.
	Functions []Interpreted
	// Replaces means that the functions take the last native frame's place, if at least one of them can be named.
	Replaces bool

	// Frames returns the following once for a native frame, and again after Stack.Retry.

	// Others are functions whose names may be needed later, when the process may be gone.
	Others []Interpreted
	// Partial means that not all functions could be read. Err is the reason, if that costs all names of the frame.
	Partial bool
	Err     error
}

package record

import (
	"errors"
	"fmt"
	"runtime"
)

// UnwindError is a notice: user stacks are not unwound in the kernel, why, and which
// data is recorded instead.
type UnwindError struct {
	Err       error
	StackDump uint16 // bytes copied of each stack; 0: frame pointers are recorded
}

func (e *UnwindError) Error() string {
	instead := "recording frame pointers instead"
	if e.StackDump > 0 {
		instead = fmt.Sprintf("copying %d bytes of each stack instead", e.StackDump)
	}
	const msg = "cannot unwind stacks in the kernel (%v), %s: functions of Python and other runtimes have no names"
	return fmt.Sprintf(msg, e.Err, instead)
}
func (e *UnwindError) Unwrap() error { return e.Err }

// instead returns the data to record if user stacks cannot be unwound in the kernel.
func instead(err error) *UnwindError {
	small := (*SmallMemoryError)(nil)
	if errors.Is(err, errOverwrite) || errors.As(err, &small) || !unwound[runtime.GOARCH] {
		return &UnwindError{err, 0}
	}
	return &UnwindError{err, DefaultStackDump}
}

// unwound are the architectures whose copies of stacks gperf unwinds when it reads them.
var unwound = map[string]bool{"386": true, "amd64": true, "arm64": true}

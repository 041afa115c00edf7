package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// SpecError is a probe that cannot be meant so.
type SpecError struct{ Spec, Msg string }

func (e *SpecError) Error() string { return fmt.Sprintf("probe %q: %s", e.Spec, e.Msg) }

// AccessError says that a file of tracefs that defines probes can not be used.
// Err is fs.ErrNotExist where the kernel has no such probes.
type AccessError struct {
	File string // kprobe_events, uprobe_events
	Err  error
}

func (e *AccessError) Error() string {
	if errors.Is(e.Err, fs.ErrNotExist) {
		return fmt.Sprintf("this kernel has no %ss (tracefs has no %s)", strings.TrimSuffix(e.File, "_events"), e.File)
	}
	return fmt.Sprintf("%s: %v", e.File, errno(e.Err))
}
func (e *AccessError) Unwrap() error { return e.Err }

// InstallError says that the kernel does not take a probe.
type InstallError struct {
	Probe *Probe
	Line  string // its definition
	Err   error
	// Log is what the kernel says about it: a sentence. Column is where in Line
	// that is, -1 if the kernel does not tell.
	Log    string
	Column int
}

func (e *InstallError) Error() string {
	if e.Log != "" {
		return fmt.Sprintf("probe %s: %s (%v)", e.Probe, e.Log, e.Err)
	}
	return fmt.Sprintf("probe %s (%s): %v", e.Probe, e.Line, e.Err)
}
func (e *InstallError) Unwrap() error { return e.Err }

// DeleteError says that a probe stays: EBUSY, for somebody records it.
type DeleteError struct {
	Event string
	Err   error
}

func (e *DeleteError) Error() string {
	if errors.Is(e.Err, syscall.EBUSY) {
		return fmt.Sprintf("remove probe %s: somebody is recording it", e.Event)
	}
	return fmt.Sprintf("remove probe %s: %v", e.Event, e.Err)
}
func (e *DeleteError) Unwrap() error { return e.Err }

// errno is the bare reason of an error that names a file.
func errno(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

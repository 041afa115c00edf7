package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
)

// SpecError is a probe that cannot be meant so.
type SpecError struct{ Spec, Msg string }

func (e *SpecError) Error() string { return fmt.Sprintf("probe %q: %s", e.Spec, e.Msg) }

// NoFunctionError says that the kernel has no such function.
type NoFunctionError struct {
	Spec, Name string
	Module     string   // that was asked for; "" for none
	Loaded     bool     // whether it is
	Near       []string // functions with names like it, best first
}

func (e *NoFunctionError) Error() string {
	if !e.Loaded {
		return fmt.Sprintf("probe %q: the module %s is not loaded", e.Spec, e.Module)
	}
	s := fmt.Sprintf("probe %q: the kernel has no function %s", e.Spec, e.Name)
	if e.Module != "" {
		s = fmt.Sprintf("probe %q: %s has no function %s", e.Spec, e.Module, e.Name)
	}
	if len(e.Near) > 0 {
		s += ": did you mean " + strings.Join(e.Near, ", ") + "?"
	}
	return s
}

// SkippedError says of how many functions that a glob means there can be no probe,
// and why. It comes as a notice, unless that are all of them.
type SkippedError struct {
	Glob    string
	Of      int            // functions that it means
	Skipped int            // of them
	Why     map[string]int // how many, by reason
}

func (e *SkippedError) Error() string {
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(e.Why)) {
		why = append(why, fmt.Sprintf("%d: %s", e.Why[reason], reason))
	}
	return fmt.Sprintf("probe %q: %d of %d functions cannot be probed (%s)", e.Glob, e.Skipped, e.Of, strings.Join(why, "; "))
}

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
	Why    string // what is known against a probe there; "": nothing
}

func (e *InstallError) Error() string {
	if errors.Is(e.Err, syscall.EILSEQ) {
		return fmt.Sprintf("probe %s: %s+%#x is inside of an instruction", e.Probe, e.Probe.Symbol, e.Probe.Off)
	}
	if e.Why != "" {
		return fmt.Sprintf("probe %s: %s cannot be probed: %s", e.Probe, e.Probe.Symbol, e.Why)
	}
	if e.Log != "" {
		return fmt.Sprintf("probe %s: %s (%v)", e.Probe, e.Log, e.Err)
	}
	return fmt.Sprintf("probe %s (%s): %v", e.Probe, e.Line, e.Err)
}
func (e *InstallError) Unwrap() error { return e.Err }

// reason is why a probe is refused, in words that several can share.
func reason(err error) string {
	var e *InstallError
	switch {
	case !errors.As(err, &e):
		return err.Error()
	case e.Why != "":
		return e.Why
	case e.Log != "":
		return "the kernel says: " + e.Log
	}
	return e.Err.Error()
}

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

package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"

	"gperf/record/probe/args"
	"gperf/record/probe/program"
)

// SpecError means that a probe is specified wrongly.
type SpecError = args.SpecError

// PartialError means that a probe misses calls of a function.
type PartialError = program.PartialError

// SkippedError means that some functions of a glob cannot be probed, and why. It is a notice,
// unless it concerns all of them.
type SkippedError struct {
	Glob    string
	Of      int            // functions that the glob matches
	Skipped int            // functions that cannot be probed
	Why     map[string]int // number of skipped functions, by reason
}

func (e *SkippedError) Error() string {
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(e.Why)) {
		why = append(why, fmt.Sprintf("%d: %s", e.Why[reason], reason))
	}
	return fmt.Sprintf("probe %q: %d of %d functions cannot be probed (%s)", e.Glob, e.Skipped, e.Of,
		strings.Join(why, "; "))
}

// AccessError means that a file of tracefs that defines probes cannot be used. Err is fs.ErrNotExist if the kernel
// does not support these probes.
type AccessError struct {
	File string // kprobe_events, uprobe_events
	Err  error
}

func (e *AccessError) Error() string {
	if errors.Is(e.Err, fs.ErrNotExist) {
		return fmt.Sprintf("this kernel has no %ss (tracefs has no %s)", strings.TrimSuffix(e.File, "_events"), e.File)
	}
	return fmt.Sprintf("%s: %v", e.File, program.Errno(e.Err))
}
func (e *AccessError) Unwrap() error { return e.Err }

// InstallError means that the kernel rejected a probe.
type InstallError struct {
	Probe *Probe
	Line  string // the probe's definition
	Err   error
	// Log is the kernel's message about it. Column is the position in Line that it refers to,
	// -1 if unknown.
	Log    string
	Column int
	Why    string // known reason against a probe there; "": none
}

func (e *InstallError) Error() string {
	if errors.Is(e.Err, syscall.EILSEQ) {
		return fmt.Sprintf("probe %s: %s+%#x is inside an instruction", e.Probe, e.Probe.Symbol, e.Probe.Off)
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

// WrongUse reports whether the command line caused the error: no probe can be at this place.
func (e *InstallError) WrongUse() bool { return e.Why != "" || errors.Is(e.Err, syscall.EILSEQ) }

// reason returns why a probe is rejected, without details of the single probe.
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

// DeleteError means that a probe was not removed: EBUSY if it is in use.
type DeleteError struct {
	Event string
	Err   error
}

func (e *DeleteError) Error() string {
	if errors.Is(e.Err, syscall.EBUSY) {
		return fmt.Sprintf("remove probe %s: it is being recorded", e.Event)
	}
	return fmt.Sprintf("remove probe %s: %v", e.Event, e.Err)
}
func (e *DeleteError) Unwrap() error { return e.Err }

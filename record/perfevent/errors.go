package perfevent

import (
	"errors"
	"fmt"
	"strings"

	"gperf/record/event"
)

// OpenError means that perf_event_open refused an event.
type OpenError struct {
	Event event.Event
	CPU   int   // -1: any
	TID   int   // -1: all threads
	Err   error // an errno
}

func (e *OpenError) Error() string {
	if noPMU(e.Err) && e.Event.Cgroup == "" {
		return fmt.Sprintf("the %s event is not supported: %v", e.Event.Name, e.Err)
	}
	where := onTarget(e.CPU, e.TID)
	if e.Event.Cgroup != "" {
		where += " for cgroup " + e.Event.Cgroup
	}
	return fmt.Sprintf("opening event %s%s: %v", e.Event.Name, where, e.Err)
}
func (e *OpenError) Unwrap() error { return e.Err }

// ErrNoBranches means that the PMU does not record branches for an event.
var ErrNoBranches = errors.New("PMU hardware or event type doesn't support branch stack sampling")

// onTarget returns where a counter counts.
func onTarget(cpu, tid int) (s string) {
	if cpu >= 0 {
		s += fmt.Sprintf(" on CPU %d", cpu)
	}
	if tid > 0 {
		s += fmt.Sprintf(" for thread %d", tid)
	}
	return s
}

// PMUCPUsError means that an event's PMU counts on none of the CPUs to record.
type PMUCPUsError struct {
	Event string
	CPUs  []int
}

func (e *PMUCPUsError) Error() string {
	return fmt.Sprintf("event %s: its PMU counts on the CPUs %s only", e.Event, strings.Trim(fmt.Sprint(e.CPUs), "[]"))
}

// CgroupError means that a cgroup cannot be recorded.
type CgroupError struct {
	Name string
	Err  error
}

func (e *CgroupError) Error() string { return fmt.Sprintf("cgroup %q: %v", e.Name, e.Err) }
func (e *CgroupError) Unwrap() error { return e.Err }

// FilterError means that an event's filter cannot be set, and why.
type FilterError struct {
	Event, Filter string
	Err           error
}

func (e *FilterError) Error() string {
	return fmt.Sprintf("failed to set filter %q on event %s: %v", e.Filter, e.Event, e.Err)
}
func (e *FilterError) Unwrap() error { return e.Err }

// WrongUse reports that the command line caused the error.
func (e *FilterError) WrongUse() bool { return true }

// MapError means that a ring of Pages pages could not be mapped.
type MapError struct {
	Pages int
	Err   error
}

func (e *MapError) Error() string {
	return fmt.Sprintf("mapping a ring of %d pages: %v", e.Pages, e.Err)
}
func (e *MapError) Unwrap() error { return e.Err }

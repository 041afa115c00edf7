package record

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// NoTargetError means that a process, thread or CPU to record does not exist.
type NoTargetError struct {
	Kind string // "process", "thread", "CPU", "user"
	ID   int
}

func (e *NoTargetError) Error() string {
	if e.Kind == "user" {
		return fmt.Sprintf("user %d runs no process", e.ID)
	}
	return fmt.Sprintf("no such %s: %d", e.Kind, e.ID)
}

// CommandError means that the command to record could not be started.
type CommandError struct {
	Command string
	Err     error
}

func (e *CommandError) Error() string {
	switch {
	case errors.Is(e.Err, fs.ErrNotExist) && !strings.Contains(e.Command, "/"):
		return fmt.Sprintf("cannot run %s: there is no such program in $PATH", e.Command)
	case errors.Is(e.Err, syscall.ENOEXEC):
		return fmt.Sprintf("cannot run %s: it is neither a program for this machine nor a script with #!", e.Command)
	}
	return fmt.Sprintf("cannot run %s: %v", e.Command, e.Err)
}
func (e *CommandError) Unwrap() error { return e.Err }

// FreqError is a notice: the requested frequency exceeds the kernel's maximum. The recording
// uses Max.
type FreqError struct{ Freq, Max uint64 }

func (e *FreqError) Error() string {
	return fmt.Sprintf("maximum frequency rate (%d Hz) exceeded, throttling from %d Hz to %d Hz", e.Max, e.Freq, e.Max)
}

// ErrKernelHidden is a notice: /proc/kallsyms hides the kernel's addresses from this user.
var ErrKernelHidden = errors.New("kernel addresses are hidden: samples in the kernel will have no names")

// errBigEndian means that the kernel writes samples in another byte order than gperf writes files.
var errBigEndian = errors.New("gperf does not record on big-endian machines: gperf reads what perf record writes there")

// errNotTraceable means that ftrace, which BPF programs use to run at functions, excludes the
// function.
var errNotTraceable = errors.New("no BPF program can run at this function (see available_filter_functions in tracefs)")

// OneCgroupError means that events have different cgroups, and BPF programs make the samples of one of them.
type OneCgroupError struct{ Event string }

func (e *OneCgroupError) Error() string {
	return e.Event + ": BPF programs make its samples, of one cgroup for all events: use one -G NAME, after all events"
}

// WrongUse reports that the command line caused the error.
func (e *OneCgroupError) WrongUse() bool { return true }

// ErrConditional means that an event of BPF programs has settings that only kernel events
// support.
var ErrConditional error = useError("raw tracepoints, tracepoints with arguments or packets, xdp:drop and " +
	"tc:drop support no modifiers, terms or groups; tracepoints without arguments do")

// useError is an error that the command line caused.
type useError string

func (e useError) Error() string { return string(e) }

// WrongUse reports that the command line caused the error.
func (e useError) WrongUse() bool { return true }

// OneByOneError is a notice: each of many probes is set separately, which takes longer.
type OneByOneError struct {
	N   int
	Err error
}

func (e *OneByOneError) Error() string {
	return fmt.Sprintf("setting %d probes one by one: %v", e.N, e.Err)
}
func (e *OneByOneError) Unwrap() error { return e.Err }

// LeftOutError is a notice: some functions are not recorded.
type LeftOutError struct {
	N, Of   int
	Example string // one of them
}

func (e *LeftOutError) Error() string {
	return fmt.Sprintf("skipped %d of %d functions, such as %s: %v", e.N, e.Of, e.Example, errNotTraceable)
}

// MapsHiddenError is a notice: the user may not read the mappings of other users' processes.
type MapsHiddenError struct{ Processes int }

func (e *MapsHiddenError) Error() string {
	const msg = "cannot read the mappings of %d processes (CAP_SYS_PTRACE): their functions will have no names"
	return fmt.Sprintf(msg, e.Processes)
}

// RingsError is a notice: the rings are smaller than usual.
type RingsError struct{ Pages, Usual int }

func (e *RingsError) Error() string {
	return fmt.Sprintf("rings of %d pages each instead of %d: "+
		"locked memory is limited (kernel.perf_event_mlock_kb, CAP_IPC_LOCK)", e.Pages, e.Usual)
}

// ChildlessError is a notice: these events, whose samples include counts, cannot count the programs and threads that
// the target starts.
type ChildlessError struct{ Events []string }

func (e *ChildlessError) Error() string {
	return fmt.Sprintf("%s: before Linux 6.12, events with the modifier S do not count the programs and threads that "+
		"start later: record all CPUs (-a), or remove S", strings.Join(e.Events, ", "))
}

// StartedError is a notice: so many threads of the target started while its counters were opened.
type StartedError struct{ Threads int }

func (e *StartedError) Error() string {
	return fmt.Sprintf("threads that started while the events were opened may have no samples: %d (-a records all "+
		"threads, and so does -p PID after kill -STOP PID)", e.Threads)
}

// UnrecordedCPUError is a notice: a CPU came online, and is not recorded.
type UnrecordedCPUError struct {
	CPU int
	Err error
}

func (e *UnrecordedCPUError) Error() string {
	return fmt.Sprintf("CPU %d came online, but is not recorded: %v", e.CPU, e.Err)
}
func (e *UnrecordedCPUError) Unwrap() error { return e.Err }

// Reasons of an UnrecordedCPUError.
var (
	ErrNewCPU  = errors.New("it was offline when the recording began (start another recording to include it)")
	errOldRing = errors.New("its ring was read-only, for --overwrite (start another recording to include it)")
)

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"gperf/format"
	"gperf/record"
	"gperf/record/event"
	"gperf/record/probe"
	"gperf/record/tracefs"
)

// errUsage marks wrong use of a command.
type errUsage struct{ msg string }

func (e *errUsage) Error() string { return e.msg }

func wrongUse(msg string, args ...any) error { return &errUsage{fmt.Sprintf(msg, args...)} }

// fail tells why a command failed and what can be done, and returns the exit code.
func fail(command string, err error, stderr io.Writer) int {
	fmt.Fprintf(stderr, "gperf %s: %v\n%s", command, err, hint(err))
	var usage *errUsage
	var spec *event.SpecError
	var unknown *event.UnknownError
	var place *probe.SpecError
	var filter *record.FilterError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "`gperf help %s` tells its flags.\n", command)
		return exitUsage
	case errors.As(err, &spec), errors.As(err, &unknown), errors.As(err, &place), errors.As(err, &filter):
		return exitUsage
	}
	return exitError
}

// hint says, in whole lines, what to do about an error; "" where nothing is
// known.
func hint(err error) string {
	var open *record.OpenError
	var tracefs *tracefs.NotFoundError
	var install *probe.InstallError
	var ring *record.MapError
	var out *record.OutputError
	var freq *record.FreqError
	switch {
	case errors.As(err, &open):
		return openHint(open)
	case errors.As(err, &tracefs):
		return tracefsHint(tracefs)
	case errors.As(err, &install) && errors.Is(err, fs.ErrPermission):
		return tracefsRights
	case errors.As(err, &ring):
		return ringHint(ring)
	case errors.As(err, &out):
		return outputHint(out)
	case errors.As(err, &freq):
		return "         The limit can be raised via /proc/sys/kernel/perf_event_max_sample_rate;\n" +
			"         the kernel lowers it when sampling takes too long.\n"
	case errors.Is(err, record.ErrKernelHidden):
		return "         See /proc/sys/kernel/kptr_restrict (0 shows addresses to everybody, 1 to those with CAP_SYSLOG) and\n" +
			"         /proc/sys/kernel/perf_event_paranoid.\n"
	}
	return ""
}

func openHint(e *record.OpenError) string {
	switch {
	case errors.Is(e.Err, syscall.EACCES), errors.Is(e.Err, syscall.EPERM):
		return paranoidHint()
	case errors.Is(e.Err, syscall.ENOENT) && e.Event.Cgroup != "":
		return "The kernel has no perf events for this control group: its controller perf_event may belong to another hierarchy\n" +
			"(/proc/cgroups, /proc/mounts), or, of version 2, none of the controllers were ever handed down to it:\n" +
			"    echo +pids > /sys/fs/cgroup/cgroup.subtree_control\n"
	case errors.Is(e.Err, syscall.ENOENT), errors.Is(e.Err, syscall.ENXIO), errors.Is(e.Err, syscall.ENODEV), errors.Is(e.Err, syscall.EOPNOTSUPP):
		return "This machine, or the virtual machine it is, does not support the event: it has no PMU for it.\ncpu-clock, a timer, is there everywhere.\n"
	case errors.Is(e.Err, syscall.EMFILE):
		return "Every event takes a file on every CPU for every thread. Raise the limit (ulimit -Hn, as root), or name fewer\nevents, CPUs (-C) or threads.\n"
	case errors.Is(e.Err, syscall.ESRCH):
		return "The process or thread has ended.\n"
	case errors.Is(e.Err, syscall.EINVAL) && e.Event.Type > format.TypeBreakpoint:
		return "The PMU does not take the event like that. Some PMUs only count and cannot be sampled (msr, power, most uncore\n" +
			"ones), or count for whole CPUs only (-a).\n"
	case errors.Is(e.Err, syscall.EOVERFLOW):
		return "Callchains have at most as many frames as /proc/sys/kernel/perf_event_max_stack says: raise it, or ask for fewer.\n"
	case errors.Is(e.Err, syscall.ENOSPC) && e.Event.Type == format.TypeBreakpoint:
		return "The processor has no breakpoint left: on x86 there are four for each thread or CPU.\n"
	case errors.Is(e.Err, syscall.EINVAL) && e.Event.Type == format.TypeBreakpoint:
		return "A breakpoint's address is a multiple of its length, 1, 2, 4 or 8 bytes; x86 watches w and rw, and x with length 8.\n"
	case errors.Is(e.Err, syscall.EINVAL):
		return "The kernel does not take the event with these flags and modifiers; `dmesg | tail` may say more.\n"
	case errors.Is(e.Err, syscall.EBUSY):
		return "Another profiler may hold the PMU.\n"
	}
	return ""
}

func paranoidHint() string {
	p := record.Paranoid()
	s := fmt.Sprintf("kernel.perf_event_paranoid is %d. ", p)
	if os.Geteuid() == 0 {
		return s + "root lacks the capability CAP_PERFMON (or CAP_SYS_ADMIN) here: a container may withhold it.\n"
	}
	return s + `Run gperf as root or with CAP_PERFMON, or lower it:
    sysctl kernel.perf_event_paranoid=1    your own processes, kernel included
    sysctl kernel.perf_event_paranoid=0    all processes and CPUs
    sysctl kernel.perf_event_paranoid=-1   tracepoints, too
Events in user space alone (-e cpu-clock:u) of your own processes need 2.
`
}

func tracefsHint(e *tracefs.NotFoundError) string {
	switch {
	case errors.Is(e.Err, fs.ErrPermission) && os.Geteuid() != 0:
		return tracefsRights
	case errors.Is(e.Err, fs.ErrPermission):
		return "It may not be mounted from here (CAP_SYS_ADMIN is missing). Outside of the container:\n" +
			"    mount -t tracefs tracefs /sys/kernel/tracing\n"
	}
	return "Tracepoints are described there; this kernel may have been built without them (CONFIG_TRACING).\n" +
		"If it was not:    mount -t tracefs tracefs /sys/kernel/tracing\n"
}

const tracefsRights = `Tracepoints are described in /sys/kernel/tracing, which only root may read. Run gperf as root, with CAP_DAC_READ_SEARCH
(for tracepoints) or CAP_DAC_OVERRIDE (for probes, too), or open it to a group of yours:
    mount -o remount,gid=GROUP,mode=750 /sys/kernel/tracing
`

func ringHint(e *record.MapError) string {
	if !errors.Is(e.Err, syscall.EPERM) {
		return "Choose smaller rings (-m).\n"
	}
	return "That is more than you may lock. Choose smaller rings (-m), raise /proc/sys/kernel/perf_event_mlock_kb, or run gperf\n" +
		"with CAP_IPC_LOCK.\n"
}

func outputHint(e *record.OutputError) string {
	switch {
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EDQUOT), errors.Is(e.Err, syscall.EFBIG):
		return "The recording has ended there; what the file holds so far can be read. Make room, or write elsewhere (-o).\n"
	case errors.Is(e.Err, fs.ErrPermission), errors.Is(e.Err, syscall.EROFS):
		return "Choose a file in a folder that you may write to (-o).\n"
	case errors.Is(e.Err, fs.ErrNotExist):
		return "Its folder does not exist.\n"
	}
	return ""
}

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"syscall"

	"gperf/format"
	"gperf/record"
	"gperf/record/check"
	"gperf/record/event"
	"gperf/record/probe"
	"gperf/record/probe/vars"
	"gperf/record/tracefs"
	"gperf/symbolize/archive"
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
	var file *probe.FileError
	var function *probe.FunctionError
	var kernelFunction *probe.NoFunctionError
	var install *probe.InstallError
	var filter *record.FilterError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "`gperf help %s` tells its flags.\n", command)
		return exitUsage
	case errors.Is(err, record.ErrConditional), errors.As(err, &spec), errors.As(err, &unknown), errors.As(err, &place),
		errors.As(err, &file), errors.As(err, &function), errors.As(err, &kernelFunction), errors.As(err, &filter),
		errors.As(err, &install) && (install.Why != "" || errors.Is(install.Err, syscall.EILSEQ)):
		return exitUsage
	}
	return exitError
}

// hint says, in whole lines, what to do about an error; "" where nothing is
// known.
func hint(err error) string {
	var open *record.OpenError
	var tracefs *tracefs.NotFoundError
	var ring *record.MapError
	var out *record.OutputError
	var freq *record.FreqError
	var emit *record.EmitError
	var unknown *event.UnknownError
	var noMatch *noMatchError
	var debug *vars.NoDebugError
	var bzip2 *noBzip2Error
	switch {
	case errors.As(err, &bzip2):
		return "Install bzip2, or choose another compression: -o perf.data.tar.gz; tar and perf unpack that as well.\n"
	case errors.Is(err, archive.ErrRepacked):
		return "Unpack it (unzip FILE -d DIR) and read it there: -i DIR/perf.data --symfs DIR.\n"
	case errors.Is(err, archive.ErrDamaged):
		return "Copy it again, or pack it again where it was recorded (gperf archive).\n"
	case errors.As(err, &debug):
		return debugHint(debug)
	case errors.As(err, &open):
		return openHint(open)
	case errors.As(err, &tracefs):
		return whole(check.This().WhyNoTracefs(tracefs.Err))
	case errors.As(err, &ring):
		return ringHint(ring)
	case errors.As(err, &out):
		return outputHint(out)
	case errors.As(err, &freq):
		return "         The limit can be raised via /proc/sys/kernel/perf_event_max_sample_rate;\n" +
			"         the kernel lowers it when sampling takes too long.\n"
	case errors.Is(err, record.ErrKernelHidden):
		return whole(check.This().WhyHidden())
	case errors.As(err, &emit) && errors.Is(err, syscall.EMFILE):
		return "Every raw tracepoint takes three files. Raise the limit (ulimit -Hn, as root), or name fewer.\n"
	case errors.Is(err, syscall.EMFILE):
		return moreFiles + "\n"
	case errors.As(err, &unknown):
		return unknownHint(unknown)
	case errors.As(err, &noMatch):
		return noMatchHint(noMatch.arg)
	}
	return probeHint(err) + annotateHint(err)
}

func debugHint(e *vars.NoDebugError) string {
	if strings.HasPrefix(e.Lack, "BTF") {
		return "Parameters' names are known of functions that the kernel's BTF (/sys/kernel/btf) has. Registers need none:\n" +
			"$arg1, $arg2 and so on at a function's entry, +0($arg1):string for what is at an address.\n"
	}
	return "Variables' names are in the debug information: install its package (of Debian, NAME-dbgsym), or compile with -g.\n" +
		"Registers need none: $arg1, $arg2 and so on at a function's entry, +0($arg1):string for what is at an address.\n"
}

func openHint(e *record.OpenError) string {
	switch {
	case errors.Is(e.Err, syscall.EACCES), errors.Is(e.Err, syscall.EPERM), errors.Is(e.Err, syscall.ENOSYS):
		return whole(check.This().WhyNotOpened(check.NeedOf(e.Event.Type, e.Event.Flags, e.TID < 0), e.TID, e.Err))
	case errors.Is(e.Err, syscall.ENOENT) && e.Event.Cgroup != "":
		return "The kernel has no perf events for this control group: its controller perf_event may belong to another hierarchy\n" +
			"(/proc/cgroups, /proc/mounts), or, of version 2, none of the controllers were ever handed down to it:\n" +
			"    echo +pids > /sys/fs/cgroup/cgroup.subtree_control\n"
	case errors.Is(e.Err, record.ErrNoBranches):
		return "Branches (-b, -j, --call-graph lbr) are recorded with hardware events such as cycles, by Intel's LBR, AMD's BRS or\n" +
			"Arm's BRBE, and seldom in a virtual machine. --call-graph dwarf finds complete stacks without them.\n"
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

// whole makes a line of a sentence, if there is one.
func whole(s string) string {
	if s == "" {
		return ""
	}
	return s + "\n"
}

// unknownHint names the list in which the right name is.
func unknownHint(e *event.UnknownError) string {
	system, name, colon := strings.Cut(e.Spec, ":")
	switch {
	case e.Kind == "symbol":
		return "It has those of variables with CONFIG_KALLSYMS_ALL; a number is an address.\n"
	case e.Kind == "term" || len(e.Near) > 0 && probe.IsSpec(e.Near[0]):
		return ""
	case colon && ofProbes.MatchString(system):
		return "`gperf probe --list` lists the probes that `gperf probe --add` has made. One for this recording alone is written\n" +
			"kprobe:FUNCTION, uprobe:FILE:FUNCTION or usdt:FILE:PROVIDER:NAME.\n"
	case len(e.Near) > 0:
		return fmt.Sprintf("`gperf list '%s'` tells of those like it.\n", glob(e.Near[0]))
	case colon && name != "":
		return fmt.Sprintf("`gperf list '%s:*'` lists the tracepoints of a subsystem, `gperf list tracepoint` all.\n", system)
	}
	return "`gperf list` lists the events that there are.\n"
}

// noMatchHint says where else to look for what gperf list has been asked for.
func noMatchHint(arg string) string {
	switch {
	case strings.HasPrefix(arg, "usdt:"):
		return "`readelf -n` shows a file's USDT probes as stapsdt; most files have none.\n"
	case strings.HasPrefix(arg, "uprobe:"), strings.HasPrefix(arg, "uretprobe:"):
		return "`gperf list 'uprobe:FILE:*'` lists all functions of a file; stripped, it has only those that it offers to others.\n"
	case probe.IsSpec(arg):
		return "It may be inlined everywhere, or live in a module that is not loaded.\n"
	}
	return "`gperf help list` tells the kinds of events and how globs match.\n"
}

// ofProbes are the names of perf's groups of probes.
var ofProbes = regexp.MustCompile(`^(probe|sdt)(_.*)?$`)

// glob is what an event's siblings match: its subsystem's, or all that begin like it.
func glob(name string) string {
	if system, _, ok := strings.Cut(name, ":"); ok {
		return system + ":*"
	}
	first, _, _ := strings.Cut(name, "-")
	return first + "*"
}

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

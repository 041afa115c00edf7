package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"gperf/bpf"
	"gperf/format"
	"gperf/record"
	"gperf/record/doctor"
	"gperf/record/event"
	"gperf/record/output"
	"gperf/record/perfevent"
	"gperf/record/probe"
	"gperf/record/probe/args"
	"gperf/record/probe/kernel"
	"gperf/record/programs"
	"gperf/record/tracefs"
)

// recordingAdvice is the advice about errors of commands that record.
var recordingAdvice = []advice{
	is(record.ErrNoPacket,
		"Events with packets are skb:*, net:* and most of tcp:*; packet:drops are all that lose packets.\n"),
	is(programs.ErrNoDroppers,
		"`bpftool net` lists the programs of devices. Programs that are loaded later are not recorded.\n"),
	of(debugHint),
	of(openHint),
	of(func(e *tracefs.NotFoundError) string { return line(doctor.This().WhyNoTracefs(e.Err)) }),
	of(ringHint),
	of(outputHint),
	of(commandHint),
	of(func(*record.FreqError) string {
		return "         The limit can be raised via /proc/sys/kernel/perf_event_max_sample_rate;\n" +
			"         the kernel lowers it if sampling takes too long.\n"
	}),
	func(err error) string {
		if errors.Is(err, record.ErrKernelHidden) {
			return line(doctor.This().WhyHidden())
		}
		return ""
	},
	is(record.ErrNoClock, "`gperf report --no-idle` leaves out the samples of CPUs without work.\n"),
	of(func(*kernel.TypesError) string { return noTypes }),
	of(samplerHint),
	is(bpf.ErrNoFirewall,
		"Without these modules, no rule can drop packets. Load one, or add a rule (nft, iptables).\n"),
	of(unknownHint),

	// Probes.
	of(functionHint),
	of(kernelFunctionHint),
	of(accessHint),
	of(installHint),
	of(func(e *probe.ExistsError) string {
		return fmt.Sprintf("Delete it (gperf probe --del %s), or add another one with a numbered name (-f).\n", e.Event)
	}),
	of(func(*record.NoGoError) string {
		return "Start the program first, or name its file: --goroutines=FILE.\n"
	}),
	of(func(*record.LeftoversError) string { return "`gperf probe --del` removes them.\n" }),
	of(func(e *record.NoHopError) string { return inlinedHint(e.Glob) }),
	of(followHint),
}

func debugHint(e *args.NoDebugError) string {
	if strings.HasPrefix(e.Lack, "BTF") {
		return "Parameter names require the function in the kernel's BTF (/sys/kernel/btf). Registers do not: use\n" +
			"$arg1, $arg2 and so on at function entry, and +0($arg1):string for a string at an address.\n"
	}
	return "Variable names require debug information: install its package (Debian: NAME-dbgsym), or\n" +
		"compile with -g. Registers do not: use $arg1, $arg2 and so on at function entry, and\n" +
		"+0($arg1):string for a string at an address.\n"
}

func openHint(e *perfevent.OpenError) string {
	switch {
	case errors.Is(e.Err, syscall.EACCES), errors.Is(e.Err, syscall.EPERM), errors.Is(e.Err, syscall.ENOSYS):
		return line(doctor.This().WhyNotOpened(doctor.NeedOf(e.Event.Type, e.Event.Flags, e.TID < 0), e.TID, e.Err))
	case errors.Is(e.Err, syscall.ENOENT) && e.Event.Cgroup != "":
		return "The kernel has no perf events for this cgroup. Its perf_event controller may belong to another\n" +
			"hierarchy (/proc/cgroups, /proc/mounts), or, in cgroup v2, no controller was enabled for it:\n" +
			"    echo +pids > /sys/fs/cgroup/cgroup.subtree_control\n"
	case errors.Is(e.Err, perfevent.ErrNoBranches):
		return "Branches (-b, -j, --call-graph lbr) require hardware events such as cycles, and Intel LBR,\n" +
			"AMD BRS or Arm BRBE, which most virtual machines lack. --call-graph dwarf records complete stacks " +
			"without them.\n"
	case errors.Is(e.Err, syscall.ENOENT), errors.Is(e.Err, syscall.ENXIO), errors.Is(e.Err, syscall.ENODEV),
		errors.Is(e.Err, syscall.EOPNOTSUPP):
		return "This machine or virtual machine has no PMU for the event.\n" +
			"cpu-clock, a timer, works on every machine.\n"
	case errors.Is(e.Err, syscall.EMFILE):
		return "Each event needs one open file per CPU and thread. Raise the limit (ulimit -Hn, as root), or name\n" +
			"fewer events, CPUs (-C) or threads.\n"
	case errors.Is(e.Err, syscall.ESRCH):
		return "The process or thread exited.\n"
	case errors.Is(e.Err, syscall.EINVAL) && e.Event.Type > format.TypeBreakpoint:
		return "The PMU rejects the event. Some PMUs only count and cannot sample (msr, power, most uncore PMUs),\n" +
			"or count on CPUs, not for processes (-a).\n"
	case errors.Is(e.Err, syscall.EOVERFLOW):
		return "/proc/sys/kernel/perf_event_max_stack limits callchains: raise it, or reduce --max-stack.\n"
	case errors.Is(e.Err, syscall.ENOSPC) && e.Event.Type == format.TypeBreakpoint:
		return "All hardware breakpoints are in use: x86 has four per thread or CPU.\n"
	case errors.Is(e.Err, syscall.EINVAL) && e.Event.Type == format.TypeBreakpoint:
		return "A breakpoint's address must be a multiple of its length, 1, 2, 4 or 8 bytes;\n" +
			"x86 supports w, rw, and x of length 8.\n"
	case errors.Is(e.Err, syscall.EINVAL):
		return "The kernel rejects the event with these flags and modifiers; `dmesg | tail` may show the reason.\n"
	case errors.Is(e.Err, syscall.EBUSY):
		return "Another profiler may hold the PMU.\n"
	}
	return ""
}

// line appends a newline to a sentence that is not empty.
func line(s string) string {
	if s == "" {
		return ""
	}
	return s + "\n"
}

// unknownHint names the list that contains the correct name.
func unknownHint(e *event.UnknownError) string {
	system, name, colon := strings.Cut(e.Spec, ":")
	switch {
	case e.Kind == "symbol":
		return "The kernel lists variables only with CONFIG_KALLSYMS_ALL; use an address instead.\n"
	case e.Kind == "term" || len(e.Near) > 0 && probe.IsSpec(e.Near[0]):
		return ""
	case colon && ofProbes.MatchString(system):
		return "`gperf probe --list` lists the probes that `gperf probe --add` added. For a probe of this recording\n" +
			"only, use kprobe:FUNCTION, uprobe:FILE:FUNCTION or usdt:FILE:PROVIDER:NAME.\n"
	case len(e.Near) > 0:
		return fmt.Sprintf("`gperf list '%s'` lists similar events.\n", glob(e.Near[0]))
	case colon && name != "":
		return fmt.Sprintf("`gperf list '%s:*'` lists the tracepoints of a subsystem, `gperf list tracepoint` all.\n",
			system)
	}
	return "`gperf list` lists the available events.\n"
}

// ofProbes matches the names of perf's groups of probes.
var ofProbes = regexp.MustCompile(`^(probe|sdt)(_.*)?$`)

// glob returns a glob for similar events: the same subsystem, or the same first word.
func glob(name string) string {
	if system, _, ok := strings.Cut(name, ":"); ok {
		return system + ":*"
	}
	first, _, _ := strings.Cut(name, "-")
	return first + "*"
}

func ringHint(e *perfevent.MapError) string {
	if !errors.Is(e.Err, syscall.EPERM) {
		return "Choose smaller rings (-m).\n"
	}
	return "The rings exceed the memory that you may lock. Choose smaller rings (-m), raise\n" +
		"/proc/sys/kernel/perf_event_mlock_kb, or run gperf with CAP_IPC_LOCK.\n"
}

func outputHint(e *output.Error) string {
	switch {
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EDQUOT), errors.Is(e.Err, syscall.EFBIG):
		return "The recording stopped; the file is readable up to this point.\n" +
			"Free disk space, or choose another file (-o).\n"
	case errors.Is(e.Err, fs.ErrPermission), errors.Is(e.Err, syscall.EROFS):
		return "Choose a file in a writable directory (-o).\n"
	case errors.Is(e.Err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(e.Path)); err == nil {
			return "Its directory takes no new files. Choose a file in another directory (-o).\n"
		}
		return "Its directory does not exist.\n"
	}
	return ""
}

// commandHint says what to run in place of a command that could not be started.
func commandHint(e *record.CommandError) string {
	method, _, _ := strings.Cut(e.Command, ",")
	st, err := os.Stat(e.Command)
	switch {
	case method == "dwarf" || method == "fp" || method == "lbr":
		return fmt.Sprintf("-g takes no method: use --call-graph %s.\n", e.Command)
	case err == nil && st.IsDir():
		return "It is a directory.\n"
	case err == nil && errors.Is(e.Err, fs.ErrPermission):
		return fmt.Sprintf("It is not executable: chmod +x %s, or name its interpreter, as in sh %[1]s.\n", e.Command)
	case err == nil && errors.Is(e.Err, syscall.ENOEXEC):
		return fmt.Sprintf("Name its interpreter, as in sh %s.\n", e.Command)
	case err == nil && errors.Is(e.Err, fs.ErrNotExist) && strings.Contains(e.Command, "/"):
		return "The interpreter that its first line (#!) or its ELF header names does not exist.\n"
	case err == nil && errors.Is(e.Err, fs.ErrNotExist):
		return fmt.Sprintf("For the file in this directory, use ./%s.\n", e.Command)
	case strings.Contains(e.Command, " "):
		return "Write the program and its arguments as separate words: without quotes around all of them.\n"
	case shellKeywords[e.Command]:
		return fmt.Sprintf("It is a word of the shell: use sh -c '%s …'.\n", e.Command)
	}
	return ""
}

// shellKeywords are commands of shells that are no programs.
var shellKeywords = map[string]bool{"cd": true, "source": true, ".": true, "export": true, "ulimit": true, "for": true,
	"while": true, "if": true, "exec": true, "eval": true, "type": true, "alias": true, "set": true}

// inlinedHint is the advice about a function of the kernel that does not exist.
func inlinedHint(function string) string {
	return fmt.Sprintf("It may be inlined everywhere, or belong to a module that is not loaded;\n"+
		"gperf list 'kprobe:*%s*' lists similar functions.\n", strings.Trim(function, "*"))
}

func samplerHint(e *programs.SamplerError) string {
	switch {
	case kernel.HaveTypes() != nil:
		return noTypes
	case errors.Is(e, syscall.EMFILE):
		return "Each raw tracepoint needs three open files. Raise the limit (ulimit -Hn, as root), or name fewer.\n"
	}
	return ""
}

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gperf/format"
)

// Need is the highest perf_event_paranoid that allows an event to a user without CAP_PERFMON.
type Need int

// Needs, by Documentation/admin-guide/sysctl/kernel.rst.
const (
	paranoidTracepoints  Need = -1
	paranoidAllProcesses Need = 0 // of all processes on a CPU
	paranoidKernel       Need = 1 // of own processes in the kernel
	paranoidUser         Need = 2 // of own processes in user space
)

func (n Need) String() string {
	return map[Need]string{paranoidTracepoints: "tracepoints and probes need",
		paranoidAllProcesses: "all processes (-a, -C) need",
		paranoidKernel:       "own processes in the kernel need", paranoidUser: "own processes in user space need"}[n]
}

// NeedOf returns the need of an event, on a CPU or of a thread.
func NeedOf(typ format.EventType, flags format.AttrFlags, everywhere bool) Need {
	switch {
	case typ == format.TypeTracepoint:
		return paranoidTracepoints
	case everywhere:
		return paranoidAllProcesses
	case flags&format.FlagExcludeKernel == 0:
		return paranoidKernel
	}
	return paranoidUser
}

// leastPrivileged is the event with the lowest requirements: a dummy of this thread in user space.
var leastPrivileged = format.Attr{Type: format.TypeSoftware, Config: format.SWDummy,
	Flags: format.FlagExcludeKernel | format.FlagExcludeHV}

// WhyNotOpened explains in one line why perf_event_open returned an errno (EACCES, EPERM,
// ENOSYS) for an event with this need, of a thread (-1: of all, 0: of the caller), and the
// remedy.
func (m *Machine) WhyNotOpened(need Need, tid int, errno error) string {
	r := m.rights()
	level, _ := m.level()
	// For the event with the lowest requirements, the kernel itself returns EACCES at most.
	least := m.open(leastPrivileged, false)
	filtered := errors.Is(least, unix.EPERM) || errors.Is(least, unix.ENOSYS)
	switch {
	case filtered && r.seccomp:
		return "A seccomp filter, such as Docker's, blocks perf_event_open: start the container with --cap-add " +
			"PERFMON (or --security-opt seccomp=unconfined)."
	case errors.Is(errno, unix.ENOSYS):
		return "This kernel was built without perf events (CONFIG_PERF_EVENTS)."
	case m.lockedDown() != "":
		return m.lockedDown()
	case r.has(unix.CAP_PERFMON) && !r.has(unix.CAP_SYS_ADMIN) && level > int(paranoidUser) && least != nil:
		return fmt.Sprintf("kernel.perf_event_paranoid is %d, from which this distribution's kernel exempts only "+
			"CAP_SYS_ADMIN, not CAP_PERFMON: sysctl kernel.perf_event_paranoid=2, or run gperf as root.", level)
	case tid > 0 && m.othersThread(tid, r.euid) && level <= int(need):
		return fmt.Sprintf("Thread %d is another user's: run gperf as root, as that user, or with CAP_PERFMON.", tid)
	case r.perfmon() || level <= int(need):
		return m.module()
	case r.userNS:
		return fmt.Sprintf("kernel.perf_event_paranoid is %d; %s %d, or CAP_PERFMON, which does not apply in a user "+
			"namespace: record from outside.", level, need, need)
	case r.euid == 0:
		return "root lacks the capability CAP_PERFMON here: containers drop it unless started with --cap-add PERFMON."
	}
	as := "as root or with CAP_PERFMON"
	if level > int(paranoidUser) {
		as = "as root" // Debian's kernels then require CAP_SYS_ADMIN
	}
	return fmt.Sprintf("kernel.perf_event_paranoid is %d; %s %d: sysctl kernel.perf_event_paranoid=%d, or run gperf "+
		"%s.", level, need, need, need, as)
}

// othersThread reports whether a thread belongs to another user.
func (m *Machine) othersThread(tid, uid int) bool {
	st, err := os.Stat(m.path("proc/" + strconv.Itoa(tid)))
	return err == nil && int(st.Sys().(*syscall.Stat_t).Uid) != uid
}

// module names the remaining possible cause: a security module.
func (m *Machine) module() string {
	s := "This user is allowed to: a security module may have refused it"
	if l, err := m.read("sys/kernel/security/lsm"); err == nil {
		s += ", one of " + strings.ReplaceAll(l, ",", ", ")
	}
	return s + "; see `dmesg | grep -i denied`, and gperf doctor for what else is possible."
}

// WhyNoTracefs explains why tracefs, or a file of it, cannot be used, and the remedy.
func (m *Machine) WhyNoTracefs(err error) string {
	r := m.rights()
	switch {
	case m.lockedDown() != "":
		return m.lockedDown()
	case !errors.Is(err, fs.ErrPermission):
		return "Tracepoints are described there; this kernel may have been built without them (CONFIG_TRACING).\n" +
			"If it was not:    mount -t tracefs tracefs /sys/kernel/tracing"
	case r.userNS:
		return "Only the machine's root may use tracefs, not root of a user namespace: record from outside."
	case r.euid == 0:
		return "Mounting or reading it requires CAP_SYS_ADMIN or CAP_DAC_READ_SEARCH. Outside the container:\n" +
			"    mount -t tracefs tracefs /sys/kernel/tracing"
	}
	return "Only root may read tracefs, where tracepoints are described: run gperf as root, or with " +
		"CAP_DAC_READ_SEARCH and CAP_PERFMON; probes require CAP_DAC_OVERRIDE."
}

// WhyNoBPF explains why BPF programs may not be loaded, and the remedy; "" if the error says
// it.
func (m *Machine) WhyNoBPF(err error) string {
	if !errors.Is(err, unix.EPERM) {
		return ""
	}
	r := m.rights()
	switch {
	case m.lockedDown() != "":
		return m.lockedDown()
	case r.userNS:
		return "Capabilities of a user namespace do not allow loading BPF programs: record from outside."
	case r.has(unix.CAP_SYS_ADMIN), r.has(unix.CAP_BPF) && r.has(unix.CAP_PERFMON):
		if r.seccomp {
			return "A seccomp filter may block bpf(2)."
		}
		return "Before Linux 5.11 BPF maps count as locked memory: raise the limit (ulimit -l unlimited)."
	case r.euid == 0:
		return "root lacks CAP_BPF and CAP_PERFMON here: containers drop them unless started with --cap-add BPF " +
			"--cap-add PERFMON."
	}
	return "It requires root, or CAP_BPF and CAP_PERFMON."
}

// WhyNotWritten explains why this user may not define probes, and the remedy.
func (m *Machine) WhyNotWritten() string {
	if s := m.lockedDown(); s != "" {
		return s
	}
	return "Defining probes in tracefs requires root, or CAP_DAC_OVERRIDE."
}

// WhyHidden explains why /proc/kallsyms shows no addresses, and the remedy
// (kallsyms_show_value of kernel/kallsyms.c).
func (m *Machine) WhyHidden() string {
	restrict, _ := m.read("proc/sys/kernel/kptr_restrict")
	level, _ := m.level()
	switch {
	case restrict == "0":
		return fmt.Sprintf("kernel.perf_event_paranoid is %d, kernel symbols need 1: sysctl "+
			"kernel.perf_event_paranoid=1, or run gperf as root or with CAP_SYSLOG.", level)
	case restrict == "1":
		return "kernel.kptr_restrict is 1: run gperf as root or with CAP_SYSLOG, or: sysctl kernel.kptr_restrict=0 " +
			"kernel.perf_event_paranoid=1"
	}
	return "kernel.kptr_restrict is " + restrict + ", which hides them even from root: sysctl kernel.kptr_restrict=1"
}

// lockedDown explains that the kernel's lockdown refuses even root, "" if there is no such
// lockdown.
func (m *Machine) lockedDown() string {
	if m.lockdownMode() != "confidentiality" {
		return ""
	}
	return "The kernel is locked down (confidentiality), even for root: boot with lockdown=integrity, or with " +
		"Secure Boot off."
}

package doctor

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// rights are the permissions of this process.
type rights struct {
	uid, euid int
	caps      uint64 // effective
	// userNS marks a process in a user namespace of its own, whose capabilities do not apply
	// to perf_event_open, BPF and tracefs.
	userNS  bool
	seccomp bool // system calls are filtered
}

func (m *Machine) rights() (r rights) {
	status, _ := m.read("proc/self/status")
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch key {
		case "Uid":
			r.uid, _ = strconv.Atoi(fields[0])
			r.euid, _ = strconv.Atoi(fields[min(1, len(fields)-1)])
		case "CapEff":
			r.caps, _ = strconv.ParseUint(fields[0], 16, 64)
		case "Seccomp":
			r.seccomp = fields[0] == "2" // SECCOMP_MODE_FILTER
		}
	}
	r.userNS = m.foreignNS("user", 0xeffffffd)
	return r
}

// foreignNS reports whether the process is in another namespace than the initial one of its
// kind, whose inode has a fixed number (include/uapi/linux/nsfs.h).
func (m *Machine) foreignNS(kind string, first uint32) bool {
	link, err := os.Readlink(m.path("proc/self/ns/" + kind))
	return err == nil && link != fmt.Sprintf("%s:[%d]", kind, first)
}

// has reports whether the process has a capability that perf and BPF accept.
func (r *rights) has(c int) bool { return !r.userNS && r.caps>>c&1 != 0 }

// perfmon reports whether perf_event_paranoid does not apply (perfmon_capable).
func (r *rights) perfmon() bool { return r.has(unix.CAP_PERFMON) || r.has(unix.CAP_SYS_ADMIN) }

// useful are the capabilities that recording uses.
var useful = []struct {
	c    int
	name string
	use  string
}{
	{unix.CAP_PERFMON, "CAP_PERFMON", "events"},
	{unix.CAP_BPF, "CAP_BPF", "whole stacks"},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", ""}, // implies both, and allows mounts
	{unix.CAP_SYSLOG, "CAP_SYSLOG", "kernel symbols"},
	{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "others' processes"},
	{unix.CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "tracefs"},
}

// checkUser reports the user and its capabilities.
func checkUser(m *Machine) Check {
	r := m.rights()
	who := fmt.Sprintf("uid %d", r.euid)
	if r.euid == 0 {
		who = "root"
	}
	var have, lack []string
	for _, u := range useful {
		switch {
		case r.caps>>u.c&1 != 0:
			have = append(have, u.name)
		case u.use != "" && !(u.c == unix.CAP_PERFMON && r.perfmon()) &&
			!(u.c == unix.CAP_BPF && r.has(unix.CAP_SYS_ADMIN)):
			lack = append(lack, u.name+" ("+u.use+")")
		}
	}
	with := "no capabilities"
	if len(have) > 0 {
		with = strings.Join(have, " ")
	}
	detail := who + " with " + with
	switch {
	case r.userNS:
		return part(detail+", which do not apply to perf events outside their user namespace", "")
	case r.perfmon() && len(lack) > 0:
		return part(detail, "missing: "+strings.Join(lack, ", "))
	case len(lack) > 0 && r.euid == 0:
		return part(detail, "dropped, for example by the container: "+strings.Join(lack, ", "))
	case len(lack) > 0:
		return part(detail, "run as root, or: "+setcap)
	}
	return ok(detail)
}

// setcap gives gperf its capabilities; CAP_DAC_READ_SEARCH is for tracefs, CAP_SYSLOG for
// checkKernel addresses.
const setcap = "setcap cap_perfmon,cap_bpf,cap_syslog,cap_sys_ptrace,cap_dac_read_search+ep gperf"

// checkContainer checks whether the process is recognizably in a container.
func checkContainer(m *Machine) Check {
	var signs []string
	if m.foreignNS("user", 0xeffffffd) {
		signs = append(signs, "in a user namespace")
	}
	if m.foreignNS("pid", 0xeffffffc) {
		signs = append(signs, "in a PID namespace")
	}
	r := m.rights()
	if r.seccomp {
		signs = append(signs, "under a seccomp filter")
	}
	switch {
	case len(signs) == 0:
		return ok("none: no user or PID namespace, no seccomp filter")
	case r.perfmon():
		return ok(strings.Join(signs, ", "))
	case r.userNS:
		return part(strings.Join(signs, ", "), "record from outside, or lower kernel.perf_event_paranoid there")
	}
	return part(strings.Join(signs, ", "), "start it with --cap-add PERFMON --cap-add BPF, or record from outside")
}

// checkLockdown reports the kernel's lockdown mode.
func checkLockdown(m *Machine) Check {
	switch mode := m.lockdownMode(); mode {
	case "":
		return ok("this kernel has none, or does not show it")
	case "confidentiality":
		return no("confidentiality: the kernel refuses kprobes, tracefs, and BPF that reads its memory, even to root",
			"boot with lockdown=integrity, or with Secure Boot off")
	default:
		return ok(mode)
	}
}

// lockdownMode is none, integrity or confidentiality; "" if unknown.
func (m *Machine) lockdownMode() string {
	s, _ := m.read("sys/kernel/security/lockdown") // none [integrity] confidentiality
	_, s, _ = strings.Cut(s, "[")
	mode, _, _ := strings.Cut(s, "]")
	return mode
}

// level returns kernel.perf_event_paranoid.
func (m *Machine) level() (int, error) {
	s, err := m.read("proc/sys/kernel/perf_event_paranoid")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(s)
}

// checkParanoid reports kernel.perf_event_paranoid, and its meaning for this user.
func checkParanoid(m *Machine) Check {
	n, err := m.level()
	if err != nil {
		return no(fmt.Sprintf("kernel.perf_event_paranoid: %v", err),
			"this kernel may have no perf events (CONFIG_PERF_EVENTS)")
	}
	r := m.rights()
	detail := fmt.Sprintf("kernel.perf_event_paranoid is %d", n)
	switch {
	case n > int(paranoidUser) && r.perfmon() && m.open(leastPrivileged, false) != nil:
		return no("nothing at all", m.WhyNotOpened(paranoidUser, 0, unix.EACCES))
	case r.perfmon():
		return ok(detail + ", which does not apply to this user")
	case n < 0:
		return ok(detail + ": all events of all processes, for all users")
	case n == 0:
		return part(detail+": all processes, but no tracepoints", "sysctl kernel.perf_event_paranoid=-1")
	case n == 1:
		return part(detail+": own processes, kernel included",
			"sysctl kernel.perf_event_paranoid=0 for all processes, -1 for tracepoints, too")
	case n == 2:
		return part(detail+": own processes, in user space only",
			"sysctl kernel.perf_event_paranoid=1 for the kernel, 0 for all processes, -1 for tracepoints, too")
	}
	return no(detail+": nothing at all",
		"sysctl kernel.perf_event_paranoid=2 for own processes in user space, 1, 0 or -1 for more")
}

package doctor

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/internal/procfs"
)

// checkKernel reports the kernel's version.
func checkKernel(m *Machine) Check {
	release, err := m.read("proc/sys/kernel/osrelease")
	if err != nil {
		return no(err.Error(), "")
	}
	var major, minor int
	fmt.Sscanf(release, "%d.%d", &major, &minor)
	detail := release + " on " + runtime.GOARCH
	if major < 5 || major == 5 && minor < 10 {
		return part(detail, "gperf is tested from 5.10 on")
	}
	return ok(detail)
}

// sampling returns the attr of a sampling event whose period is too long to sample within a
// check.
func sampling(typ format.EventType, config uint64) format.Attr {
	return format.Attr{Type: typ, Config: config, SamplePeriod: 1 << 40, SampleType: format.SampleIP}
}

// refused returns the result for an error of perf_event_open.
func refused(m *Machine, need Need, err error) Check {
	return no(err.Error(), m.WhyNotOpened(need, 0, err))
}

func denied(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS)
}

// own opens an event of this thread, including the kernel if possible.
func (m *Machine) own(a format.Attr) (userOnly bool, err error) {
	if err = m.open(a, false); !errors.Is(err, unix.EACCES) {
		return false, err
	}
	a.Flags |= format.FlagExcludeKernel | format.FlagExcludeHV
	return true, m.open(a, false)
}

// checkCPUClock checks whether own processes can be sampled by the timer.
func checkCPUClock(m *Machine) Check {
	userOnly, err := m.own(sampling(format.TypeSoftware, format.SWCPUClock))
	switch {
	case err != nil:
		return refused(m, paranoidUser, err)
	case userOnly:
		return part("own processes, in user space only (cpu-clock:u)", m.WhyNotOpened(paranoidKernel, 0, unix.EACCES))
	}
	return ok("own processes, kernel included")
}

// checkAllProcesses checks whether all processes can be sampled (-a).
func checkAllProcesses(m *Machine) Check {
	if err := m.open(sampling(format.TypeSoftware, format.SWCPUClock), true); err != nil {
		return refused(m, paranoidAllProcesses, err)
	}
	return ok("-a and -C record everything that runs")
}

// checkPMU checks whether hardware cycles can be sampled.
func checkPMU(m *Machine) Check {
	userOnly, err := m.own(sampling(format.TypeHardware, format.HWCycles))
	name := "cycles"
	if caps, e := filepath.Glob(m.path("sys/bus/event_source/devices/*/caps/pmu_name")); e == nil && len(caps) > 0 {
		if s, e := m.read(strings.TrimPrefix(caps[0], m.path(""))); e == nil {
			name += " of " + s
		}
	}
	switch {
	case err == nil && userOnly:
		return part(name+", of own processes in user space", m.WhyNotOpened(paranoidKernel, 0, unix.EACCES))
	case err == nil:
		return ok(name)
	case denied(err):
		return refused(m, paranoidUser, err)
	case m.virtual():
		return no(fmt.Sprintf("no hardware events (%v): a virtual machine without a virtual PMU", err),
			"gperf uses cpu-clock instead of cycles; the host may pass its PMU through (QEMU: -cpu host,pmu=on)")
	}
	return no(fmt.Sprintf("no hardware events: %v", err), "gperf uses cpu-clock instead of cycles")
}

// virtual reports whether this is recognizably a virtual machine.
func (m *Machine) virtual() bool {
	s, _ := m.read("proc/cpuinfo")
	return strings.Contains(s, " hypervisor") || m.exists("sys/hypervisor/type") || m.exists("sys/firmware/qemu_fw_cfg")
}

// watched is the variable for testing a breakpoint.
var watched uint64

// checkBreakpoints checks whether the CPU's breakpoints are available (mem:).
func checkBreakpoints(m *Machine) Check {
	const write, length = 2, 8 // HW_BREAKPOINT_W, HW_BREAKPOINT_LEN_8
	a := sampling(format.TypeBreakpoint, 0)
	a.BPType, a.Config1, a.Config2 = write, uint64(uintptr(unsafe.Pointer(&watched))), length
	a.Flags = format.FlagExcludeKernel | format.FlagExcludeHV
	switch err := m.open(a, false); {
	case denied(err):
		return refused(m, paranoidUser, err)
	case err != nil:
		return no(fmt.Sprintf("the CPU, or the virtual machine, has none (%v)", err), "mem: events need them")
	}
	return ok("mem:ADDR[/LEN][:rwx]")
}

// checkSampleRate reports the highest sampling frequency.
func checkSampleRate(m *Machine) Check {
	const usual = 4000 // perf's default
	s, err := m.read("proc/sys/kernel/perf_event_max_sample_rate")
	if err != nil {
		return no(err.Error(), "")
	}
	if n, _ := strconv.Atoi(s); n < usual {
		return part("at most "+s+" Hz, since sampling took too long before",
			"sysctl kernel.perf_event_max_sample_rate=100000")
	}
	return ok("at most " + s + " Hz")
}

// checkRings reports how much memory rings may use.
func checkRings(m *Machine) Check {
	s, err := m.read("proc/sys/kernel/perf_event_mlock_kb")
	if err != nil {
		return no(err.Error(), "")
	}
	r := m.rights()
	level, _ := m.level()
	if level < 0 || r.has(unix.CAP_IPC_LOCK) {
		return ok("any size (-m)")
	}
	var l unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l)
	locked := "no limit"
	if l.Cur != unix.RLIM_INFINITY {
		locked = fmt.Sprintf("%d KiB", l.Cur>>10)
	}
	return ok(fmt.Sprintf("%s KiB for each CPU (kernel.perf_event_mlock_kb), and locked memory: %s", s, locked))
}

// checkOpenFiles reports how many counters can be open.
func checkOpenFiles(m *Machine) Check {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return no(err.Error(), "")
	}
	events := l.Max / uint64(max(1, runtime.NumCPU()))
	detail := fmt.Sprintf("%d (ulimit -Hn): some %d events on each of %d CPUs", l.Max, events, runtime.NumCPU())
	if events < 64 {
		return part(detail, "raise it, as root, for globs of events")
	}
	return ok(detail)
}

// checkFeature checks whether the kernel supports a changed attr.
func checkFeature(m *Machine, change func(*format.Attr), yes, without string) Check {
	a := leastPrivileged
	err := m.open(a, false)
	if denied(err) {
		return no("no events at all, see above", "")
	}
	change(&a)
	if err := m.open(a, false); err != nil {
		return part(without, "")
	}
	return ok(yes)
}

// checkBuildIDs checks whether the kernel reports build IDs of mapped files.
func checkBuildIDs(m *Machine) Check {
	return checkFeature(m, func(a *format.Attr) { a.Flags |= format.FlagMmap | format.FlagMmap2 | format.FlagBuildID },
		"the kernel records them for mapped files",
		"this kernel does not record them (Linux 5.12 does): gperf reads them at the end of the recording")
}

// checkLostSamples checks whether the kernel counts lost samples.
func checkLostSamples(m *Machine) Check {
	return checkFeature(m, func(a *format.Attr) { a.ReadFormat |= format.ReadLost },
		"counted for each event", "this kernel counts them for each ring only (Linux 6.0 for each event)")
}

// checkCgroups checks whether events can be bound to a cgroup (-G).
func checkCgroups(m *Machine) Check {
	mounts, _ := m.read("proc/self/mounts")
	dir, version := procfs.CgroupRoot(mounts)
	if dir == "" {
		return no("no hierarchy with perf events is mounted",
			"mount -t cgroup2 cgroup2 /sys/fs/cgroup, if the kernel has CONFIG_CGROUP_PERF")
	}
	err := m.openCgroup(m.path(dir))
	switch {
	case err == nil:
		return ok(fmt.Sprintf("-G selects cgroups below %s (v%d)", dir, version))
	case denied(err):
		return refused(m, paranoidAllProcesses, err)
	}
	return no(fmt.Sprintf("events of %s (v%d): %v", dir, version, err), "a kernel with CONFIG_CGROUP_PERF")
}

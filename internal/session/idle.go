package session

import (
	"slices"
	"strings"

	"gperf/format"
)

// idleFunctions lists the beginnings of the names of the functions in which a CPU without work
// waits: the kernel's idle loop (kernel/sched/idle.c, drivers/cpuidle), and the instruction of each
// architecture and hypervisor that stops the CPU.
var idleFunctions = []string{
	"acpi_idle_", "acpi_processor_ffh_cstate_enter", "arch_cpu_idle", "call_cpuidle", "cpu_do_idle",
	"cpu_idle", "cpu_startup_entry", "cpuidle_", "default_enter_idle", "default_idle", "do_idle", "intel_idle",
	"mwait_idle", "poll_idle", "psci_", "pseries_", "psw_idle", "tick_nohz_idle_", "xen_hypercall_sched_op",
}

// safeHalt is in the names of x86's functions that stop the CPU: native_safe_halt, acpi_safe_halt, and one for each
// hypervisor.
const safeHalt = "safe_halt"

// SamplesCPU reports whether the event's samples show the activity of CPUs at all times: samples of
// clocks and of a PMU's counters do. Other events happen at certain places of the code.
func SamplesCPU(a *format.Attr) bool {
	switch a.Type {
	case format.TypeTracepoint, format.TypeBreakpoint:
		return false
	case format.TypeSoftware:
		return a.IsClock()
	}
	return true
}

// Idle reports whether a resolved sample shows a CPU or a thread without work: an idle CPU, or a wait for work. Idle
// looks functions up.
func (s *Session) Idle(sample *Sample) bool {
	return s.idleCPU(sample) || s.idleWaits.is(&s.File.Attrs[sample.Event], sample)
}

// idleCPU reports whether a sample shows an idle CPU: the sampled event measures the activity of CPUs, and the idle
// task was in the idle loop. Interrupts on an idle CPU count as work, and events that happen there, such as dropped
// packets, are no idle time.
func (s *Session) idleCPU(sample *Sample) bool {
	if sample.PID != 0 || sample.TID != 0 || !sample.inKernel() || !SamplesCPU(&s.File.Attrs[sample.Event]) {
		return false
	}
	sym := sample.Leaf.Sym()
	if sym == nil {
		s.Unnamed++
		return false
	}
	return strings.Contains(sym.Name, safeHalt) ||
		slices.ContainsFunc(idleFunctions, func(name string) bool { return strings.HasPrefix(sym.Name, name) })
}

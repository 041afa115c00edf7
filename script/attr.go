package script

import (
	"fmt"
	"strings"

	"gperf/format"
)

// event prints an attr as perf_event_attr__fprintf of tools/perf does: the
// fields that are not zero.
func (h *header) event(i int) {
	a := &h.f.Attrs[i]
	var parts []string
	add := func(name string, v any) { parts = append(parts, fmt.Sprintf("%s = %v", name, v)) }
	nonzero := func(name string, v uint64) {
		if v != 0 {
			add(name, v)
		}
	}
	hex := func(name string, v uint64) {
		if v != 0 {
			add(name, fmt.Sprintf("%#x", v))
		}
	}
	if len(a.IDs) > 0 {
		add("id", idList(a.IDs))
	}
	add("type", typeText(a.Type))
	add("size", a.Size)
	add("config", h.configText(i))
	nonzero("{ sample_period, sample_freq }", a.SamplePeriod)
	if a.SampleType != 0 {
		add("sample_type", bitNames(uint64(a.SampleType), sampleTypeNames[:]))
	}
	if a.ReadFormat != 0 {
		add("read_format", bitNames(uint64(a.ReadFormat), readFormatNames[:]))
	}
	for bit, name := range flagNames {
		switch {
		case name == "precise_ip":
			nonzero(name, uint64(a.Flags.PreciseIP()))
		case name != "" && a.Flags>>bit&1 != 0:
			add(name, 1)
		}
	}
	nonzero("{ wakeup_events, wakeup_watermark }", uint64(a.Wakeup))
	nonzero("bp_type", uint64(a.BPType))
	hex("{ bp_addr, config1 }", a.Config1)
	hex("{ bp_len, config2 }", a.Config2)
	hex("branch_sample_type", a.BranchSampleType)
	hex("sample_regs_user", a.SampleRegsUser)
	nonzero("sample_stack_user", uint64(a.SampleStackUser))
	if a.ClockID != 0 {
		add("clockid", a.ClockID)
	}
	hex("sample_regs_intr", a.SampleRegsIntr)
	nonzero("aux_watermark", uint64(a.AuxWatermark))
	nonzero("sample_max_stack", uint64(a.SampleMaxStack))
	nonzero("aux_sample_size", uint64(a.AuxSampleSize))
	nonzero("sig_data", a.SigData)
	h.line("event : name = %s, , %s", h.f.EventName(i), strings.Join(parts, ", "))
}

func idList(ids []uint64) string {
	var words []string
	for _, id := range ids {
		words = append(words, fmt.Sprint(id))
	}
	return "{ " + strings.Join(words, ", ") + " }"
}

func typeText(t format.EventType) string {
	names := [...]string{"HARDWARE", "SOFTWARE", "TRACEPOINT", "HW_CACHE", "RAW", "BREAKPOINT"}
	if int(t) < len(names) {
		return fmt.Sprintf("%d (PERF_TYPE_%s)", t, names[t])
	}
	return fmt.Sprint(uint32(t))
}

func (h *header) configText(i int) string {
	a := &h.f.Attrs[i]
	number := "0"
	if a.Config != 0 {
		number = fmt.Sprintf("%#x", a.Config)
	}
	name := ""
	switch {
	case a.Type == format.TypeHardware && a.Config < uint64(len(hardwareConfigs)):
		name = "PERF_COUNT_HW_" + hardwareConfigs[a.Config]
	case a.Type == format.TypeSoftware && a.Config < uint64(len(softwareConfigs)):
		name = "PERF_COUNT_SW_" + softwareConfigs[a.Config]
	case a.Type == format.TypeTracepoint:
		if t := h.f.Tracepoint(i); t != nil {
			name = t.System + ":" + t.Name
		}
	}
	if name == "" {
		return number
	}
	return number + " (" + name + ")"
}

var hardwareConfigs = [...]string{"CPU_CYCLES", "INSTRUCTIONS", "CACHE_REFERENCES", "CACHE_MISSES",
	"BRANCH_INSTRUCTIONS", "BRANCH_MISSES", "BUS_CYCLES", "STALLED_CYCLES_FRONTEND", "STALLED_CYCLES_BACKEND", "REF_CPU_CYCLES"}

var softwareConfigs = [...]string{"CPU_CLOCK", "TASK_CLOCK", "PAGE_FAULTS", "CONTEXT_SWITCHES", "CPU_MIGRATIONS",
	"PAGE_FAULTS_MIN", "PAGE_FAULTS_MAJ", "ALIGNMENT_FAULTS", "EMULATION_FAULTS", "DUMMY", "BPF_OUTPUT", "CGROUP_SWITCHES"}

var sampleTypeNames = [...]string{"IP", "TID", "TIME", "ADDR", "READ", "CALLCHAIN", "ID", "CPU", "PERIOD", "STREAM_ID",
	"RAW", "BRANCH_STACK", "REGS_USER", "STACK_USER", "WEIGHT", "DATA_SRC", "IDENTIFIER", "TRANSACTION", "REGS_INTR",
	"PHYS_ADDR", "AUX", "CGROUP", "DATA_PAGE_SIZE", "CODE_PAGE_SIZE", "WEIGHT_STRUCT"}

var readFormatNames = [...]string{"TOTAL_TIME_ENABLED", "TOTAL_TIME_RUNNING", "ID", "GROUP", "LOST"}

// flagNames are the bit fields of perf_event_attr, by bit.
var flagNames = [...]string{"disabled", "inherit", "pinned", "exclusive", "exclude_user", "exclude_kernel", "exclude_hv",
	"exclude_idle", "mmap", "comm", "freq", "inherit_stat", "enable_on_exec", "task", "watermark", "precise_ip", "",
	"mmap_data", "sample_id_all", "exclude_host", "exclude_guest", "exclude_callchain_kernel", "exclude_callchain_user",
	"mmap2", "comm_exec", "use_clockid", "context_switch", "write_backward", "namespaces", "ksymbol", "bpf_event",
	"aux_output", "cgroup", "text_poke", "build_id", "inherit_thread", "remove_on_exec", "sigtrap"}

// bitNames joins the names of the bits that are set.
func bitNames(v uint64, names []string) string {
	var l []string
	for bit, name := range names {
		if v>>bit&1 != 0 {
			l = append(l, name)
		}
	}
	return strings.Join(l, "|")
}

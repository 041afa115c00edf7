package inspect

import (
	"fmt"
	"strings"

	"gperf/format"
)

// AttrField is a printed field of an attr.
type AttrField struct{ Name, Value string }

// AttrFields returns the fields that perf_event_attr__fprintf of tools/perf
// prints: type, size, config, and the other fields unless zero. tracepoint is the
// name of a tracepoint.
func AttrFields(a *format.Attr, tracepoint string) (l []AttrField) {
	add := func(name string, v any) { l = append(l, AttrField{name, fmt.Sprint(v)}) }
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
	names := func(name string, v uint64, names []bitName) {
		if v != 0 {
			add(name, bitNames(v, names))
		}
	}
	add("type", typeText(a.Type))
	nonzero("size", uint64(a.Size))
	add("config", configText(a, tracepoint))
	nonzero("{ sample_period, sample_freq }", a.SamplePeriod)
	names("sample_type", uint64(a.SampleType), sampleTypeNames)
	names("read_format", uint64(a.ReadFormat), readFormatNames)
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
	names("branch_sample_type", a.BranchSampleType, branchTypeNames)
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
	for bit, name := range [...]string{"aux_start_paused", "aux_pause", "aux_resume"} {
		nonzero(name, uint64(a.AuxAction>>bit&1))
	}
	return l
}

// event prints an event of the EVENT_DESC section.
func (h *header) event(a *format.Attr) {
	fmt.Fprintf(h.w, "# event : name = %s, ", a.Name)
	for i, id := range a.IDs {
		switch {
		case i == 0:
			fmt.Fprintf(h.w, ", id = { %d", id)
		default:
			fmt.Fprintf(h.w, ", %d", id)
		}
	}
	if len(a.IDs) > 0 {
		fmt.Fprint(h.w, " }")
	}
	for _, f := range AttrFields(a, tracepointName(h.f, a)) {
		fmt.Fprintf(h.w, ", %s = %s", f.Name, f.Value)
	}
	fmt.Fprintln(h.w)
}

func typeText(t format.EventType) string {
	names := [...]string{"PERF_TYPE_HARDWARE", "PERF_TYPE_SOFTWARE", "PERF_TYPE_TRACEPOINT", "PERF_TYPE_HW_CACHE", "",
		"PERF_TYPE_BREAKPOINT"}
	name := ""
	if int(t) < len(names) {
		name = names[t]
	}
	if name == "" {
		name = pmuName(uint32(t))
	}
	switch {
	case name != "":
		return fmt.Sprintf("%d (%s)", t, name)
	case t == format.TypeRaw:
		return fmt.Sprintf("%d (PERF_TYPE_RAW)", t)
	}
	return fmt.Sprint(uint32(t))
}

func configText(a *format.Attr, tracepoint string) string {
	number := "0"
	if a.Config != 0 {
		number = fmt.Sprintf("%#x", a.Config)
	}
	name := ""
	switch a.Type {
	case format.TypeHardware, format.TypeHWCache:
		name = hardwareText(a)
	case format.TypeSoftware:
		if a.Config < uint64(len(softwareConfigs)) {
			name = "PERF_COUNT_SW_" + softwareConfigs[a.Config]
		}
	case format.TypeTracepoint:
		name = tracepoint
	}
	if name == "" {
		return number
	}
	return number + " (" + name + ")"
}

// hardwareText names a hardware event. The upper half of config is the PMU, on machines with several.
func hardwareText(a *format.Attr) string {
	event := uint32(a.Config)
	name := ""
	if a.Type == format.TypeHWCache {
		name = cacheText(event)
	} else if event < uint32(len(hardwareConfigs)) {
		name = "PERF_COUNT_HW_" + hardwareConfigs[event]
	}
	pmu := ""
	if t := uint32(a.Config >> 32); t != 0 {
		pmu = pmuName(t)
	}
	switch {
	case pmu == "":
		return name
	case name == "":
		return fmt.Sprintf("%s/config=%#x/", pmu, a.Config)
	}
	return pmu + "/" + name + "/"
}

func cacheText(event uint32) string {
	id, op, result := event&0xff, event>>8&0xff, event>>16&0xff
	if id >= uint32(len(cacheIDs)) || op >= uint32(len(cacheOps)) || result >= uint32(len(cacheResults)) {
		return ""
	}
	return "PERF_COUNT_HW_CACHE_RESULT_" + cacheResults[result] + " | PERF_COUNT_HW_CACHE_OP_" + cacheOps[op] +
		" | PERF_COUNT_HW_CACHE_" + cacheIDs[id]
}

var (
	cacheIDs     = [...]string{"L1D", "L1I", "LL", "DTLB", "ITLB", "BPU", "NODE"}
	cacheOps     = [...]string{"READ", "WRITE", "PREFETCH"}
	cacheResults = [...]string{"ACCESS", "MISS"}
)

var hardwareConfigs = [...]string{"CPU_CYCLES", "INSTRUCTIONS", "CACHE_REFERENCES", "CACHE_MISSES",
	"BRANCH_INSTRUCTIONS", "BRANCH_MISSES", "BUS_CYCLES", "STALLED_CYCLES_FRONTEND", "STALLED_CYCLES_BACKEND",
	"REF_CPU_CYCLES"}

var softwareConfigs = [...]string{"CPU_CLOCK", "TASK_CLOCK", "PAGE_FAULTS", "CONTEXT_SWITCHES", "CPU_MIGRATIONS",
	"PAGE_FAULTS_MIN", "PAGE_FAULTS_MAJ", "ALIGNMENT_FAULTS", "EMULATION_FAULTS", "DUMMY", "BPF_OUTPUT",
	"CGROUP_SWITCHES"}

// bitName is the name of a bit; lists of them are in perf's order.
type bitName struct {
	bit  uint
	name string
}

var sampleTypeNames = []bitName{{0, "IP"}, {1, "TID"}, {2, "TIME"}, {3, "ADDR"}, {4, "READ"}, {5, "CALLCHAIN"},
	{6, "ID"},
	{7, "CPU"}, {8, "PERIOD"}, {9, "STREAM_ID"}, {10, "RAW"}, {11, "BRANCH_STACK"}, {12, "REGS_USER"},
	{13, "STACK_USER"},
	{16, "IDENTIFIER"}, {18, "REGS_INTR"}, {15, "DATA_SRC"}, {14, "WEIGHT"}, {19, "PHYS_ADDR"}, {20, "AUX"},
	{21, "CGROUP"},
	{22, "DATA_PAGE_SIZE"}, {23, "CODE_PAGE_SIZE"}, {24, "WEIGHT_STRUCT"}}

var readFormatNames = numbered("TOTAL_TIME_ENABLED", "TOTAL_TIME_RUNNING", "ID", "GROUP", "LOST")

var branchTypeNames = numbered("USER", "KERNEL", "HV", "ANY", "ANY_CALL", "ANY_RETURN", "IND_CALL", "ABORT_TX", "IN_TX",
	"NO_TX", "COND", "CALL_STACK", "IND_JUMP", "CALL", "NO_FLAGS", "NO_CYCLES", "TYPE_SAVE", "HW_INDEX", "PRIV_SAVE",
	"COUNTERS")

// numbered are the names of the bits from 0 on.
func numbered(names ...string) (l []bitName) {
	for i, name := range names {
		l = append(l, bitName{uint(i), name})
	}
	return l
}

// flagNames are the bit fields of perf_event_attr, by bit.
var flagNames = [...]string{"disabled", "inherit", "pinned", "exclusive", "exclude_user", "exclude_kernel",
	"exclude_hv",
	"exclude_idle", "mmap", "comm", "freq", "inherit_stat", "enable_on_exec", "task", "watermark", "precise_ip", "",
	"mmap_data", "sample_id_all", "exclude_host", "exclude_guest", "exclude_callchain_kernel", "exclude_callchain_user",
	"mmap2", "comm_exec", "use_clockid", "context_switch", "write_backward", "namespaces", "ksymbol", "bpf_event",
	"aux_output", "cgroup", "text_poke", "build_id", "inherit_thread", "remove_on_exec", "sigtrap", "defer_callchain",
	"defer_output"}

// bitNames joins the names of the bits that are set.
func bitNames(v uint64, names []bitName) string {
	var l []string
	for _, b := range names {
		if v>>b.bit&1 != 0 {
			l = append(l, b.name)
		}
	}
	return strings.Join(l, "|")
}

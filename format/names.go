package format

import "fmt"

var typeNames = map[Type]string{
	TypeMmap: "MMAP", TypeLost: "LOST", TypeComm: "COMM", TypeExit: "EXIT", TypeThrottle: "THROTTLE",
	TypeUnthrottle: "UNTHROTTLE", TypeFork: "FORK", TypeRead: "READ", TypeSample: "SAMPLE", TypeMmap2: "MMAP2",
	TypeAux: "AUX", TypeItraceStart: "ITRACE_START", TypeLostSamples: "LOST_SAMPLES", TypeSwitch: "SWITCH",
	TypeSwitchCPUWide: "SWITCH_CPU_WIDE", TypeNamespaces: "NAMESPACES", TypeKSymbol: "KSYMBOL",
	TypeBPFEvent: "BPF_EVENT", TypeCgroup: "CGROUP", TypeTextPoke: "TEXT_POKE",
	TypeAuxOutputHWID: "AUX_OUTPUT_HW_ID", TypeCallchainDeferred: "CALLCHAIN_DEFERRED", TypeHeaderAttr: "ATTR",
	TypeHeaderEventType: "EVENT_TYPE", TypeHeaderTracing: "TRACING_DATA", TypeHeaderBuildID: "BUILD_ID",
	TypeFinishedRound: "FINISHED_ROUND",
	TypeIDIndex:       "ID_INDEX", TypeAuxtraceInfo: "AUXTRACE_INFO", TypeAuxtrace: "AUXTRACE",
	TypeAuxtraceError: "AUXTRACE_ERROR", TypeThreadMap: "THREAD_MAP", TypeCPUMap: "CPU_MAP",
	TypeStatConfig: "STAT_CONFIG", TypeStat: "STAT", TypeStatRound: "STAT_ROUND", TypeEventUpdate: "EVENT_UPDATE",
	TypeTimeConv: "TIME_CONV", TypeHeaderFeature: "FEATURE",
	TypeCompressed: "COMPRESSED", TypeFinishedInit: "FINISHED_INIT", TypeCompressed2: "COMPRESSED2",
	TypeBPFMetadata: "BPF_METADATA", TypeSchedstatCPU: "SCHEDSTAT_CPU", TypeSchedstatDomain: "SCHEDSTAT_DOMAIN",

	TypeSimpleperfKernelSymbol: "simpleperf KERNEL_SYMBOL", TypeSimpleperfDSO: "simpleperf DSO",
	TypeSimpleperfSymbol: "simpleperf SYMBOL", TypeSimpleperfSplit: "simpleperf SPLIT",
	TypeSimpleperfSplitEnd: "simpleperf SPLIT_END", TypeSimpleperfEventID: "simpleperf EVENT_ID",
	TypeSimpleperfCallchain: "simpleperf CALLCHAIN", TypeSimpleperfUnwindingResult: "simpleperf UNWINDING_RESULT",
	TypeSimpleperfTracingData: "simpleperf TRACING_DATA", TypeSimpleperfDebug: "simpleperf DEBUG",
}

// Known reports whether gperf has a name for the record type. Unknown types come from
// newer versions of perf or the kernel.
func (t Type) Known() bool {
	_, ok := typeNames[t]
	return ok
}

// String returns the name of the PERF_RECORD_ constant, as in perf_event__name of
// tools/perf.
func (t Type) String() string {
	if s, ok := typeNames[t]; ok {
		return s
	}
	return fmt.Sprintf("type %d", uint32(t))
}

var hardwareNames = [...]string{"cycles", "instructions", "cache-references", "cache-misses", "branches",
	"branch-misses", "bus-cycles", "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"}

var softwareNames = [...]string{"cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations",
	"minor-faults", "major-faults", "alignment-faults", "emulation-faults", "dummy"}

// IsDummy reports whether the event counts nothing and only enables side-band records
// (PERF_COUNT_SW_DUMMY).
func (a *Attr) IsDummy() bool { return a.Type == TypeSoftware && a.Config == 9 }

// IsClock reports whether the event is a clock: its periods are times in ns.
func (a *Attr) IsClock() bool {
	return a.Type == TypeSoftware && (a.Config == SWCPUClock || a.Config == SWTaskClock)
}

// DefaultName returns perf's name for an event without a name in the file (evsel__name of
// tools/perf/util/evsel.c).
func (a *Attr) DefaultName() string {
	switch a.Type {
	case TypeHardware:
		return nameOr(hardwareNames[:], uint32(a.Config), "unknown-hardware") + a.modifiers()
	case TypeSoftware:
		return nameOr(softwareNames[:], a.Config, "unknown-software") + a.modifiers()
	case TypeTracepoint:
		return "unknown tracepoint"
	case TypeHWCache:
		return a.cacheName() + a.modifiers()
	case TypeRaw:
		return fmt.Sprintf("raw %#x", a.Config) + a.modifiers()
	case TypeBreakpoint:
		return a.breakpointName() + a.modifiers()
	}
	return fmt.Sprintf("unknown event PMU=%d config=%#x", a.Type, a.Config)
}

func nameOr[T uint32 | uint64](names []string, i T, otherwise string) string {
	if i < T(len(names)) {
		return names[i]
	}
	return otherwise
}

// modifiers returns the suffix that limits when the event counts, such as ":u".
func (a *Attr) modifiers() string {
	var b []byte
	mode := func(excluded AttrFlags, letter byte) {
		if a.Flags&excluded == 0 {
			b = append(b, letter)
		}
	}
	if a.Flags&(FlagExcludeKernel|FlagExcludeUser|FlagExcludeHV) != 0 {
		mode(FlagExcludeKernel, 'k')
		mode(FlagExcludeUser, 'u')
		mode(FlagExcludeHV, 'h')
	}
	b = append(b, "ppp"[:a.Flags.PreciseIP()]...)
	if a.Flags&(FlagExcludeHost|FlagExcludeGuest) != 0 {
		mode(FlagExcludeHost, 'H')
		mode(FlagExcludeGuest, 'G')
	}
	if len(b) == 0 {
		return ""
	}
	return ":" + string(b)
}

// The parts of a cache event's config, from the lowest byte (enum
// perf_hw_cache_id, perf_hw_cache_op_id, perf_hw_cache_op_result_id).
var (
	cacheNames     = [...]string{"L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"}
	cacheOps       = [...]string{"load", "store", "prefetch"}
	cacheOpPlurals = [...]string{"loads", "stores", "prefetches"}
	// cacheHas[c] has bit o set if cache c supports operation o.
	cacheHas = [...]uint8{7, 5, 7, 7, 1, 1, 7}
)

func (a *Attr) cacheName() string {
	id, op, result := a.Config&0xff, a.Config>>8&0xff, a.Config>>16&0xff
	switch {
	case id >= uint64(len(cacheNames)):
		return "unknown-ext-hardware-cache-type"
	case op >= uint64(len(cacheOps)):
		return "unknown-ext-hardware-cache-op"
	case result > 1:
		return "unknown-ext-hardware-cache-result"
	case cacheHas[id]>>op&1 == 0:
		return "invalid-cache"
	case result == 1:
		return cacheNames[id] + "-" + cacheOps[op] + "-misses"
	}
	return cacheNames[id] + "-" + cacheOpPlurals[op]
}

func (a *Attr) breakpointName() string {
	s := fmt.Sprintf("mem:0x%x:", a.Config1)
	for bit, letter := range "rwx" {
		if a.BPType>>bit&1 != 0 {
			s += string(letter)
		}
	}
	return s
}

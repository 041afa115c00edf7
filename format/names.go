package format

import "fmt"

var typeNames = map[Type]string{
	TypeMmap: "MMAP", TypeLost: "LOST", TypeComm: "COMM", TypeExit: "EXIT", TypeThrottle: "THROTTLE",
	TypeUnthrottle: "UNTHROTTLE", TypeFork: "FORK", TypeRead: "READ", TypeSample: "SAMPLE", TypeMmap2: "MMAP2",
	TypeAux: "AUX", TypeItraceStart: "ITRACE_START", TypeLostSamples: "LOST_SAMPLES", TypeSwitch: "SWITCH",
	TypeSwitchCPUWide: "SWITCH_CPU_WIDE", TypeNamespaces: "NAMESPACES", TypeKSymbol: "KSYMBOL",
	TypeBPFEvent: "BPF_EVENT", TypeCgroup: "CGROUP", TypeTextPoke: "TEXT_POKE",
	TypeAuxOutputHWID: "AUX_OUTPUT_HW_ID", TypeCallchainDeferred: "CALLCHAIN_DEFERRED", TypeHeaderAttr: "ATTR",
	TypeHeaderTracing: "TRACING_DATA", TypeHeaderBuildID: "BUILD_ID", TypeFinishedRound: "FINISHED_ROUND",
	TypeIDIndex: "ID_INDEX", TypeAuxtraceInfo: "AUXTRACE_INFO", TypeAuxtrace: "AUXTRACE",
	TypeAuxtraceError: "AUXTRACE_ERROR", TypeThreadMap: "THREAD_MAP", TypeCPUMap: "CPU_MAP",
	TypeEventUpdate: "EVENT_UPDATE", TypeTimeConv: "TIME_CONV", TypeHeaderFeature: "FEATURE",
	TypeCompressed: "COMPRESSED", TypeFinishedInit: "FINISHED_INIT", TypeCompressed2: "COMPRESSED2",
}

// String returns the name of perf's PERF_RECORD_ constant.
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

var cacheNames = [...]string{"L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"}

// cacheOps are the names of accesses, of misses and of hits.
var cacheOps = [...][2]string{{"load", "loads"}, {"store", "stores"}, {"prefetch", "prefetches"}}

// defaultName names an event that the file gives no name, as evsel__name of
// tools/perf/util/evsel.c does.
func (a *Attr) defaultName() string {
	switch {
	case a.Type == TypeHardware:
		return nameAt(hardwareNames[:], a.Config, "unknown-hardware") + a.modifiers()
	case a.Type == TypeSoftware:
		return nameAt(softwareNames[:], a.Config, "unknown-software") + a.modifiers()
	case a.Type == TypeHWCache:
		return a.cacheName()
	case a.Type == TypeRaw:
		return fmt.Sprintf("raw %#x", a.Config) + a.modifiers()
	case a.Type == TypeTracepoint:
		return "unknown tracepoint"
	case a.Type == TypeBreakpoint:
		return fmt.Sprintf("mem:%#x:", a.Config1) + letters(uint64(a.BPType), "rwx") + a.modifiers()
	}
	return fmt.Sprintf("unknown attr type: %d", a.Type)
}

// cacheName names a cache event by the three bytes of its config: cache, kind of
// access, result.
func (a *Attr) cacheName() string {
	cache, op, result := a.Config&0xff, a.Config>>8&0xff, a.Config>>16&0xff
	switch {
	case cache >= uint64(len(cacheNames)) || op >= uint64(len(cacheOps)) || result > 1:
		return "unknown-ext-hardware-cache-type"
	case result == 1:
		return cacheNames[cache] + "-" + cacheOps[op][0] + "-misses" + a.modifiers()
	}
	return cacheNames[cache] + "-" + cacheOps[op][1] + a.modifiers()
}

// modifiers are the letters behind an event's name that say what is counted:
// ":u", ":ppp", ":H" (evsel__add_modifiers).
func (a *Attr) modifiers() string {
	var s string
	if excluded := a.Flags & (FlagExcludeKernel | FlagExcludeUser | FlagExcludeHV); excluded != 0 {
		s = counted(excluded, FlagExcludeKernel, "k") + counted(excluded, FlagExcludeUser, "u") + counted(excluded, FlagExcludeHV, "h")
	}
	s += "ppp"[:a.Flags.PreciseIP()]
	if excluded := a.Flags & (FlagExcludeHost | FlagExcludeGuest); excluded != 0 {
		s += counted(excluded, FlagExcludeHost, "H") + counted(excluded, FlagExcludeGuest, "G")
	}
	if s != "" {
		s = ":" + s
	}
	return s
}

func nameAt(names []string, i uint64, unknown string) string {
	if i < uint64(len(names)) {
		return names[i]
	}
	return unknown
}

func counted(excluded, flag AttrFlags, letter string) string {
	if excluded&flag != 0 {
		return ""
	}
	return letter
}

// letters are those of names whose bits are set.
func letters(bits uint64, names string) string {
	var s string
	for i := range names {
		if bits>>i&1 != 0 {
			s += names[i : i+1]
		}
	}
	return s
}

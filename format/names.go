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
	"minor-faults", "major-faults", "alignment-faults", "emulation-faults", "dummy", "bpf-output", "cgroup-switches"}

// defaultName names an event that the file gives no name.
func (a *Attr) defaultName() string {
	switch {
	case a.Type == TypeHardware && a.Config < uint64(len(hardwareNames)):
		return hardwareNames[a.Config]
	case a.Type == TypeSoftware && a.Config < uint64(len(softwareNames)):
		return softwareNames[a.Config]
	case a.Type == TypeRaw:
		return fmt.Sprintf("raw %#x", a.Config)
	case a.Type == TypeTracepoint:
		return "unknown tracepoint"
	}
	return fmt.Sprintf("unknown attr type: %d", a.Type)
}

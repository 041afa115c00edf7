package format

// Configs of TypeHardware: enum perf_hw_id of include/uapi/linux/perf_event.h.
const (
	HWCycles = iota
	HWInstructions
	HWCacheReferences
	HWCacheMisses
	HWBranches
	HWBranchMisses
	HWBusCycles
	HWStalledCyclesFrontend
	HWStalledCyclesBackend
	HWRefCycles
)

// Configs of TypeSoftware: enum perf_sw_ids of include/uapi/linux/perf_event.h.
const (
	SWCPUClock  = iota // its period is in ns
	SWTaskClock        // its period is in ns
	SWPageFaults
	SWContextSwitches
	SWCPUMigrations
	SWMinorFaults
	SWMajorFaults
	SWAlignmentFaults
	SWEmulationFaults
	SWDummy
	SWBPFOutput
	SWCgroupSwitches
)

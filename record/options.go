package record

import (
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"gperf/format"
	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/programs"
	"gperf/record/synth"
	"gperf/record/tracefs"
)

// Options define the events, the target, and the output files. The zero value of each
// field is perf record's default.
type Options struct {
	Events []event.Event // default: cycles:P, or none with OffCPU but without Freq and Period
	// OffCPU adds an event for the waits of threads. Those shorter than OffCPUThreshold are
	// summed by thread and stack.
	OffCPU      bool
	OffCPUWaker bool // add an event for the wakeups that end the waits; needs OffCPU
	// Goroutines, if not nil, adds an event for the waits of goroutines, in these programs of Go; without any, in the
	// recorded ones that run, and the command. It needs OffCPU, and user stacks.
	Goroutines      []string
	LongWakers      bool // of waits that are not summed alone
	OffCPUThreshold time.Duration
	// Count counts the events by thread and stack in the kernel, in place of samples. The file gets a sample
	// for each count at the end, and at each Snapshot.
	Count    bool
	Snapshot <-chan os.Signal // also writes the histograms of spans; may be nil
	// Follow adds events for the functions and tracepoints that packets pass. Samples with a packet are then samples of
	// followed packets only. All CPUs are recorded, unless Target names processes.
	Follow *Follow
	Target Target
	// Packets selects the packets of samples that have one.
	Packets Packets

	// Freq, in Hz, applies to tracepoints as well; 0 means 4000 for all other events.
	Freq   uint64
	Period uint64 // one sample per so many events, instead of Freq
	// MaxCPU is the share of one CPU that the recorder may use on average, such as 0.01; 0: no limit. To keep to it,
	// the recorder takes fewer samples. Notice then gets a *ThrottledError.
	MaxCPU    float64
	NoSamples bool
	NoInherit bool // exclude threads and processes that the target starts
	AllUser   bool // user space only
	AllKernel bool // kernel only
	NoIdle    bool // clocks leave out idle tasks, in the kernel

	Stacks   StackOptions
	Samples  SampleOptions
	SideBand SideBandOptions
	Output   OutputOptions

	Pages       int  // pages of a ring, a power of 2; 0: as many as may be locked, up to 512 KiB
	NoBuffering bool // wake the recorder up for each sample
	// Overwrite makes the kernel overwrite the oldest records when a ring is full. gperf
	// writes the rings when output is switched, and at the end.
	Overwrite bool
	// Realtime, if not 0, is the recorder's SCHED_FIFO priority. Otherwise its nice value is lowered by 10.
	Realtime int
	// MeasureCost makes Summary.Cost include the time of BPF programs, which then takes some ns more of each run.
	MeasureCost bool

	// Delay is the time from the start until the events are enabled; below zero, only Control
	// enables them.
	Delay time.Duration
	// Pauses are times after the start at which events are alternately disabled and enabled.
	Pauses  []time.Duration
	Control Control

	Tracefs *tracefs.FS
	Hooks
}

// StackOptions say which stacks samples have, by default none.
type StackOptions struct {
	Callchain bool // frame-pointer callchains
	// UserChain and KernelChain restrict callchains to frames of user space, or of the kernel.
	UserChain, KernelChain bool
	// MaxStack is the maximum number of frames of a callchain; 0:
	// kernel.perf_event_max_stack.
	MaxStack uint16
	// DWARF unwinds user callchains by CFI, in the kernel. If BPF cannot be loaded, Notice
	// gets an *UnwindError, and the stacks are copied, as with StackDump.
	DWARF bool
	// StackDump, if not 0, copies so many bytes of user stack, and the registers, into each
	// sample instead: readers of the file unwind them.
	StackDump  uint16
	NoRuntimes bool // record no functions of interpreters
}

// SampleOptions select the optional data of samples.
type SampleOptions struct {
	// Fields lists additional fields of each sample: its period, CPU, weight, physical
	// address …
	Fields      format.SampleType
	IntrRegs    uint64 // mask of each sample's registers of the interrupted code
	UserRegs    uint64 // mask of each sample's registers of user space
	Branches    Branches
	Raw         bool // request raw data for all events
	Stat        bool // counts of each thread, when it exits
	RunningTime bool // enabled and running times of SampleRead
	AllCgroups  bool // the cgroup of each sample
	UseClockID  bool
	ClockID     int32 // with UseClockID: clock_gettime's clock
}

// SideBandOptions say which records describe processes and the kernel.
type SideBandOptions struct {
	DataMmap   bool // also record mappings without code
	Switches   bool // context switches
	Namespaces bool // namespaces of processes
	NoBPFEvent bool
	// NoBuildIDMmap leaves build IDs out of the mapping records: the file gets a table of
	// them instead.
	NoBuildIDMmap bool
	// TailSynth writes the synthesized records at the end of a file instead of at its
	// beginning.
	TailSynth bool
	Omit      synth.Kinds // kinds of synthesized records to omit
}

// OutputOptions say where the recording goes.
type OutputOptions struct {
	Path string    // default: perf.data; "-": standard output, in pipe mode
	To   io.Writer // replaces standard output
	// Compress, if not 0, is the zstd level for compressing the records, 1 to 22.
	Compress int
	// Compressed2 writes compressed records in the format of perf 6.16 and later.
	Compressed2 bool
	// Timestamp appends the time to the file's name when it is finished.
	Timestamp bool
	Switch    Switch // implies Timestamp, unless NextFile is set
	// NextFile, if set, returns the path of each file when it is created, in place of Path.
	NextFile func() string
	// Checkpoints makes the file readable by perf at least once a second, before it is finished.
	Checkpoints bool
	// MaxSize, in bytes, ends the recording when the output has reached it; 0: no limit.
	MaxSize int64
	// Kcore makes Path a directory, which includes a copy of the kernel's code.
	Kcore     bool
	NoBuildID bool // write no table of build IDs
	// NoBuildIDCache leaves perf's build-ID cache as it is: the recording contains the names of
	// functions of interpreters, for gperf alone.
	NoBuildIDCache bool
	Cmdline        []string // of the recorder, for the file's header
	Version        string   // of the recorder
}

// plan is the options of a recording, and the choices made when it begins.
type plan struct {
	Options
	// instead says which stacks are recorded if user stacks cannot be unwound in the kernel; nil: they
	// can.
	instead *UnwindError
	// affords reports whether MaxCPU leaves CPU time for unwind tables; nil without MaxCPU.
	affords func() bool
	// following says how packets are followed; nil: they are not.
	following *programs.Following
	// cgroups are the IDs of the cgroups that BPF programs record; nil: all tasks.
	cgroups []uint64
}

const defaultFreq = 4000 // Hz

// capFreq lowers the frequency to the kernel's maximum.
func (o *plan) capFreq() {
	limit := perfevent.MaxFreq()
	switch {
	case o.Freq > limit:
		o.notice(&FreqError{o.Freq, limit})
		o.Freq = limit
	case o.Freq == 0 && o.Period == 0 && limit < defaultFreq:
		o.notice(&FreqError{defaultFreq, limit})
	}
}

// trackingEvent collects side band only: perf's dummy:u.
var trackingEvent = event.Event{Name: "dummy:u", Type: format.TypeSoftware, Config: format.SWDummy,
	Flags: format.FlagExcludeKernel | format.FlagExcludeHV | format.FlagExcludeGuest}

// attrs returns one attr for each event, set up as in perf 7.3 (evsel__config and
// evlist__config of tools/perf/util), followed by the tracking event if a separate one is
// needed, and the events of these attrs.
func (o *plan) attrs() ([]event.Event, []format.Attr) {
	events := o.sampled()
	// Side band is needed while the sampling events are disabled, and for all processes: a
	// separate event writes it. Events that the kernel does not know need one too.
	atOnce := o.Target.byCPU() || o.Delay != 0 || o.Control.Commands != nil || o.Count ||
		events[0].BPFSampled() || needSoftware(events)
	separate := atOnce && !events[0].IsDummy()
	leader := 0
	var attrs []format.Attr
	for i := range events {
		a := o.attr(&events[i])
		switch ev := &events[i]; {
		case ev.OffCPU != 0:
			programs.LimitOffCPU(&a)
			if ev.OffCPU == event.GoroutineWaits {
				a.SampleType |= format.SampleAddr
			}
		case ev.Span != nil && ev.Span.Hist:
			programs.LimitHistogram(&a)
		case o.Count && !ev.IsDummy():
			programs.LimitCount(&a, o.Period != 0 || o.Freq != 0 || ev.Terms.Period != 0 || ev.Terms.Freq != 0)
		}
		if i == 0 && !separate {
			o.track(&a)
			if atOnce {
				o.trackAtOnce(&a)
			}
		}
		if !events[i].Member {
			leader = i
		}
		if events[i].SampleRead && (i > leader || i+1 < len(events) && events[i+1].Member) {
			a.ReadFormat |= format.ReadGroup
		}
		if i > leader {
			follow(&a, &attrs[leader], events[i].Silent)
		}
		attrs = append(attrs, a)
	}
	if separate {
		events = append(events[:len(events):len(events)], trackingEvent)
		attrs = append(attrs, o.trackingAttr())
	}
	identify(attrs)
	if slices.ContainsFunc(attrs, func(a format.Attr) bool { return perfevent.Walked(&a) }) ||
		o.Count || slices.ContainsFunc(events, func(ev event.Event) bool { return ev.BPFSampled() }) {
		// Samples written by BPF have another sample type.
		for i := range attrs {
			attrs[i].SampleType = attrs[i].SampleType&^format.SampleID | format.SampleIdentifier
		}
	}
	return events, attrs
}

// needSoftware reports whether BPF programs make samples, and the first event counts hardware. Before Linux 6.2, BPF
// programs find the recorded threads by software events only: the kernel keeps these apart from hardware events.
func needSoftware(events []event.Event) bool {
	software := []format.EventType{format.TypeSoftware, format.TypeTracepoint, format.TypeBreakpoint}
	return slices.ContainsFunc(events, func(ev event.Event) bool { return ev.BPFSampled() }) &&
		!slices.Contains(software, events[0].Type)
}

// sampled returns the events that take samples.
func (o *plan) sampled() []event.Event {
	events := o.Events
	if len(events) == 0 && (!o.OffCPU || o.Freq != 0 || o.Period != 0) {
		events = []event.Event{event.Default}
	}
	if o.OffCPU {
		events = append(events[:len(events):len(events)], event.OffCPU)
	}
	if o.OffCPUWaker {
		events = append(events, event.OffCPUWaker)
	}
	if o.Goroutines != nil {
		events = append(events[:len(events):len(events)], event.Goroutines)
	}
	return inCgroup(events, o)
}

// inCgroup returns events with the cgroup of the target, where the kernel limits them to it: BPF programs do that
// for the samples and counts that they make.
func inCgroup(events []event.Event, o *plan) []event.Event {
	if o.Target.Cgroup == "" {
		return events
	}
	events = slices.Clone(events)
	for i := range events {
		ev := &events[i]
		if byBPF := ev.BPFSampled() || o.Count && ev.Type == format.TypeTracepoint; !byBPF && !ev.IsDummy() {
			ev.Cgroup = o.Target.Cgroup
		}
	}
	return events
}

// findCgroups finds the cgroups for BPF programs.
func (o *plan) findCgroups() error {
	if name := o.Target.Cgroup; name != "" {
		id, err := perfevent.CgroupID(name)
		o.cgroups = []uint64{id}
		return err
	}
	limited := slices.ContainsFunc(o.Events, func(ev event.Event) bool { return ev.Cgroup != "" })
	if !limited {
		return nil
	}
	for _, ev := range o.sampled() {
		if ev.BPFSampled() {
			return &OneCgroupError{ev.Name}
		}
	}
	return nil
}

// follow makes an event a member of its leader's group. The leader starts and stops it. If
// samples include counts, readers derive samples of all members from the leader's, and use
// the leader's sample fields; the silent members take no samples themselves.
func follow(a, leader *format.Attr, silent bool) {
	a.Flags &^= format.FlagDisabled | format.FlagEnableOnExec
	if leader.SampleType&format.SampleRead == 0 {
		return
	}
	a.Flags = a.Flags&^format.FlagExcludeCallchainUser | leader.Flags&format.FlagExcludeCallchainUser
	a.SampleType, a.ReadFormat = leader.SampleType, leader.ReadFormat
	a.SampleRegsUser, a.SampleStackUser = leader.SampleRegsUser, leader.SampleStackUser
	a.SampleMaxStack = leader.SampleMaxStack
	if silent {
		a.Flags &^= format.FlagFreq
		a.SamplePeriod = 0
	}
}

func (o *plan) attr(ev *event.Event) format.Attr {
	a := o.commonAttr(ev)
	a.Flags |= format.FlagDisabled
	if o.Target.ownCommand() && o.Delay == 0 {
		a.Flags |= format.FlagEnableOnExec
	}
	if o.AllUser {
		a.Flags |= format.FlagExcludeKernel
	}
	if o.AllKernel {
		a.Flags |= format.FlagExcludeUser
	}
	if o.NoIdle && a.IsClock() {
		a.Flags |= format.FlagExcludeIdle
	}
	if fixedPeriod(ev) {
		// perf samples each occurrence, with all fields.
		a.SamplePeriod = 1
		a.SampleType |= format.SampleRaw | format.SampleCPU | format.SamplePeriod
	}
	if ev.Type == format.TypeBreakpoint {
		a.SamplePeriod = 1
	}
	switch {
	case ev.BPFSampled(): // always 1
	case ev.Terms.Period != 0:
		a.SamplePeriod = ev.Terms.Period
	case ev.Terms.Freq != 0:
		a.SamplePeriod = ev.Terms.Freq
		a.Flags |= format.FlagFreq
		a.SampleType |= format.SamplePeriod
	case o.Period != 0:
		a.SamplePeriod = o.Period
	case o.Freq != 0:
		a.SamplePeriod = o.Freq
		a.Flags |= format.FlagFreq
		a.SampleType |= format.SamplePeriod
	case a.SamplePeriod == 0:
		a.SamplePeriod = min(defaultFreq, perfevent.MaxFreq())
		a.Flags |= format.FlagFreq
		a.SampleType |= format.SamplePeriod
	}
	if a.SamplePeriod > 1 && a.Flags&format.FlagFreq == 0 && fixedPeriod(ev) && o.MaxCPU == 0 {
		// With the period in its samples, the kernel would sample each occurrence: perf_swevent_event in
		// kernel/events/core.c. But MaxCPU changes the period.
		a.SampleType &^= format.SamplePeriod
	}
	if o.NoSamples {
		a.SamplePeriod = 0
	}
	o.stacks(&a, ev)
	if !ev.IsDummy() {
		o.machineState(&a)
	}
	if o.Samples.Raw {
		a.SampleType |= format.SampleRaw
	}
	if ev.SampleRead {
		a.SampleType |= format.SampleRead
	}
	return a
}

// stacks requests stacks for the samples, as the event or else the recording wants them.
func (o *plan) stacks(a *format.Attr, ev *event.Event) {
	callchain, dwarf, dump := o.Stacks.Callchain, o.Stacks.DWARF, o.Stacks.StackDump
	t := &ev.Terms
	if t.CallGraph != "" || t.StackDump != 0 {
		callchain, dwarf, dump = t.CallGraph == event.CallGraphFP, t.CallGraph == event.CallGraphDWARF, 0
	}
	if t.StackDump != 0 && t.CallGraph != event.CallGraphNone && t.CallGraph != event.CallGraphFP {
		dwarf, dump = false, t.StackDump
	}
	if t.MaxStack != 0 && t.CallGraph == "" && !dwarf && dump == 0 {
		callchain = true
	}
	if dwarf && o.instead != nil {
		dwarf, callchain, dump = false, o.instead.StackDump == 0, o.instead.StackDump
	}
	if !callchain && !dwarf && dump == 0 {
		return
	}
	a.SampleType |= format.SampleCallchain
	if a.SampleMaxStack = t.MaxStack; a.SampleMaxStack == 0 {
		a.SampleMaxStack = o.Stacks.MaxStack
	}
	// The kernel's frames of system calls are always the same.
	if o.Stacks.UserChain || ev.Span != nil && ev.Span.IsSyscalls() && !o.Stacks.KernelChain {
		a.Flags |= format.FlagExcludeCallchainKernel
	}
	if dwarf || dump != 0 {
		a.Flags |= format.FlagExcludeCallchainUser
	}
	if t.StackDump != 0 { // as perf does for stack dumps of single events
		a.SampleType |= format.SampleAddr | format.SampleDataSrc
	}
	if dump != 0 {
		a.SampleType |= format.SampleRegsUser | format.SampleStackUser
		a.SampleRegsUser = userRegs[runtime.GOARCH]
		a.SampleStackUser = uint32(dump)
	}
}

// DefaultStackDump is perf's default of how many bytes of a stack to copy.
const DefaultStackDump = 8192

// dumpsStacks reports whether any event's stacks are copied.
func (o *plan) dumpsStacks() bool {
	if o.Stacks.StackDump != 0 || o.instead != nil && o.instead.StackDump != 0 {
		return true
	}
	return slices.ContainsFunc(o.Events, func(e event.Event) bool { return e.Terms.StackDump != 0 })
}

// userRegs are perf's masks of the registers copied with a stack dump (PERF_REGS_MASK of
// tools/perf/arch), in the order of the machine's asm/perf_regs.h: all except x86's data
// segments.
var userRegs = map[string]uint64{"amd64": 0xff0fff, "386": 0xfff, "arm64": 1<<33 - 1, "arm": 1<<16 - 1,
	"riscv64": 1<<32 - 1, "ppc64le": 1<<45 - 1, "loong64": 1<<32 - 1}

// fixedPeriod reports whether the event takes a sample for each occurrence by default, for
// its raw data.
func fixedPeriod(ev *event.Event) bool {
	return ev.Type == format.TypeTracepoint || ev.Type == format.TypeSoftware && ev.Config == format.SWBPFOutput
}

// commonAttr returns the settings that the sampling events and the tracking event share.
func (o *plan) commonAttr(ev *event.Event) format.Attr {
	a := format.Attr{
		Type: ev.Type, Config: ev.Config, Config1: ev.Config1, Config2: ev.Config2, Config3: ev.Config3,
		BPType: ev.BPType,
		Size:   format.AttrSize, Name: ev.Name,
		SampleType: format.SampleIP | format.SampleTID | o.Samples.Fields,
		ReadFormat: format.ReadID | format.ReadLost,
		Flags:      ev.Flags | format.FlagSampleIDAll,
	}
	if o.Target.byCPU() || o.Samples.Raw {
		a.SampleType |= format.SampleCPU
	}
	if !o.Target.perThread() { // the records of one thread are in order
		a.SampleType |= format.SampleTime
	}
	if o.Samples.Stat {
		a.Flags |= format.FlagInheritStat
	}
	if o.Samples.Stat || o.Samples.RunningTime {
		a.ReadFormat |= format.ReadTotalTimeEnabled | format.ReadTotalTimeRunning
	}
	if o.Samples.AllCgroups {
		a.SampleType |= format.SampleCgroup
	}
	if (!o.NoInherit || ev.Terms.Inherit) && !ev.Terms.NoInherit && !o.Target.byCPU() && !o.Target.perThread() {
		a.Flags |= format.FlagInherit
	}
	if o.Overwrite {
		a.Flags |= format.FlagWriteBackward
	}
	if o.NoBuffering {
		a.Wakeup = 1
	}
	if o.Samples.UseClockID {
		a.Flags |= format.FlagUseClockID
		a.ClockID = o.Samples.ClockID
	}
	return a
}

func (o *plan) trackingAttr() format.Attr {
	a := o.commonAttr(&trackingEvent)
	a.SamplePeriod = 1
	o.track(&a)
	o.trackAtOnce(&a)
	return a
}

// trackAtOnce makes an event write the side band from the start, or from the exec of the
// recorded command. For processes that run, the enabler enables it, because perf's attrs are the same.
func (o *plan) trackAtOnce(a *format.Attr) {
	if o.Target.byCPU() {
		a.Flags &^= format.FlagDisabled
	} else {
		a.Flags |= format.FlagDisabled | format.FlagEnableOnExec
	}
}

// track makes the event write the side band.
func (o *plan) track(a *format.Attr) {
	a.Flags |= format.FlagMmap | format.FlagMmap2 | format.FlagComm | format.FlagCommExec |
		format.FlagTask | format.FlagKSymbol
	if o.SideBand.DataMmap || o.dumpsStacks() { // perf unwinds stack dumps by the mapped files, their CFI included
		a.Flags |= format.FlagMmapData
	}
	if o.SideBand.Switches {
		a.Flags |= format.FlagContextSwitch
	}
	if o.SideBand.Namespaces {
		a.Flags |= format.FlagNamespaces
	}
	if o.Samples.AllCgroups {
		a.Flags |= format.FlagCgroup
	}
	if !o.SideBand.NoBPFEvent {
		a.Flags |= format.FlagBPFEvent
	}
	if !o.SideBand.NoBuildIDMmap {
		a.Flags |= format.FlagBuildID
	}
}

// identify makes records identify their event: with IDENTIFIER, at a fixed position, if the
// events' samples differ, else with ID. A single event needs neither, unless its samples
// include counts.
func identify(attrs []format.Attr) {
	bit := attrs[0].SampleType & format.SampleIdentifier
	if bit == 0 && (len(attrs) > 1 || attrs[0].SampleType&format.SampleRead != 0) {
		bit = format.SampleID
	}
	for i := range attrs {
		if attrs[i].SampleType != attrs[0].SampleType {
			bit = format.SampleIdentifier
		}
	}
	for i := range attrs {
		attrs[i].SampleType |= bit
	}
}

package record

import (
	"runtime"
	"slices"
	"time"

	"gperf/format"
	"gperf/record/event"
	"gperf/record/tracefs"
)

// Options say what to record, of whom, and into which file. The zero value of
// each field is perf record's default.
type Options struct {
	Events []event.Event // default: cycles:P
	Target Target
	Output string // default: perf.data; "-": standard output, in pipe mode
	// Compress, if not 0, is zstd's level to compress the records with, 1 to 22.
	Compress int
	// Compressed2 makes the compressed records those of perf 6.16 and later.
	Compressed2 bool
	// Timestamp puts the time into the file's name when it is finished.
	Timestamp bool
	Switch    Switch // implies Timestamp

	// Freq, in Hz, is for tracepoints as well; 0 means 4000 for all others.
	Freq   uint64
	Period uint64 // every so many events, instead of Freq

	Callchain bool // frame-pointer callchains
	// UserChain and KernelChain restrict callchains to frames of user space, or of the kernel.
	UserChain, KernelChain bool
	// MaxStack is how many frames a callchain has at most; 0: kernel.perf_event_max_stack.
	MaxStack uint16
	// DWARF finds the user's part of the callchains by call frame information, in the
	// kernel. Where BPF cannot be loaded, Notice gets an *UnwindError, and the stacks
	// are copied, as with StackDump; on arm64, frame pointers are recorded.
	DWARF bool
	// StackDump, if not 0, puts so many bytes of user stack, and registers, into each
	// sample instead: readers of the file unwind them.
	StackDump uint16
	Pages     int // pages of a ring, a power of 2; 0: what may be locked, up to 512 KiB

	// Sample is what each sample carries in addition to what it needs: its period,
	// CPU, weight, physical address …
	Sample   format.SampleType
	IntrRegs uint64 // registers of each sample, as a mask: of the interrupted code
	UserRegs uint64 // … of user space
	Branches Branches
	DataMmap bool // record mappings that hold no code as well

	Stat        bool // counts of each thread, when it exits
	Raw         bool // raw data also where there is none
	RunningTime bool // enabled and running times of SampleRead
	NoSamples   bool
	NoInherit   bool // not the threads and processes that the target starts
	AllUser     bool // user space only
	AllKernel   bool // kernel only
	AllCgroups  bool // the cgroup of each sample
	Switches    bool // side band: context switches
	Namespaces  bool // side band: namespaces of processes
	NoBuffering bool // wake the recorder up for each sample
	NoBPFEvent  bool
	NoBuildID   bool // no table of build IDs
	// NoBuildIDMmap leaves build IDs out of the mappings' records: they are in a table then.
	NoBuildIDMmap bool
	// Overwrite makes the kernel overwrite the oldest records when a ring is full. They are
	// written when output is switched, and at the end.
	Overwrite bool
	// TailSynth describes what runs at the end of a file instead of at its beginning.
	TailSynth  bool
	Omit       Synth // descriptions of what runs at the start that are left out
	UseClockID bool
	ClockID    int32 // with UseClockID: clock_gettime's clock

	// Delay is how long after the start the events are enabled; below zero they
	// never are, unless by Control.
	Delay time.Duration
	// Pauses are times after the start at which events are disabled and enabled in turns.
	Pauses  []time.Duration
	Control Control
	// Kcore makes Output a directory, which has a copy of the kernel's code.
	Kcore bool
	// Realtime, if not 0, is the recorder's priority of SCHED_FIFO.
	Realtime int
	// MaxSize ends the recording when so many bytes are written; 0: no limit.
	MaxSize int64

	// instead is what is recorded where user stacks cannot be walked in the kernel; nil:
	// they can.
	instead *UnwindError

	Cmdline []string // of the recorder, for the file's header
	Version string   // of the recorder
	Tracefs *tracefs.FS

	// Notice is told what turns out other than asked for, at the moment it does;
	// nil: nobody is.
	Notice func(what error)
	// Progress, if set, receives how far a step is that can take long: n of so many.
	Progress func(step string, n, of int)
	// Hurry, when it is closed, ends all waiting: for unwind tables, for the command
	// to exit, for probes to be removed. What is recorded so far is written.
	Hurry <-chan struct{}
	// Dumped is told of each file that output was switched from, and how often
	// there was something to write to it; nil: nobody is.
	Dumped func(path string, wakeups uint64)
	// Verbose is told what is opened; nil: nobody is.
	Verbose func(msg string)
	// Say, if set, receives perf's messages about what is done on request.
	Say func(msg string)
	// List, if set, prints the events on request, with the flags of evlist.
	List func(attrs []format.Attr, flags string)
}

func (o *Options) say(msg string) {
	if o.Say != nil {
		o.Say(msg)
	}
}

func (o *Options) notice(what error) {
	if o.Notice != nil {
		o.Notice(what)
	}
}

const defaultFreq = 4000 // Hz

// MaxFreq is the highest sampling frequency that the kernel allows, in Hz.
func MaxFreq() uint64 {
	return uint64(max(1, sysctl("/proc/sys/kernel/perf_event_max_sample_rate", 100000)))
}

// capFreq lowers the frequency to what the kernel allows.
func (o *Options) capFreq() {
	limit := MaxFreq()
	switch {
	case o.Freq > limit:
		o.notice(&FreqError{o.Freq, limit})
		o.Freq = limit
	case o.Freq == 0 && o.Period == 0 && limit < defaultFreq:
		o.notice(&FreqError{defaultFreq, limit})
	}
}

// trackingEvent collects side band only: perf's dummy:u.
var trackingEvent = event.Event{Name: "dummy:u", Type: format.TypeSoftware, Config: event.Dummy,
	Flags: format.FlagExcludeKernel | format.FlagExcludeHV | format.FlagExcludeGuest}

// attrs sets up one attr for each event, as perf 7.3 does it (evsel__config and
// evlist__config of tools/perf/util), followed by the tracking event where
// there is one of its own. It returns the events that belong to them.
func (o *Options) attrs() ([]event.Event, []format.Attr) {
	events := o.Events
	if len(events) == 0 {
		events = []event.Event{event.Default}
	}
	// Whoever starts to record before the sampling events are enabled, or on
	// all processes, wants side band at once: an event of its own. So do events
	// that the kernel does not know.
	atOnce := o.Target.byCPU() || o.Delay != 0 || emitted(&events[0])
	separate := atOnce && !isDummy(&events[0])
	leader := 0
	var attrs []format.Attr
	for i := range events {
		a := o.attr(&events[i])
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
	if slices.ContainsFunc(attrs, func(a format.Attr) bool { return walked(&a) }) ||
		slices.ContainsFunc(events, func(ev event.Event) bool { return emitted(&ev) }) {
		// BPF's records have another sample type.
		for i := range attrs {
			attrs[i].SampleType = attrs[i].SampleType&^format.SampleID | format.SampleIdentifier
		}
	}
	return events, attrs
}

// follow makes an event a member of its leader's group. The leader starts and stops
// it. Where counts are read, readers make samples of the leader's for all of them,
// and go by the same fields; the silent members take none themselves.
func follow(a, leader *format.Attr, silent bool) {
	a.Flags &^= format.FlagDisabled | format.FlagEnableOnExec
	if leader.SampleType&format.SampleRead == 0 {
		return
	}
	a.Flags = a.Flags&^format.FlagExcludeCallchainUser | leader.Flags&format.FlagExcludeCallchainUser
	a.SampleType, a.ReadFormat = leader.SampleType, leader.ReadFormat
	a.SampleRegsUser, a.SampleStackUser, a.SampleMaxStack = leader.SampleRegsUser, leader.SampleStackUser, leader.SampleMaxStack
	if silent {
		a.Flags &^= format.FlagFreq
		a.SamplePeriod = 0
	}
}

func (o *Options) attr(ev *event.Event) format.Attr {
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
	if fixedPeriod(ev) {
		// perf samples every one of them, with all it has.
		a.SamplePeriod = 1
		a.SampleType |= format.SampleRaw | format.SampleCPU | format.SamplePeriod
	}
	if ev.Type == format.TypeBreakpoint {
		a.SamplePeriod = 1
	}
	switch {
	case emitted(ev): // there is no other period
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
		a.SamplePeriod = min(defaultFreq, MaxFreq())
		a.Flags |= format.FlagFreq
		a.SampleType |= format.SamplePeriod
	}
	if o.NoSamples {
		a.SamplePeriod = 0
	}
	o.stacks(&a, ev)
	if !isDummy(ev) {
		o.machineState(&a)
	}
	if o.Raw {
		a.SampleType |= format.SampleRaw
	}
	if ev.SampleRead {
		a.SampleType |= format.SampleRead
	}
	return a
}

// stacks has the samples carry stacks, as the event or else the recording wants them.
func (o *Options) stacks(a *format.Attr, ev *event.Event) {
	callchain, dwarf, dump := o.Callchain, o.DWARF, o.StackDump
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
		a.SampleMaxStack = o.MaxStack
	}
	if o.UserChain {
		a.Flags |= format.FlagExcludeCallchainKernel
	}
	if dwarf || dump != 0 {
		a.Flags |= format.FlagExcludeCallchainUser
	}
	if t.StackDump != 0 { // as perf does for the event's own stack dumps
		a.SampleType |= format.SampleAddr | format.SampleDataSrc
	}
	if dump != 0 {
		a.SampleType |= format.SampleRegsUser | format.SampleStackUser
		a.SampleRegsUser = userRegs[runtime.GOARCH]
		a.SampleStackUser = uint32(dump)
	}
}

// kernelChain returns the attr as the kernel and the file have it where callchains are
// to have frames of the kernel only. r.attrs are without its flag, which walked goes by.
func (o *Options) kernelChain(a format.Attr) format.Attr {
	if o.KernelChain && a.SampleType&format.SampleCallchain != 0 {
		a.Flags |= format.FlagExcludeCallchainUser
	}
	return a
}

// walked tells whether user stacks of the event's samples are walked in the kernel.
func walked(a *format.Attr) bool {
	return a.Flags&format.FlagExcludeCallchainUser != 0 && a.SampleType&format.SampleStackUser == 0 && a.SamplePeriod != 0
}

// DefaultStackDump is perf's default of how many bytes of a stack to copy.
const DefaultStackDump = 8192

// dumpsStacks returns whether any event's stacks are copied.
func (o *Options) dumpsStacks() bool {
	return o.StackDump != 0 || o.instead != nil && o.instead.StackDump != 0 || slices.ContainsFunc(o.Events, func(e event.Event) bool { return e.Terms.StackDump != 0 })
}

// userRegs are perf's masks of the registers beside a stack dump (PERF_REGS_MASK
// of tools/perf/arch), in the order of the machine's asm/perf_regs.h: all but
// x86's data segments.
var userRegs = map[string]uint64{"amd64": 0xff0fff, "arm64": 1<<33 - 1}

// fixedPeriod tells whether the event is sampled each time by default, for its
// raw data.
func fixedPeriod(ev *event.Event) bool {
	return ev.Type == format.TypeTracepoint || ev.Type == format.TypeSoftware && ev.Config == event.BPFOutput
}

// commonAttr is what the sampling events and the tracking event share.
func (o *Options) commonAttr(ev *event.Event) format.Attr {
	a := format.Attr{
		Type: ev.Type, Config: ev.Config, Config1: ev.Config1, Config2: ev.Config2, Config3: ev.Config3, BPType: ev.BPType,
		Size: format.AttrSize, Name: ev.Name,
		SampleType: format.SampleIP | format.SampleTID | o.Sample,
		ReadFormat: format.ReadID | format.ReadLost,
		Flags:      ev.Flags | format.FlagSampleIDAll,
	}
	if o.Target.byCPU() || o.Raw {
		a.SampleType |= format.SampleCPU
	}
	if !o.Target.perThread() { // the records of one thread are in order
		a.SampleType |= format.SampleTime
	}
	if o.Stat {
		a.Flags |= format.FlagInheritStat
	}
	if o.Stat || o.RunningTime {
		a.ReadFormat |= format.ReadTotalTimeEnabled | format.ReadTotalTimeRunning
	}
	if o.AllCgroups {
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
	if o.UseClockID {
		a.Flags |= format.FlagUseClockID
		a.ClockID = o.ClockID
	}
	return a
}

func (o *Options) trackingAttr() format.Attr {
	a := o.commonAttr(&trackingEvent)
	a.SamplePeriod = 1
	o.track(&a)
	o.trackAtOnce(&a)
	return a
}

// trackAtOnce makes an event write the side band from the start, or from the exec of
// the recorded command.
func (o *Options) trackAtOnce(a *format.Attr) {
	if o.Target.byCPU() {
		a.Flags &^= format.FlagDisabled
	} else {
		a.Flags |= format.FlagDisabled | format.FlagEnableOnExec
	}
}

// tracks tells whether an event writes the side band.
func tracks(a *format.Attr) bool { return a.Flags&format.FlagTask != 0 }

// isDummy tells whether an event makes no samples.
func isDummy(ev *event.Event) bool {
	return ev.Type == format.TypeSoftware && ev.Config == event.Dummy
}

// track has the event write the side band.
func (o *Options) track(a *format.Attr) {
	a.Flags |= format.FlagMmap | format.FlagMmap2 | format.FlagComm | format.FlagCommExec | format.FlagTask | format.FlagKSymbol
	if o.DataMmap || o.dumpsStacks() { // perf unwinds stack dumps by what is mapped, CFI included
		a.Flags |= format.FlagMmapData
	}
	if o.Switches {
		a.Flags |= format.FlagContextSwitch
	}
	if o.Namespaces {
		a.Flags |= format.FlagNamespaces
	}
	if o.AllCgroups {
		a.Flags |= format.FlagCgroup
	}
	if !o.NoBPFEvent {
		a.Flags |= format.FlagBPFEvent
	}
	if !o.NoBuildIDMmap {
		a.Flags |= format.FlagBuildID
	}
}

// identify has the records tell which event they are of: at a place that is
// the same for all where the events' samples differ (IDENTIFIER), else by ID.
// One event needs neither, unless its counts are read.
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

// timeOffset is where a sample of any of the attrs has its time, in bytes from
// the record's header: identify and commonAttr see to it that this is one
// place. It is 0 where samples have no time.
func timeOffset(attrs []format.Attr) uint64 {
	if attrs[0].SampleType&format.SampleTime == 0 {
		return 0
	}
	off := uint64(8) // header
	for _, bit := range [...]format.SampleType{format.SampleIdentifier, format.SampleIP, format.SampleTID} {
		if attrs[0].SampleType&bit != 0 {
			off += 8
		}
	}
	return off
}

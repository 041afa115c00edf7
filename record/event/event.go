// Package event parses perf record's -e into events. Package record opens them; package probe
// resolves probes on this machine, and package tracefs lists tracepoints.
package event

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/record/probe"
	"gperf/record/probe/kernel"
)

// Event is one event of a command line: what to count and where to count it, before the
// options of the recording are applied.
type Event struct {
	Name                      string // its name in files: "cycles:u", "skb:kfree_skb"
	Type                      format.EventType
	Config                    uint64
	Config1, Config2, Config3 uint64           // of a breakpoint: its address, and its length in bytes
	BPType                    uint32           // of a breakpoint: accesses, HW_BREAKPOINT_*
	Flags                     format.AttrFlags // exclude_*, precise_ip, pinned, exclusive
	// SampleRead puts the counter's value into every sample (modifier S).
	SampleRead bool
	Terms      Terms

	// Member means that the event is in the group of the preceding event.
	Member bool
	Group  string // name of the group that the event leads; "" for most
	Weak   bool   // its group may be opened as single events
	// Silent means that the event takes no samples: its leader's contain its count.
	Silent bool

	CPUs   []int  // CPUs of the PMU, if not all; nil: any
	Filter string // of a tracepoint's fields, in the kernel's syntax
	Cgroup string // count only its threads, a path below the mount point; "": all

	// Tracepoint is "system/name", a directory of tracefs' events; empty for other events. A
	// probe gets its tracepoint, and Config, when the recording begins.
	Tracepoint string
	Probe      *probe.Probe // nil for others
	// Raw is a raw tracepoint, or a tracepoint with arguments, whose samples BPF programs
	// make; nil for others.
	Raw *kernel.Raw
	// Hops means that Raw is not a tracepoint, but functions that packets pass: Function, or all functions of followed
	// packets.
	Hops     bool
	Function *kernel.PacketFunction
	// Span is a span, whose samples BPF programs make; nil for others.
	Span *Span
	// OffCPU marks the events of waiting threads; 0 for others.
	OffCPU OffCPUKind
}

// OffCPUKind says what an event of waits records.
type OffCPUKind int

const (
	Waits          OffCPUKind = 1 + iota // the thread that waits
	Wakers                               // the waker, which ends the wait
	GoroutineWaits                       // the goroutine that waits
)

// IsDummy reports whether the event takes no samples.
func (e *Event) IsDummy() bool { return e.Type == format.TypeSoftware && e.Config == format.SWDummy }

// BPFSampled reports whether BPF programs make the event's samples, so that it has no counters.
// For probes, the answer is valid when the recording has defined their tracepoints.
func (e *Event) BPFSampled() bool {
	return e.OffCPU != 0 || e.Type == format.TypeTracepoint && e.Tracepoint == ""
}

// OffCPU is the time that threads wait, in ns. It has the name and type of perf's event.
var OffCPU = Event{Name: "offcpu-time", Type: format.TypeSoftware, Config: format.SWBPFOutput, OffCPU: Waits}

// OffCPUWaker is the time that threads wait until a thread or an interrupt wakes them, in ns.
var OffCPUWaker = Event{Name: "offcpu-waker", Type: format.TypeSoftware, Config: format.SWBPFOutput, OffCPU: Wakers}

// Goroutines is the time that goroutines wait, in ns. The samples' addresses are the numbers of the goroutines.
var Goroutines = Event{Name: "goroutine-wait", Type: format.TypeSoftware, Config: format.SWBPFOutput,
	OffCPU: GoroutineWaits}

// Default is cycles:P, with the PMU's highest precision.
var Default = Event{Name: "cycles:P", Type: format.TypeHardware, Config: format.HWCycles,
	Flags: format.AttrFlags(0).WithPreciseIP(3)}

var hardwareEvents = map[string]uint64{
	"cpu-cycles": format.HWCycles, "cycles": format.HWCycles,
	"instructions":     format.HWInstructions,
	"cache-references": format.HWCacheReferences,
	"cache-misses":     format.HWCacheMisses,
	"branches":         format.HWBranches, "branch-instructions": format.HWBranches,
	"branch-misses":           format.HWBranchMisses,
	"bus-cycles":              format.HWBusCycles,
	"stalled-cycles-frontend": format.HWStalledCyclesFrontend, "idle-cycles-frontend": format.HWStalledCyclesFrontend,
	"stalled-cycles-backend": format.HWStalledCyclesBackend, "idle-cycles-backend": format.HWStalledCyclesBackend,
	"ref-cycles": format.HWRefCycles,
}

var softwareEvents = map[string]uint64{
	"cpu-clock":   format.SWCPUClock,
	"task-clock":  format.SWTaskClock,
	"page-faults": format.SWPageFaults, "faults": format.SWPageFaults,
	"context-switches": format.SWContextSwitches, "cs": format.SWContextSwitches,
	"cpu-migrations": format.SWCPUMigrations, "migrations": format.SWCPUMigrations,
	"minor-faults":     format.SWMinorFaults,
	"major-faults":     format.SWMajorFaults,
	"alignment-faults": format.SWAlignmentFaults,
	"emulation-faults": format.SWEmulationFaults,
	"dummy":            format.SWDummy,
	"bpf-output":       format.SWBPFOutput,
	"cgroup-switches":  format.SWCgroupSwitches,
}

// The three parts of a cache event's name, in perf's spellings, in lower case; the index is
// the kernel's number (enum perf_hw_cache_id, _op_id, _op_result_id).
var (
	cacheNames = [][]string{
		{"l1-dcache", "l1-d", "l1d", "l1-data"},
		{"l1-icache", "l1-i", "l1i", "l1-instruction"},
		{"llc", "l2"},
		{"dtlb", "d-tlb", "data-tlb"},
		{"itlb", "i-tlb", "instruction-tlb"},
		{"branch", "branches", "bpu", "btb", "bpc"},
		{"node"},
	}
	cacheOps = [][]string{
		{"load", "loads", "read"},
		{"store", "stores", "write"},
		{"prefetch", "prefetches", "speculative-read", "speculative-load"},
	}
	cacheResults = [][]string{
		{"refs", "reference", "ops", "access"},
		{"misses", "miss"},
	}
	// cacheHas lists the operations of each cache, as bits of 1<<op.
	cacheHas = [...]uint{7, 5, 7, 7, 1, 1, 7}
)

// plainEvent returns the hardware, software, cache or raw event of this name.
func plainEvent(name string) (Event, bool) {
	if c, ok := hardwareEvents[name]; ok {
		return Event{Type: format.TypeHardware, Config: c}, true
	}
	if c, ok := softwareEvents[name]; ok {
		return Event{Type: format.TypeSoftware, Config: c}, true
	}
	if c, ok := cacheConfig(name); ok {
		return Event{Type: format.TypeHWCache, Config: c}, true
	}
	if hex, ok := strings.CutPrefix(name, "r"); ok {
		if c, err := strconv.ParseUint(hex, 16, 64); err == nil {
			return Event{Type: format.TypeRaw, Config: c}, true
		}
	}
	return Event{}, false
}

// cacheConfig parses CACHE[-OP][-RESULT], in any case; op and result may be swapped, and
// default to read and access.
func cacheConfig(name string) (config uint64, ok bool) {
	cache, rest, ok := takeWord(strings.ToLower(name), cacheNames)
	if !ok {
		return 0, false
	}
	op, result := -1, -1
	for rest != "" {
		if i, r, ok := takeWord(rest, cacheOps); ok && op < 0 {
			op, rest = i, r
		} else if i, r, ok := takeWord(rest, cacheResults); ok && result < 0 {
			result, rest = i, r
		} else {
			return 0, false
		}
	}
	op, result = max(op, 0), max(result, 0)
	if cacheHas[cache]>>op&1 == 0 {
		return 0, false
	}
	return uint64(cache | op<<8 | result<<16), true
}

// takeWord takes the longest spelling at the start of s, up to a dash or the end, and returns
// its row.
func takeWord(s string, rows [][]string) (row int, rest string, ok bool) {
	best := 0
	for i, words := range rows {
		for _, w := range words {
			r, found := strings.CutPrefix(s, w)
			if found && len(w) > best && (r == "" || r[0] == '-') {
				row, rest, ok, best = i, strings.TrimPrefix(r, "-"), true, len(w)
			}
		}
	}
	return row, rest, ok
}

// modifiers are the letters after the last colon.
const modifiers = "ukhpPGHSDIeW"

// modifier is the meaning of one modifier, or the sum of several.
type modifier struct {
	levels     format.AttrFlags // levels to include, by the flags that exclude them
	side       format.AttrFlags // excludes the host or the guests
	flags      format.AttrFlags
	precise    int // steps of precise_ip
	maxPrecise bool
	sampleRead bool
	weak       bool
}

var modifierMeanings = map[rune]modifier{
	'u': {levels: format.FlagExcludeUser},
	'k': {levels: format.FlagExcludeKernel},
	'h': {levels: format.FlagExcludeHV},
	'p': {precise: 1},
	'P': {maxPrecise: true},
	'G': {side: format.FlagExcludeHost},
	'H': {side: format.FlagExcludeGuest},
	'S': {sampleRead: true},
	'W': {weak: true},
	'D': {flags: format.FlagPinned},
	'I': {flags: format.FlagExcludeIdle},
	'e': {flags: format.FlagExclusive},
}

// maxPrecise is the highest value of precise_ip.
const maxPrecise = 3

func (m *modifier) add(o modifier) {
	m.levels |= o.levels
	m.side |= o.side
	m.flags |= o.flags
	m.sampleRead = m.sampleRead || o.sampleRead
	m.weak = m.weak || o.weak
	m.precise += o.precise
	if o.maxPrecise {
		m.precise = maxPrecise
	}
}

// parseModifiers returns the sum of the modifiers of spec.
func parseModifiers(spec, mods string) (sum modifier, err error) {
	bad := eventText(spec).bad
	if mods == "" {
		return sum, bad("the modifier after the colon is missing")
	}
	for i, c := range mods {
		m, ok := modifierMeanings[c]
		if !ok {
			return sum, bad(modifierRefusal(c))
		}
		if c != 'p' && strings.ContainsRune(mods[:i], c) {
			return sum, bad(fmt.Sprintf("modifier %q is given twice", c))
		}
		sum.add(m)
	}
	if sum.precise > maxPrecise {
		return sum, bad("at most three p")
	}
	return sum, nil
}

// modify applies the modifiers of spec to the event, as in perf-list(1).
func (ev *Event) modify(spec, mods string) error {
	m, err := parseModifiers(spec, mods)
	if err != nil {
		return err
	}
	const levels = format.FlagExcludeUser | format.FlagExcludeKernel | format.FlagExcludeHV
	if m.levels != 0 {
		if ev.Flags&levels != 0 { // a group's modifiers add to the event's own
			m.levels |= levels &^ ev.Flags
		}
		ev.Flags = ev.Flags&^levels | levels&^m.levels
	}
	ev.Flags |= m.flags
	if bits.OnesCount64(uint64(m.side)) == 1 { // G and H together mean both sides
		ev.Flags |= m.side
	}
	if m.precise > 0 {
		ev.Flags = ev.Flags.WithPreciseIP(m.precise)
	}
	ev.SampleRead = ev.SampleRead || m.sampleRead
	ev.Weak = ev.Weak || m.weak
	return nil
}

func modifierRefusal(c rune) string {
	switch c {
	case 'b', 'R', 'X':
		return fmt.Sprintf("modifier %q is for counting, not for recording", c)
	}
	return fmt.Sprintf("unknown modifier %q: there are u k h p P G H S D I e, and W for groups", c)
}

// hardwareNames, softwareNames and cacheSpellings return the names of the events that all
// kernels know, sorted; for a cache event the spelling of `perf list`. This machine may not
// be able to count them.
func hardwareNames() []string { return slices.Sorted(maps.Keys(hardwareEvents)) }
func softwareNames() []string { return slices.Sorted(maps.Keys(softwareEvents)) }
func cacheSpellings() (l []string) {
	for cache := range cacheNames {
		for op := range cacheOps {
			if cacheHas[cache]>>op&1 == 0 {
				continue
			}
			for result := range cacheResults {
				a := format.Attr{Type: format.TypeHWCache, Config: uint64(cache | op<<8 | result<<16)}
				l = append(l, a.DefaultName())
			}
		}
	}
	return l
}

// plainNames returns the names of hardware, software and cache events.
func plainNames() []string { return slices.Concat(hardwareNames(), softwareNames(), cacheSpellings()) }

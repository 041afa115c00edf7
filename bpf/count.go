package bpf

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// CounterOptions define which events are counted.
type CounterOptions struct {
	UserStacks UserStacks
	Unwinder   *Unwinder // for UserByTables
	// PerTask counts at tracepoints and probes only the events of threads with one of the recording's perf events,
	// inherited or not, while that event is enabled: see SetIDs.
	PerTask bool
	// Cgroups, if not nil, are IDs of cgroups: only tasks in these, and below them, are recorded.
	Cgroups []uint64
	CPUs    uint32 // maximum number of rings
	On      []int  // CPUs that are counted
	IDs     int    // maximum number of perf events
	Probes  bool   // there are probes among the events
}

// Counter holds the programs that count events by thread and stack.
type Counter struct {
	o        CounterOptions
	control  *control
	spec     *ebpf.CollectionSpec
	loader   *loader
	programs map[int]*ebpf.Program // by index of the event
	shared   *ebpf.Program         // of all tracepoints; nil: not loaded
}

// NewCounter returns a Counter without programs.
func NewCounter(o CounterOptions) (*Counter, error) {
	spec, err := loadCount()
	if err != nil {
		return nil, err
	}
	p := &Counter{o: o, spec: spec, loader: newLoader(o.Unwinder, o.Cgroups), programs: map[int]*ebpf.Program{}}
	slots := o.CPUs * (&Options{Programs: p.walkPrograms()}).levels()
	setSizes(spec, map[string]uint32{"walks": slots, "stacks": slots, "current": slots, "quiet": o.CPUs,
		"waking": o.CPUs, "counts_to": o.CPUs, "stacks_to": o.CPUs, "wanted_cpus": o.CPUs,
		"counters": uint32(max(1, o.IDs))})
	if err := setVariables(spec, map[string]any{"per_task": flag(o.PerTask), "cpus": o.CPUs,
		"user_stacks": uint32(o.UserStacks)}); err != nil {
		return nil, err
	}
	if err := p.start(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Counter) walkPrograms() []Program {
	if p.o.Probes {
		return []Program{OnProbe}
	}
	return nil
}

// start creates the shared maps, and the switch.
func (p *Counter) start() error {
	identify, err := p.load("identify", nil)
	if err != nil {
		return err
	}
	defer identify.Close()
	if err := p.loader.setCPUs(p.o.On); err != nil {
		return err
	}
	p.control, err = p.loader.control(p.o.Unwinder, identify)
	return err
}

// load loads a program with these constants.
func (p *Counter) load(name string, vars map[string]any) (*ebpf.Program, error) {
	spec := *p.spec // without the other programs, because copies of these take time
	spec.Programs = map[string]*ebpf.ProgramSpec{name: p.spec.Programs[name]}
	coll, err := p.loader.load(spec.Copy(), vars, name)
	if err != nil {
		return nil, err
	}
	defer coll.Close()
	return coll.DetachProgram(name), nil
}

// CountedEvent is an event whose occurrences are counted.
type CountedEvent struct {
	Index   int
	Program Program // that walks the stacks of such events
	// KernelFrames is the maximum number of kernel frames, 1 for the ip only.
	KernelFrames int
	UserIP       bool // the ip in user mode, in place of user stacks
}

// maxKernelFrames is the maximum number of frames in the kernel.
//
//bpf:define maxKernelFrames MAX_KERNEL
const maxKernelFrames = 128

// counterPrograms are the programs for the types of events.
var counterPrograms = map[Program]string{OnEvent: "count_sample", OnTracepoint: "count_tracepoint",
	OnProbe: "count_probe"}

// share loads the program that the programs of all tracepoints continue with.
func (p *Counter) share() error {
	if p.shared != nil {
		return nil
	}
	prog, err := p.load("tracepoint_counts", nil)
	if err != nil {
		return err
	}
	p.shared = prog
	if err := p.loader.get("counts_tracepoints").Put(uint32(0), prog); err != nil {
		return fmt.Errorf("BPF program of tracepoints: %w", err)
	}
	return nil
}

// Load loads the program of an event.
func (p *Counter) Load(ev CountedEvent) error {
	name := counterPrograms[ev.Program]
	if ev.Program == OnTracepoint && haveTailCalls() {
		if err := p.share(); err != nil {
			return err
		}
		name = "tracepoint_begins"
	}
	prog, err := p.load(name, map[string]any{"event": uint32(ev.Index),
		"kernel_bytes": uint32(8 * min(ev.KernelFrames, maxKernelFrames)), "user_ip": flag(ev.UserIP)})
	if err == nil {
		p.programs[ev.Index] = prog
	}
	return err
}

// Attach makes the program of an event count the occurrences at a perf event. At a tracepoint, a program of one
// perf event runs for all.
func (p *Counter) Attach(event, fd int) error {
	prog := p.programs[event]
	if prog == nil {
		return fmt.Errorf("no BPF program counts event %d", event)
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, prog.FD()); err != nil {
		return fmt.Errorf("attaching a BPF program that counts: %w", err)
	}
	return nil
}

// SetIDs sets the ids of the recording's perf events, which PerTask selects by.
func (p *Counter) SetIDs(ids []uint64) error { return p.loader.setIDs(ids) }

// CounterOutput is the PERF_COUNT_SW_BPF_OUTPUT events of a CPU that a Counter writes to.
type CounterOutput struct {
	Counts int // [Count]s whose stacks the recorder walks, each after the copy
	Stacks int // [Stack]s
	// Quiet and Waking get copies of stacks, as in [Unwinder.SetOutput].
	Quiet, Waking int
}

// SetOutput directs a CPU's output.
func (p *Counter) SetOutput(cpu int, o CounterOutput) error {
	return p.loader.setOutput(cpu, map[string]int{"counts_to": o.Counts, "stacks_to": o.Stacks, "quiet": o.Quiet,
		"waking": o.Waking})
}

// Enable starts or stops counting.
func (p *Counter) Enable(on bool) error {
	p.loader.types = nil
	return p.control.set(on)
}

// CountKey identifies a Count.
type CountKey struct {
	Stack        uint64 // the hash of the Stack
	TGID, Thread uint32 // in the initial PID namespace
	Exec         uint32
	Event        uint16 // index
	End          uint16 // why the walk of the user stack ended
}

// Count is the number of events of one thread with one stack.
type Count struct {
	CountKey
	Weight   uint64
	First    uint64 // CLOCK_MONOTONIC of the first one, in ns
	PID, TID uint32
}

// Head describes the user stack.
func (c *Count) Head() Head { return Head{End: End(c.End), TGID: c.TGID, Exec: c.Exec} }

func countOf(raw *countCount) Count {
	k := &raw.Key
	return Count{CountKey: CountKey{k.Stack, k.Tgid, k.Thread, k.Exec, k.Event, k.End}, Weight: raw.Weight,
		First: raw.First, PID: raw.Pid, TID: raw.Tid}
}

// ParseCount parses the data of PERF_SAMPLE_RAW.
func ParseCount(b []byte) (c Count, ok bool) {
	var raw countCount
	if len(b) < int(unsafe.Sizeof(raw)) {
		return c, false
	}
	if _, err := binary.Decode(b, binary.LittleEndian, &raw); err != nil {
		return c, false
	}
	return countOf(&raw), int(raw.Key.End) < NumEnds
}

// Counts returns all counts.
func (p *Counter) Counts() (l []Count, err error) {
	var key countCountKey
	var raw countCount
	all := p.loader.get("counts").Iterate()
	for all.Next(&key, &raw) {
		l = append(l, countOf(&raw))
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("reading counts: %w", err)
	}
	return l, nil
}

// MaxCounts is the maximum number of counts.
const MaxCounts = 65536

// Uncounted returns the number of events that were not counted: the map was full.
func (p *Counter) Uncounted() (n uint64, err error) {
	err = p.loader.get("uncounted").Lookup(uint32(0), &n)
	return n, err
}

// Stats reads the counters of this kernel.
func (p *Counter) Stats() (s Stats) {
	for _, prog := range p.programs {
		s.add(prog)
	}
	return s
}

// Close unloads the programs, as soon as no event uses them any more.
func (p *Counter) Close() {
	for _, prog := range p.programs {
		prog.Close()
	}
	p.shared.Close()
	p.loader.close()
}

package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// MaxRawArgs is the kernel's maximum number of arguments of a raw tracepoint.
const MaxRawArgs = 12

// SamplerOptions define the sampled threads and the rings.
type SamplerOptions struct {
	// Unwinder, if not nil, walks the user stacks with the Unwinder's data, as for other events: a stack precedes
	// each sample.
	Unwinder *Unwinder
	// PerTask, if not nil, are ids of perf events: only threads with one of these events, inherited or not, are
	// sampled, while the event is enabled.
	PerTask []uint64
	// Cgroups, if not nil, are IDs of cgroups: only tasks in these, and below them, are recorded.
	Cgroups []uint64
	// CPUs is the maximum number of rings.
	CPUs uint32
	// RawTracepoints is the number of raw tracepoints to attach, which may interrupt each other's programs; 0: unknown.
	RawTracepoints int
	// Select selects the packets of events with a packet.
	Select PacketSelection
	// Follow makes samples with a packet only of packets that are followed: of those that the
	// filters of an event's packet select, and from then on at all events.
	Follow bool
}

// Sampler holds programs that make samples of events without a perf event. Programs use their own scratch
// memory, or separate levels of it: unlike the programs of an [Unwinder], one program can interrupt another.
type Sampler struct {
	o        SamplerOptions
	control  *control
	spec     *ebpf.CollectionSpec
	loader   *loader
	programs []*ebpf.Program
	silent   []*ebpf.Program // of these, those that make no samples
	links    []link.Link
	spans    []eventSpans
	paused   map[uint16]bool // by event
	stages   stages
}

// stages are the programs that the programs of raw tracepoints continue with (selected.h).
type stages struct {
	loaded [numStages]bool // those that events share
	events uint32          // number of the others, one for each event with a packet
}

// The stages that events share, and the maximum number of stages.
//
//bpf:enum stage STAGE_
const (
	stageRead uint32 = iota // reads the packet
	stageSend               // walks the user stack and writes the sample
	numStages
)

//bpf:define maxStages MAX_STAGES
const maxStages = 4096

// stagePrograms are the programs of the stages that events share.
var stagePrograms = map[uint32]string{stageRead: "packet_read", stageSend: "sample_ends"}

// NewSampler returns a Sampler without programs.
func NewSampler(o SamplerOptions) (*Sampler, error) {
	e := &Sampler{o: o, loader: newLoaderWith(o.Unwinder, o.Cgroups), paused: map[uint16]bool{}}
	spec, err := loadEmit()
	if err != nil {
		return nil, err
	}
	e.spec = spec
	if !o.Follow {
		for _, name := range followMaps {
			spec.Maps[name].MaxEntries = 1
		}
	}
	setSizes(spec, map[string]uint32{"samples_to": o.CPUs, "counters": uint32(max(1, len(o.PerTask)))})
	if err := e.start(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// start creates the maps that all programs use together, and the switch.
func (e *Sampler) start() error {
	progs, err := e.load(nil, nil, "identify")
	if err != nil {
		return err
	}
	if err := e.loader.setIDs(e.o.PerTask); err != nil {
		return err
	}
	e.control, err = e.loader.control(e.o.Unwinder, progs[0])
	return err
}

func flag(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

// load loads programs of emit.bpf.c for one event; vars are constants of these programs, and bodies replace functions,
// each of which at least one of the programs must have. All programs get the packet filter. load closes the files
// of the maps that only these programs use, because there may be more programs than a process may open files.
func (e *Sampler) load(vars map[string]any, bodies map[string]asm.Instructions,
	names ...string) ([]*ebpf.Program, error) {
	spec := *e.spec // without the other programs, because copies of these take time
	spec.Programs = map[string]*ebpf.ProgramSpec{}
	for _, name := range names {
		spec.Programs[name] = e.spec.Programs[name]
	}
	l, own, err := e.loadFrom(spec.Copy(), vars, bodies, names...)
	if err == nil {
		own.Close()
	}
	return l, err
}

// loadFrom is load for the programs of spec, which it changes. own contains the maps that only these programs use.
func (e *Sampler) loadFrom(spec *ebpf.CollectionSpec, vars map[string]any, bodies map[string]asm.Instructions,
	names ...string) (l []*ebpf.Program, own *ebpf.Collection, err error) {
	filter, err := e.o.Select.Filter.functions()
	if err != nil {
		return nil, nil, err
	}
	walks, replaced := false, map[string]bool{}
	for _, name := range names {
		p := spec.Programs[name]
		p.Instructions = replaceFunctions(p.Instructions, bodies, replaced)
		p.Instructions = replaceFunctions(p.Instructions, filter, replaced)
		walks = walks || slices.ContainsFunc(p.Instructions, isWalk)
	}
	for function := range bodies {
		if !replaced[function] {
			return nil, nil, fmt.Errorf("the BPF programs %v have no function %s", names, function)
		}
	}
	all := map[string]any{"per_task": flag(e.o.PerTask != nil), "walk_user": flag(e.o.Unwinder != nil)}
	maps.Copy(all, vars)
	if spec.Variables["following"] != nil {
		all["following"] = flag(e.o.Follow)
	}
	if spec.Variables["only_netns"] != nil { // the object includes selected.h
		if err := e.o.Select.setVars(all); err != nil {
			return nil, nil, err
		}
	}
	if e.o.Unwinder != nil && walks {
		spec.Maps["walks"].MaxEntries = e.o.CPUs
		if vars["cpus"] != nil { // of programs that may be preempted, or interrupt each other
			spec.Maps["walks"].MaxEntries *= e.o.levels(names[0])
		}
	}
	if own, err = e.loader.load(spec, all, names...); err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		l = append(l, own.DetachProgram(name))
	}
	e.programs = append(e.programs, l...)
	return l, own, nil
}

// isWalk reports whether an instruction belongs to a walk: the maps of walks are large.
func isWalk(ins asm.Instruction) bool { return ins.IsLoadFromMap() && ins.Reference() == "walks" }

// levels returns the number of simultaneous walks of a program on a CPU. The programs of one raw tracepoint do not
// interrupt each other.
func (o *SamplerOptions) levels(program string) uint32 {
	if n := o.RawTracepoints; program == stagePrograms[stageSend] && n > 0 {
		return uint32(min(n, maxLevels))
	}
	return maxLevels
}

// loadStages loads stages that events share, and reports whether the kernel supports stages.
func loadStages(e *Sampler, need ...uint32) (bool, error) {
	if !haveTailCalls() {
		return false, nil
	}
	for _, stage := range need {
		if e.stages.loaded[stage] {
			continue
		}
		progs, err := e.load(map[string]any{"cpus": e.o.CPUs}, nil, stagePrograms[stage])
		if err != nil {
			return false, err
		}
		if err := e.loader.setStage(stage, progs[0]); err != nil {
			return false, err
		}
		e.stages.loaded[stage] = true
	}
	return true, nil
}

// setStage sets the program of a stage.
func (l *loader) setStage(stage uint32, p *ebpf.Program) error {
	if stage >= maxStages {
		return fmt.Errorf("more than %d raw tracepoints have a packet", maxStages-numStages)
	}
	if err := l.get("stages").Put(stage, p); err != nil {
		return fmt.Errorf("BPF program %d of raw tracepoints: %w", stage, err)
	}
	return nil
}

// ErrNoKprobeMulti means that the kernel cannot run one program at many functions.
var ErrNoKprobeMulti = errors.New("this kernel cannot set them at once (Linux 5.18 and later can, with CONFIG_FPROBE)")

// HaveKprobeMulti returns nil if the kernel can run a program at many functions, else why
// not.
func HaveKprobeMulti() error {
	err := TryKprobeMulti()
	if errors.Is(err, ebpf.ErrNotSupported) {
		return ErrNoKprobeMulti
	}
	return err
}

// AttachFunctions makes samples when functions are entered, or return: the raw data is laid out like a kprobe's or
// kretprobe's without arguments. ids are the functions' numbers in the raw data, addrs the entry addresses.
func (e *Sampler) AttachFunctions(addrs []uint64, ids []uint16, atReturn bool) error {
	name, attach := "on_function", link.KprobeMulti
	if atReturn {
		name, attach = "on_return", link.KretprobeMulti
	}
	progs, err := e.load(nil, nil, name)
	if err != nil {
		return err
	}
	o := link.KprobeMultiOptions{Addresses: make([]uintptr, len(addrs)), Cookies: make([]uint64, len(ids))}
	for i := range addrs {
		o.Addresses[i], o.Cookies[i] = uintptr(addrs[i]), uint64(ids[i])
	}
	return e.attached(attach(progs[0], o))
}

// RawTracepoint is an event whose samples a program makes from the arguments of a raw
// tracepoint.
type RawTracepoint struct {
	Name   string
	ID     uint16  // the event's number in the raw data
	Size   int     // bytes of the raw data before dynamic data
	Values []Value // values to read, after the common fields and Own's
	Filter *Filter // nil: record all
	Own    *Record // nil: none
	Packet *Packet // nil: none
	// Passage describes how the tracepoint uses the packet, if packets are followed.
	Passage Passage
}

// Record is the record that a tracepoint itself makes for perf. Samples begin with it; the dynamic data moves to
// after Values.
type Record struct {
	// FD is a perf event of the tracepoint. It need not be enabled.
	FD      int
	Size    int   // bytes of the fixed fields
	Dynamic []int // positions of the __data_loc fields, which locate dynamic data
}

// maxDynamic is the maximum number of dynamic arrays in a Record.
//
//bpf:define maxDynamic MAX_DYNAMIC
const maxDynamic = 8

// maxFixed limits the size of the fixed fields of samples: the rest is for dynamic data.
const maxFixed = MaxSample / 2

// program returns the constants of the event's programs, and the bodies of the functions that are compiled for it.
func (t *RawTracepoint) program() (vars map[string]any, bodies map[string]asm.Instructions, err error) {
	fetch, err := compileFetch(t.Values, t.Filter)
	if err != nil {
		return nil, nil, err
	}
	if t.Size > maxFixed {
		return nil, nil, fmt.Errorf("its samples have %d bytes, more than %d", t.Size, maxFixed)
	}
	vars = map[string]any{"raw_id": uint32(t.ID), "fixed_size": uint32(t.Size)}
	bodies = map[string]asm.Instructions{"fetch": fetch}
	if t.Packet == nil {
		return vars, bodies, nil
	}
	if err := t.Packet.setVars(vars); err != nil {
		return nil, nil, err
	}
	t.Passage.setVars(vars)
	vars["packet_is_sock"], bodies["packet_arg"] = flag(t.Packet.IsSock), loadArg(t.Packet.Arg)
	if t.Passage.DeviceArg > 0 {
		bodies["device_arg"] = loadArg(t.Passage.DeviceArg)
	}
	return vars, bodies, nil
}

// setVars sets the constants of on_record, and of the program that runs next.
func (r *Record) setVars(vars map[string]any) error {
	if len(r.Dynamic) > maxDynamic {
		return fmt.Errorf("it has %d dynamic fields, more than %d", len(r.Dynamic), maxDynamic)
	}
	var at [maxDynamic]uint32
	for i, off := range r.Dynamic {
		at[i] = uint32(off)
	}
	vars["own_size"], vars["num_dynamic"], vars["dynamic_at"] = uint32(r.Size), uint32(len(r.Dynamic)), at
	return nil
}

// programs returns the names of the event's programs: the first is attached, the second, if any, is the event's stage.
func (t *RawTracepoint) programs(e *Sampler) ([]string, error) {
	whole, parts, shared := "on_raw", []string{"raw_begins"}, []uint32{stageSend}
	if t.Packet != nil {
		whole, parts, shared = "on_packet", []string{"packet_begins", "packet_fetches"}, []uint32{stageRead, stageSend}
	}
	if staged, err := loadStages(e, shared...); staged || err != nil {
		return parts, err
	}
	return []string{whole}, nil
}

// AttachRawTracepoint makes samples at a raw tracepoint.
func (e *Sampler) AttachRawTracepoint(t *RawTracepoint) error {
	vars, bodies, err := t.program()
	if err != nil {
		return err
	}
	names, err := t.programs(e)
	if err != nil {
		return err
	}
	next := numStages + e.stages.events
	vars["fetches"] = next
	all := names
	if t.Own != nil {
		if err := t.Own.setVars(vars); err != nil {
			return err
		}
		all = append(names, "on_record")
	}
	progs, err := e.load(vars, bodies, all...)
	if err != nil {
		return err
	}
	if len(names) > 1 {
		if err := e.loader.setStage(next, progs[1]); err != nil {
			return err
		}
		e.stages.events++
	}
	// on_record runs from perf's function at the tracepoint, which is registered since the event was opened: a
	// program attached now runs after it.
	if t.Own != nil {
		if err := unix.IoctlSetInt(t.Own.FD, unix.PERF_EVENT_IOC_SET_BPF, progs[len(names)].FD()); err != nil {
			return fmt.Errorf("attaching a BPF program to tracepoint %s: %w", t.Name, err)
		}
	}
	return e.attached(link.AttachRawTracepoint(link.RawTracepointOptions{Name: t.Name, Program: progs[0]}))
}

func (e *Sampler) attached(l link.Link, err error) error {
	if err == nil {
		e.links = append(e.links, l)
	}
	return err
}

// SetOutput directs the samples of a CPU to a PERF_COUNT_SW_BPF_OUTPUT event.
func (e *Sampler) SetOutput(cpu, fd int) error {
	return e.loader.setOutput(cpu, map[string]int{"samples_to": fd})
}

// Enable starts or stops the samples, and the walks of the Unwinder.
func (e *Sampler) Enable(on bool) error {
	e.loader.types = nil
	return e.control.set(on)
}

// Pause stops the samples of the event with this number while other events are sampled, or ends that.
func (e *Sampler) Pause(id uint16, pause bool) error {
	if e.paused[id] == pause {
		return nil
	}
	var err error
	if pause {
		err = e.loader.get("paused").Put(uint32(id), uint8(1))
	} else {
		err = e.loader.get("paused").Delete(uint32(id))
	}
	if err != nil {
		return fmt.Errorf("cannot switch the BPF programs of event %d: %w", id, err)
	}
	if delete(e.paused, id); pause {
		e.paused[id] = true
	}
	e.control.paused = uint32(len(e.paused))
	return e.control.set(e.control.on)
}

// Stats reads the counters of this kernel.
func (e *Sampler) Stats() (s Stats) {
	for _, p := range e.programs {
		if !slices.Contains(e.silent, p) {
			s.add(p)
		}
	}
	var lost uint64
	if err := e.loader.get("lost_samples").Lookup(uint32(0), &lost); err == nil {
		s.Missed += lost
	}
	return s
}

// MissedCalls returns how many calls and returns of functions did not run the programs. Linux counts them since 6.7.
func (e *Sampler) MissedCalls() (n uint64) {
	for _, l := range e.links {
		info, err := l.Info()
		if err != nil {
			continue
		}
		if functions := info.KprobeMulti(); functions != nil {
			n += functions.Missed
		}
	}
	return n
}

// Close detaches the programs and unloads them.
func (e *Sampler) Close() {
	for _, l := range e.links {
		l.Close()
	}
	for _, p := range e.programs {
		p.Close()
	}
	e.loader.close()
	for _, p := range e.spans {
		p.maps.Close()
	}
}

package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
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
	// CPUs is the maximum number of rings.
	CPUs uint32
	// Follow makes samples with a packet only of packets that are followed: of those that the
	// filters of an event's packet select, and from then on at all events.
	Follow bool
}

// Sampler holds programs that make samples of events without a perf event. Each program uses its own scratch
// memory: unlike the programs of an [Unwinder], one program can interrupt another.
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
}

// NewSampler returns a Sampler without programs.
func NewSampler(o SamplerOptions) (*Sampler, error) {
	e := &Sampler{o: o, loader: newLoaderWith(o.Unwinder), paused: map[uint16]bool{}}
	e.loader.types = btf.NewCache()
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

// load loads programs of emit.bpf.c for one event; vars are constants of these programs, and change, if not nil,
// modifies the code. load closes the files of the maps that only these programs use, because there may be more
// programs than a process may open files.
func (e *Sampler) load(vars map[string]any, change func(*ebpf.ProgramSpec) error,
	names ...string) ([]*ebpf.Program, error) {
	l, own, err := e.loadFrom(e.spec.Copy(), vars, change, names...)
	if err == nil {
		own.Close()
	}
	return l, err
}

// loadFrom is load for the programs of spec, which it changes. own contains the maps that only these programs use.
func (e *Sampler) loadFrom(spec *ebpf.CollectionSpec, vars map[string]any, change func(*ebpf.ProgramSpec) error,
	names ...string) (l []*ebpf.Program, own *ebpf.Collection, err error) {
	for _, name := range names {
		if change == nil {
			break
		}
		if err := change(spec.Programs[name]); err != nil {
			return nil, nil, err
		}
	}
	all := map[string]any{"per_task": flag(e.o.PerTask != nil), "walk_user": flag(e.o.Unwinder != nil)}
	maps.Copy(all, vars)
	if spec.Variables["following"] != nil {
		all["following"] = flag(e.o.Follow)
	}
	if e.o.Unwinder != nil {
		spec.Maps["walks"].MaxEntries = e.o.CPUs
		if vars["cpus"] != nil { // of programs that may be preempted
			spec.Maps["walks"].MaxEntries *= levelsOfUprobes
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

// program returns the constants of the event's program, and a function that compiles the event's own parts.
func (t *RawTracepoint) program() (vars map[string]any, change func(*ebpf.ProgramSpec) error, err error) {
	body, err := compileFetch(t.Values, t.Filter)
	if err != nil {
		return nil, nil, err
	}
	if t.Size > maxFixed {
		return nil, nil, fmt.Errorf("its samples have %d bytes, more than %d", t.Size, maxFixed)
	}
	vars = map[string]any{"raw_id": uint32(t.ID), "fixed_size": uint32(t.Size)}
	if t.Packet != nil {
		if err := t.Packet.setVars(vars); err != nil {
			return nil, nil, err
		}
		vars["packet_is_sock"] = flag(t.Packet.IsSock)
		t.Passage.setVars(vars)
	}
	return vars, func(p *ebpf.ProgramSpec) (err error) {
		if p.Name == "on_record" {
			return nil
		}
		if p.Instructions, err = replaceFunction(p.Instructions, "fetch", body); err == nil && t.Packet != nil {
			err = errors.Join(t.Packet.compile(p), t.Passage.compile(p))
		}
		return err
	}, nil
}

// AttachRawTracepoint makes samples at a raw tracepoint.
func (e *Sampler) AttachRawTracepoint(t *RawTracepoint) error {
	vars, change, err := t.program()
	if err != nil {
		return err
	}
	programs := []string{"on_raw"}
	if t.Packet != nil {
		programs[0] = "on_packet"
	}
	if t.Own != nil {
		if len(t.Own.Dynamic) > maxDynamic {
			return fmt.Errorf("it has %d dynamic fields, more than %d", len(t.Own.Dynamic), maxDynamic)
		}
		var at [maxDynamic]uint32
		for i, off := range t.Own.Dynamic {
			at[i] = uint32(off)
		}
		vars["own_size"], vars["num_dynamic"], vars["dynamic_at"] = uint32(t.Own.Size), uint32(len(t.Own.Dynamic)), at
		programs = append(programs, "on_record")
	}
	progs, err := e.load(vars, change, programs...)
	if err != nil {
		return err
	}
	// on_record runs from perf's function at the tracepoint, which is registered since the event was opened: a
	// program attached now runs after it.
	if t.Own != nil {
		if err := unix.IoctlSetInt(t.Own.FD, unix.PERF_EVENT_IOC_SET_BPF, progs[1].FD()); err != nil {
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

package bpf

import (
	"errors"
	"fmt"
	"maps"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
)

// MaxRawArgs is how many arguments of a raw tracepoint its samples have at most.
const MaxRawArgs = 12

// EmitterOptions say whose samples are made.
type EmitterOptions struct {
	// Unwinder has the user stacks walked by what it knows, as those of other
	// events are: what is found comes ahead of each sample. nil: they are not.
	Unwinder *Unwinder
	// PerTask, if not nil, are ids of perf events: only threads are sampled that
	// have one of them, inherited or not, while it is enabled.
	PerTask []uint64
	// CPUs is how many rings there can be.
	CPUs uint32
}

// Emitter is programs that make samples where there is no perf event. Each
// program has its own scratch memory: unlike those of an [Unwinder], one can
// interrupt another.
type Emitter struct {
	o        EmitterOptions
	control  *control
	spec     *ebpf.CollectionSpec
	types    *btf.Cache           // the kernel's, while programs are loaded
	shared   map[string]*ebpf.Map // between all programs
	own      []*ebpf.Map          // of these, those that are not the Unwinder's
	programs []*ebpf.Program
	links    []link.Link
}

// NewEmitter returns an emitter that emits nothing yet.
func NewEmitter(o EmitterOptions) (*Emitter, error) {
	if runtime.GOARCH != "amd64" {
		return nil, ErrArch
	}
	e := &Emitter{o: o, types: btf.NewCache(), shared: map[string]*ebpf.Map{}}
	if o.Unwinder != nil {
		for name, m := range o.Unwinder.coll.Maps {
			e.share(name, m)
		}
	}
	spec, err := loadEmit()
	if err != nil {
		return nil, err
	}
	e.spec = spec
	for name, n := range map[string]uint32{"samples_to": o.CPUs, "counters": uint32(max(1, len(o.PerTask)))} {
		spec.Maps[name].MaxEntries = n
		m, err := withMemory(func() (*ebpf.Map, error) { return ebpf.NewMap(spec.Maps[name]) })
		if err != nil {
			e.Close()
			return nil, err
		}
		e.own = append(e.own, m)
		e.share(name, m)
	}
	if err := e.takeControl(); err != nil {
		e.Close()
		return nil, err
	}
	for _, id := range o.PerTask {
		if err := e.shared["counters"].Put(id, uint8(1)); err != nil {
			e.Close()
			return nil, fmt.Errorf("perf events of the BPF programs: %w", err)
		}
	}
	return e, nil
}

// takeControl finds the switch, or makes one where no Unwinder has it.
func (e *Emitter) takeControl() error {
	if e.o.Unwinder != nil {
		e.control = e.o.Unwinder.control
		return nil
	}
	identify, err := e.load("identify", nil)
	if err == nil {
		e.control, err = newControl(e.shared["control"], identify)
	}
	return err
}

func flag(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

// share has all programs use a map, unless each needs its own.
func (e *Emitter) share(name string, m *ebpf.Map) {
	if name != "walks" && name != ".rodata" {
		e.shared[name] = m
	}
}

// load loads one more program; vars are constants of its own. Of its maps, which it
// keeps, only those stay open that the next programs share: there may be more
// programs than a process may have files.
func (e *Emitter) load(program string, vars map[string]uint32) (*ebpf.Program, error) {
	spec := e.spec.Copy()
	spec.Programs = map[string]*ebpf.ProgramSpec{program: spec.Programs[program]}
	all := map[string]uint32{"per_task": flag(e.o.PerTask != nil), "walk_user": flag(e.o.Unwinder != nil)}
	maps.Copy(all, vars)
	for name, v := range all {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if e.o.Unwinder != nil {
		spec.Maps["walks"].MaxEntries = e.o.CPUs
	}
	replace := map[string]*ebpf.Map{}
	for name, m := range e.shared {
		if spec.Maps[name] != nil {
			spec.Maps[name].MaxEntries = m.MaxEntries()
			replace[name] = m
		}
	}
	coll, err := withMemory(func() (*ebpf.Collection, error) {
		return ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: replace, Cache: e.types})
	})
	if err != nil {
		return nil, err
	}
	prog := coll.DetachProgram(program)
	e.programs = append(e.programs, prog)
	for name := range coll.Maps {
		if e.shared[name] != nil {
			continue
		}
		if e.share(name, coll.Maps[name]); e.shared[name] != nil {
			e.own = append(e.own, coll.DetachMap(name))
		}
	}
	coll.Close()
	return prog, nil
}

// ErrNoKprobeMulti: the kernel does not have programs run at many functions.
var ErrNoKprobeMulti = errors.New("this kernel cannot set them at once (Linux 5.18 and later can, with CONFIG_FPROBE)")

// HaveKprobeMulti returns nil if the kernel can have a program run at many
// functions, else why not.
func HaveKprobeMulti() error {
	if runtime.GOARCH != "amd64" {
		return ErrArch
	}
	err := features.HaveBPFLinkKprobeMulti()
	if errors.Is(err, ebpf.ErrNotSupported) {
		return ErrNoKprobeMulti
	}
	return err
}

// AttachFunctions has samples made when functions are entered, or return: the
// raw data is that of a kprobe or kretprobe without arguments. ids are the
// functions' numbers in the raw data, addrs where they begin.
func (e *Emitter) AttachFunctions(addrs []uint64, ids []uint16, atReturn bool) error {
	name, attach := "on_function", link.KprobeMulti
	if atReturn {
		name, attach = "on_return", link.KretprobeMulti
	}
	prog, err := e.load(name, nil)
	if err != nil {
		return err
	}
	o := link.KprobeMultiOptions{Addresses: make([]uintptr, len(addrs)), Cookies: make([]uint64, len(ids))}
	for i := range addrs {
		o.Addresses[i], o.Cookies[i] = uintptr(addrs[i]), uint64(ids[i])
	}
	return e.attached(attach(prog, o))
}

// AttachRawTracepoint has samples made at a raw tracepoint. The raw data has its
// first so many arguments, at most MaxRawArgs, each in 8 bytes.
func (e *Emitter) AttachRawTracepoint(name string, id uint16, args int) error {
	prog, err := e.load("on_raw", map[string]uint32{"raw_id": uint32(id), "raw_args": uint32(min(args, MaxRawArgs))})
	if err != nil {
		return err
	}
	return e.attached(link.AttachRawTracepoint(link.RawTracepointOptions{Name: name, Program: prog}))
}

func (e *Emitter) attached(l link.Link, err error) error {
	if err == nil {
		e.links = append(e.links, l)
	}
	return err
}

// SetOutput has the samples of a CPU come out of a PERF_COUNT_SW_BPF_OUTPUT event.
func (e *Emitter) SetOutput(cpu, fd int) error {
	if err := e.shared["samples_to"].Put(uint32(cpu), uint32(fd)); err != nil {
		return fmt.Errorf("BPF output of CPU %d: %w", cpu, err)
	}
	return nil
}

// Enable starts the samples, or stops them, and the walks of the Unwinder.
func (e *Emitter) Enable(on bool) error {
	e.types = nil
	return e.control.set(on)
}

// Stats reads the counters, as far as this kernel has them.
func (e *Emitter) Stats() (s Stats) {
	for _, p := range e.programs {
		s.add(p)
	}
	return s
}

// Close detaches the programs and unloads them.
func (e *Emitter) Close() {
	for _, l := range e.links {
		l.Close()
	}
	for _, p := range e.programs {
		p.Close()
	}
	for _, m := range e.own {
		m.Close()
	}
}

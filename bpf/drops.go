package bpf

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// Dropper is a kind of BPF programs that can drop packets.
type Dropper uint8

const (
	XDP Dropper = iota // at network devices: the packet is an xdp_buff
	TC                 // at traffic control, or tcx: the packet is an sk_buff
)

var dropperTypes = map[Dropper]ebpf.ProgramType{XDP: ebpf.XDP, TC: ebpf.SchedCLS}

// contexts are the structs that the parameters of programs point to.
var contexts = map[Dropper]string{XDP: "xdp_md", TC: "__sk_buff"}

// UnwatchedError means that the drops of a program cannot be sampled.
type UnwatchedError struct {
	Name string // of the program
	ID   uint32
	Err  error
}

func (e *UnwatchedError) Error() string {
	return fmt.Sprintf("BPF program %s (%d): %v", e.Name, e.ID, e.Err)
}
func (e *UnwatchedError) Unwrap() error { return e.Err }

// ErrNoTypes means that a program comes without BTF, which programs at the return of this program need.
var ErrNoTypes = errors.New("it has no types (BTF): compile it with clang -g")

// dropper is a loaded program that can drop packets.
type dropper struct {
	id      ebpf.ProgramID
	name    string // of the function, if the program has BTF
	context string // the struct that the parameter points to
	program *ebpf.Program
	err     error // why it cannot be watched
}

// Droppers returns the number of loaded programs of a kind.
func Droppers(of Dropper) (n int, err error) {
	err = eachDropper(of, func(*dropper) error { n++; return nil })
	return n, err
}

// eachDropper calls do with each loaded program of a kind. It skips programs that are unloaded meanwhile.
func eachDropper(of Dropper, do func(*dropper) error) error {
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listing the BPF programs: %w", err)
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("opening BPF program %d: %w", id, err)
		}
		if p.Type() == dropperTypes[of] {
			err = do(describeDropper(id, p))
		}
		p.Close()
		if err != nil {
			return err
		}
	}
}

// describeDropper finds the program's function. bpf_prog_info contains only the first 15 characters of the name.
func describeDropper(id ebpf.ProgramID, p *ebpf.Program) *dropper {
	d := &dropper{id: id, program: p}
	info, err := p.Info()
	if err != nil {
		d.err = err
		return d
	}
	d.name = info.Name
	if _, ok := info.BTFID(); !ok {
		d.err = ErrNoTypes
		return d
	}
	functions, err := info.FuncInfos()
	switch {
	case err != nil:
		d.err = err
	case len(functions) == 0 || functions[0].Func == nil:
		d.err = ErrNoTypes
	default:
		d.name, d.context = functions[0].Func.Name, contextOf(functions[0].Func)
	}
	return d
}

// contextOf returns the struct that a function's only parameter points to, "" if it is another parameter.
func contextOf(f *btf.Func) string {
	if proto, ok := f.Type.(*btf.FuncProto); ok && len(proto.Params) == 1 {
		if to, ok := btf.UnderlyingType(proto.Params[0].Type).(*btf.Pointer); ok {
			if s, ok := btf.UnderlyingType(to.Target).(*btf.Struct); ok {
				return s.Name
			}
		}
	}
	return ""
}

// errContext: on_drop does not know where the return value is.
var errContext = errors.New("its parameter has the type of another context, which Linux 5.17 and later support")

// readsReturn reports whether this kernel provides bpf_get_func_ret.
func readsReturn(types *btf.Cache) bool {
	kernel, err := types.Kernel()
	var helpers *btf.Enum
	if err != nil || kernel.TypeByName("bpf_func_id", &helpers) != nil {
		return false
	}
	return slices.ContainsFunc(helpers.Values, func(v btf.EnumValue) bool { return v.Name == "BPF_FUNC_get_func_ret" })
}

// Drops is an event whose samples a program makes when another program drops a packet. Own is nil. The arguments
// for the values and the packet are the dropping program's return value and number, 32 bits each, the address of
// its name, and the packet, as Dropper describes it.
type Drops struct {
	RawTracepoint
	Of Dropper
}

// Attach makes samples at the return of all loaded programs. It returns their number, and errors of type
// *UnwatchedError for programs where this fails.
func (d *Drops) Attach(e *Sampler) (watched int, left []error, err error) {
	if _, err := compileFetch(d.Values, d.Filter); err != nil {
		return 0, nil, err
	}
	err = eachDropper(d.Of, func(p *dropper) error {
		if p.err == nil {
			p.err = d.attach(e, p)
		}
		if p.err != nil {
			left = append(left, &UnwatchedError{p.name, uint32(p.id), p.err})
		} else {
			watched++
		}
		return nil
	})
	return watched, left, err
}

// maxProgramName limits the name of a program in samples.
//
//bpf:define maxProgramName MAX_PROGRAM_NAME
const maxProgramName = 128

// attach makes samples at the return of a program.
func (d *Drops) attach(e *Sampler, to *dropper) error {
	if to.context != contexts[d.Of] && !readsReturn(e.loader.types) {
		return errContext
	}
	vars, bodies, err := d.program()
	if err != nil {
		return err
	}
	var name [maxProgramName]byte
	copy(name[:maxProgramName-1], to.name)
	vars["program_id"], vars["program_name"], vars["packet_is_xdp"] = uint32(to.id), name, flag(d.Of == XDP)
	spec := e.spec.Copy()
	spec.Maps["samples"].MaxEntries = 1 // the kernel does not run a program that it interrupted
	spec.Programs["on_drop"].AttachTarget, spec.Programs["on_drop"].AttachTo = to.program, to.name
	p, own, err := e.loadFrom(spec, vars, bodies, "on_drop")
	if err != nil {
		return err
	}
	own.Close()
	return e.attached(link.AttachTracing(link.TracingOptions{Program: p[0]}))
}

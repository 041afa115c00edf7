package kernel

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"gperf/bpf"
	"gperf/format/tracepoint"
	"gperf/internal/packet"
	"gperf/internal/procfs"
	"gperf/record/probe/args"
)

// Raw is a raw tracepoint: the arguments that kernel code passes to a tracepoint, before the tracepoint makes an
// event of them, if any.
type Raw struct {
	Name   string
	Args   []RawArg
	Values []args.Arg // additional values, read through the arguments
	// Own, if not nil, is the kernel's tracepoint of this name: samples contain the fields of Own instead of Args.
	Own *Own
	// Packet, if not nil, adds the packet of an argument.
	Packet *Packet
	// Drops, if not nil, are the samples' packets: BPF programs return, in place of a tracepoint.
	Drops *Drops
	// Verdict, if not nil, adds the rule or policy that dropped the packet, and records only packets that
	// netfilter drops.
	Verdict *Verdict

	scope *args.Scope // scope of the arguments
}

// Packet is the packet of a raw tracepoint's argument.
type Packet struct {
	PacketArg
	Shown []string // the fields that samples are printed with, names of package packet
	Snap  int      // number of the packet's first bytes in samples; 0: none
}

// PacketArg is an argument that leads to a packet.
type PacketArg struct {
	Arg    int  // number of the argument, from 1; 0: none
	IsSock bool // it is a struct sock *, not a struct sk_buff *; packets get the sock's addresses
}

// Verdict is the verdict of netfilter that dropped a packet.
type Verdict struct {
	RuleText bool // samples contain the rule as nft prints it
	Optional bool // a kernel without a firewall is no error
}

// Own is a tracepoint of the kernel.
type Own struct {
	System string
	Format []byte // from tracefs
}

// RawArg is an argument of a raw tracepoint.
type RawArg struct {
	Name   string
	Type   string // in C: "struct task_struct *"
	Size   int    // bytes, at most 8
	Signed bool
	Shown  Shown
	Values []EnumValue // values of an enumeration
}

// Shown is the format of an argument in a sample's text.
type Shown uint8

const (
	AsNumber Shown = iota
	AsAddress
	AsFunction // the function at an address
	AsCode     // the function containing an address, and the offset
	AsEnum     // by name
	Omitted    // not in samples
)

// RawPrefix is the prefix of raw tracepoints in the words of -e, and in event names of files.
const RawPrefix = "raw_tracepoint:"

// rawTypedef is BTF's prefix for the types of raw tracepoints (DEFINE_EVENT of
// include/trace/bpf_probe.h).
const rawTypedef = "btf_trace_"

// rawFunctions are prefixes of functions with a raw tracepoint's parameters, because the tracepoint's type
// contains no parameter names.
var rawFunctions = []string{"__probestub_", "__traceiter_", "__bpf_trace_"}

// FindRaw describes raw tracepoints of the kernel and all modules, sorted by name; it omits names that do not
// exist.
func FindRaw(names ...string) (l []*Raw, err error) {
	found := map[string]*Raw{}
	for s, err := range kernelTypes() {
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			var def *btf.Typedef
			if found[name] != nil || s.TypeByName(rawTypedef+name, &def) != nil {
				continue
			}
			if found[name], err = describeRaw(s, name, def); err != nil {
				return nil, err
			}
		}
		if len(found) == len(names) {
			break
		}
	}
	for _, name := range names {
		if raw := found[name]; raw != nil {
			l = append(l, raw)
		}
	}
	return l, nil
}

// Code is an address range of kernel code.
type Code struct{ Start, End uint64 }

// Has reports whether an address is in the range.
func (c Code) Has(addr uint64) bool { return c.Start <= addr && addr < c.End }

// Codes are ranges of kernel code, sorted, that do not overlap.
type Codes []Code

// Has reports whether an address is in one of the ranges.
func (l Codes) Has(addr uint64) bool {
	_, found := slices.BinarySearchFunc(l, addr, func(c Code, addr uint64) int {
		if c.Has(addr) {
			return 0
		}
		return cmp.Compare(c.Start, addr)
	})
	return found
}

// runners are prefixes of the functions that run the BPF programs of tracepoints: the function that a tracepoint
// calls, the function that calls several programs, and the function that they all call; and those at the return of
// other programs. A tracepoint may use the function of another one with the same arguments.
var runners = []string{"__traceiter_", "__bpf_trace_", "bpf_trace_run", "bpf_trampoline_"}

// Runners returns the functions that run the BPF programs of tracepoints. kallsyms reads /proc/kallsyms from the
// start.
func Runners(kallsyms io.Reader) (l Codes) {
	for _, f := range FunctionCode(kallsyms, func(name string) bool {
		return slices.ContainsFunc(runners, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	}) {
		l = append(l, f.Code)
	}
	return l
}

// NamedCode is a function of the kernel; End is where the next symbol begins.
type NamedCode struct {
	Name string
	Code
}

// FunctionCode returns the functions whose names match, sorted by address. kallsyms reads /proc/kallsyms from the
// start, which the kernel takes long to write.
func FunctionCode(kallsyms io.Reader, match func(name string) bool) (found []NamedCode) {
	var addrs []uint64 // of all symbols
	for s := range procfs.Symbols(kallsyms) {
		if addrs = append(addrs, s.Addr); s.Addr == 0 {
			continue
		}
		if name := s.Name(); match(name) {
			found = append(found, NamedCode{name, Code{s.Addr, math.MaxUint64}})
		}
	}
	slices.Sort(addrs)
	slices.SortStableFunc(found, func(a, b NamedCode) int { return cmp.Compare(a.Start, b.Start) })
	found = slices.CompactFunc(found, func(a, b NamedCode) bool { return a.Start == b.Start })
	for i := range found {
		if next, _ := slices.BinarySearch(addrs, found[i].Start+1); next < len(addrs) {
			found[i].End = addrs[next]
		}
	}
	return found
}

// BTFDir is the directory of the BTF of the kernel and all modules.
const BTFDir = "/sys/kernel/btf"

// RawTracepoints returns the names of all raw tracepoints, sorted, from the names of types in
// the files of dir, which is like BTFDir. Reading the types themselves would take ten times
// as long.
func RawTracepoints(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list raw tracepoints without the kernel's BTF: %w", err)
	}
	var l []string
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		for found := err == nil; found; {
			if _, b, found = bytes.Cut(b, []byte("\x00"+rawTypedef)); found {
				name, _, _ := bytes.Cut(b, []byte{0})
				l = append(l, string(name))
			}
		}
	}
	slices.Sort(l)
	return slices.Compact(l), nil
}

// kernelTypes yields the types of the kernel, and then the types of each module. It skips modules whose types
// cannot be read.
func kernelTypes() iter.Seq2[*btf.Spec, error] {
	return func(yield func(*btf.Spec, error) bool) {
		kernel, err := loadTypes()
		if err != nil {
			yield(nil, err)
			return
		}
		if !yield(kernel, nil) {
			return
		}
		files, err := os.ReadDir(BTFDir)
		if err != nil {
			return
		}
		for _, m := range files {
			if m.Name() == "vmlinux" {
				continue
			}
			if s, err := btf.LoadKernelModuleSpec(m.Name()); err == nil && !yield(s, nil) {
				return
			}
		}
	}
}

// TypesError means that the kernel does not provide types (BTF).
type TypesError struct{ Err error }

func (e *TypesError) Error() string { return fmt.Sprintf("the kernel's types (BTF): %v", e.Err) }
func (e *TypesError) Unwrap() error { return e.Err }

// HaveTypes returns nil if the kernel provides types, which programs need to read packets. The error is a
// *TypesError.
func HaveTypes() error {
	_, err := loadTypes()
	return err
}

// loadTypes reads the types of the kernel itself.
func loadTypes() (*btf.Spec, error) {
	types, err := bpf.Types().Kernel()
	if err != nil {
		return nil, &TypesError{err}
	}
	return types, nil
}

func describeRaw(s *btf.Spec, name string, def *btf.Typedef) (*Raw, error) {
	bad := fmt.Errorf("raw tracepoint %s: BTF does not describe its arguments", name)
	pointer, ok := def.Type.(*btf.Pointer)
	if !ok {
		return nil, bad
	}
	proto, ok := pointer.Target.(*btf.FuncProto)
	if !ok || len(proto.Params) == 0 {
		return nil, bad
	}
	params := proto.Params[1:] // the first one is the callback's private data
	names := rawNames(s, name)
	if len(names) != len(params) {
		names = make([]string, len(params))
	}
	r := &Raw{Name: name}
	for i, p := range params {
		size, err := btf.Sizeof(p.Type)
		if err != nil || size > 8 {
			return nil, errors.Join(bad, err)
		}
		names[i] = cmp.Or(names[i], fmt.Sprintf("arg%d", i+1))
		a := RawArg{Name: names[i], Type: cType(p.Type), Size: size}
		a.describe(p.Type)
		r.Args = append(r.Args, a)
	}
	r.scope = args.NewKernel(s, nil).Prototype(name, params, names)
	return r, nil
}

// codeNames are names of arguments that are addresses of code in the kernel's tracepoints.
var codeNames = strings.Fields("location caller caller_ip call_site callsite ip parent_ip ret_ip")

// describe selects the format of an argument.
func (a *RawArg) describe(t btf.Type) {
	isCode := slices.Contains(codeNames, a.Name)
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Pointer:
		a.Shown = AsAddress
		switch btf.UnderlyingType(t.Target).(type) {
		case *btf.FuncProto:
			a.Shown = AsFunction
		case *btf.Void:
			if isCode {
				a.Shown = AsCode
			}
		}
	case *btf.Int:
		a.Signed = t.Encoding&btf.Signed != 0
		if isCode && a.Size == 8 && !a.Signed {
			a.Shown = AsCode
		}
	case *btf.Enum:
		a.Signed = t.Signed
		a.Shown, a.Values = AsEnum, enumValues(t)
	}
}

func (r *Raw) argNames() (l []string) {
	for _, a := range r.Args {
		if a.Shown != Omitted {
			l = append(l, a.Name)
		}
	}
	return l
}

// WithValues returns the tracepoint with the values of words, in the syntax of probe arguments: "skb->len
// dev=skb->dev->name:string". text is the complete event, for errors.
//
// Words that are names of fields of package packet mean fields of the packet, if the tracepoint has one.
func (r *Raw) WithValues(text, words string) (*Raw, error) {
	own := r.ownFields()
	values, shown := cutPacket(r.PacketArg().Arg, args.Words(words))
	site := args.Site{
		Kind: args.AtRaw, Spec: text, Name: r.Name, Own: own, Count: len(r.Args),
		Types: func() string { return "" },
		Scope: func() (*args.Scope, error) { return r.scope, nil },
		Help:  fmt.Sprintf("%s has %s", r.Name, strings.Join(r.argNames(), ", ")),
	}
	l, _, err := site.Resolve(values)
	if err != nil {
		return nil, err
	}
	with := *r
	with.Values = l[len(own):]
	if len(shown) > 0 {
		with.Packet = &Packet{PacketArg: r.PacketArg(), Shown: shown}
	}
	return &with, nil
}

// PacketArg returns the argument that leads to a packet.
func (r *Raw) PacketArg() PacketArg {
	if r.Drops != nil {
		return PacketArg{Arg: dropPacketArg}
	}
	for _, typ := range []string{"struct sk_buff *", "struct sock *"} {
		i := slices.IndexFunc(r.Args, func(a RawArg) bool { return strings.TrimPrefix(a.Type, "const ") == typ })
		if i >= 0 {
			return PacketArg{i + 1, typ == "struct sock *"}
		}
	}
	return PacketArg{}
}

// WithPacket returns the tracepoint with the packet added. Samples are printed with the packet's default fields.
// ok is false if the tracepoint has no packet.
func (r *Raw) WithPacket() (with *Raw, ok bool) {
	arg, shown := r.PacketArg(), packet.Default
	if arg.Arg == 0 {
		return r, false
	}
	if arg.IsSock {
		shown = packet.SocketDefault
	}
	with = new(Raw)
	*with = *r
	with.Packet = &Packet{PacketArg: arg, Shown: shown}
	return with, true
}

// WithoutOwn returns a tracepoint with a packet without perf's fields: the kernel writes them for each packet, selected
// or not, which takes longer than to see that a packet is not selected. Left are the address of the sk_buff, and
// numbers that are not the packet's.
func (r *Raw) WithoutOwn() *Raw {
	with := *r
	with.Own, with.Args = nil, slices.Clone(r.Args)
	for i := range with.Args {
		switch a := &with.Args[i]; {
		case i == r.Packet.Arg-1:
			a.Name = "skbaddr"
		case a.Shown != AsNumber, a.Name == "skb_len":
			a.Shown = Omitted
		}
	}
	return &with
}

// cutPacket separates the names of a packet's fields from other arguments, if an argument is a packet.
func cutPacket(arg int, words []string) (others, fields []string) {
	names := packet.Names()
	for _, w := range words {
		if arg > 0 && slices.Contains(names, w) {
			fields = append(fields, w)
		} else {
			others = append(others, w)
		}
	}
	return others, fields
}

// ownFields returns the fields of samples without any values, as arguments.
func (r *Raw) ownFields() (l []args.Arg) {
	if r.Own == nil {
		for _, name := range r.argNames() {
			l = append(l, args.Arg{Name: name})
		}
		return l
	}
	f, err := tracepoint.Parse(r.Own.Format, r.Own.System)
	if err != nil {
		return nil // Layout reports the error
	}
	for _, fd := range f.Fields {
		l = append(l, args.Arg{Name: fd.Name})
	}
	return l
}

// rawNames returns the names of a raw tracepoint's parameters, nil if no function declares them.
func rawNames(s *btf.Spec, name string) (l []string) {
	for _, prefix := range rawFunctions {
		var f *btf.Func
		if s.TypeByName(prefix+name, &f) != nil {
			continue
		}
		proto, ok := f.Type.(*btf.FuncProto)
		if !ok || len(proto.Params) == 0 {
			continue
		}
		for _, p := range proto.Params[1:] {
			l = append(l, p.Name)
		}
		return l
	}
	return nil
}

// cType returns a type in C syntax.
func cType(t btf.Type) string {
	switch t := t.(type) {
	case *btf.Pointer:
		return strings.Replace(cType(t.Target)+" *", "* *", "**", 1)
	case *btf.Const:
		return "const " + cType(t.Type)
	case *btf.Volatile:
		return "volatile " + cType(t.Type)
	case *btf.Restrict:
		return cType(t.Type)
	case *btf.Struct:
		return "struct " + t.Name
	case *btf.Union:
		return "union " + t.Name
	case *btf.Enum:
		return "enum " + t.Name
	case *btf.Fwd:
		return t.Kind.String() + " " + t.Name
	case *btf.Int:
		if t.Name == "_Bool" {
			return "bool"
		}
		return t.Name
	case *btf.Typedef:
		return t.Name
	}
	return "void" // also for functions as pointer targets
}

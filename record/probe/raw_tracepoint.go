package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Raw is a raw tracepoint: what code of the kernel hands to its tracepoint,
// before that makes an event of it, if there is one at all.
type Raw struct {
	Name string
	Args []RawArg
}

// RawArg is an argument of a raw tracepoint.
type RawArg struct {
	Name   string
	Type   string // in C: "struct task_struct *"
	Size   int    // bytes, at most 8
	Signed bool
	// Pointer is an address, and shown as one.
	Pointer bool
}

// RawPrefix is what the words of -e for a raw tracepoint begin with, and files'
// names for them.
const RawPrefix = "raw_tracepoint:"

// rawTypedef is how BTF names the types of raw tracepoints (DEFINE_EVENT of
// include/trace/bpf_probe.h).
const rawTypedef = "btf_trace_"

// rawFunctions are functions with a raw tracepoint's parameters: the type has
// no names for them.
var rawFunctions = []string{"__probestub_", "__traceiter_", "__bpf_trace_"}

// FindRaw describes raw tracepoints of the kernel and its modules, in the order of
// their names; those that there are not are left out.
func FindRaw(names ...string) ([]*Raw, error) {
	specs, err := kernelTypes()
	if err != nil {
		return nil, err
	}
	var l []*Raw
	for _, name := range names {
		for _, s := range specs {
			var def *btf.Typedef
			if s.TypeByName(rawTypedef+name, &def) != nil {
				continue
			}
			raw, err := describeRaw(s, name, def)
			if err != nil {
				return nil, err
			}
			l = append(l, raw)
			break
		}
	}
	return l, nil
}

// BTFDir is where the kernel shows its types, and those of its modules.
const BTFDir = "/sys/kernel/btf"

// RawTracepoints are the names of all raw tracepoints, sorted, by the names of types
// in the files of dir, which is like BTFDir. To read the types takes ten times as long.
func RawTracepoints(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("raw tracepoints are listed by the kernel's BTF: %w", err)
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

// kernelTypes are the types of the kernel and of its modules. A module whose
// types cannot be read is passed over.
func kernelTypes() ([]*btf.Spec, error) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("the kernel's types (BTF): %w", err)
	}
	l := []*btf.Spec{kernel}
	files, err := os.ReadDir(BTFDir)
	if err != nil {
		return l, nil
	}
	for _, m := range files {
		if m.Name() == "vmlinux" {
			continue
		}
		if s, err := btf.LoadKernelModuleSpec(m.Name()); err == nil {
			l = append(l, s)
		}
	}
	return l, nil
}

func describeRaw(s *btf.Spec, name string, def *btf.Typedef) (*Raw, error) {
	bad := fmt.Errorf("raw tracepoint %s: BTF does not tell its arguments", name)
	pointer, ok := def.Type.(*btf.Pointer)
	if !ok {
		return nil, bad
	}
	proto, ok := pointer.Target.(*btf.FuncProto)
	if !ok || len(proto.Params) == 0 {
		return nil, bad
	}
	params := proto.Params[1:] // the first one is the program's own
	names := rawNames(s, name)
	r := &Raw{Name: name}
	for i, p := range params {
		size, err := btf.Sizeof(p.Type)
		if err != nil || size > 8 {
			return nil, errors.Join(bad, err)
		}
		a := RawArg{Name: fmt.Sprintf("arg%d", i+1), Type: cType(p.Type), Size: size}
		if len(names) == len(params) && names[i] != "" {
			a.Name = names[i]
		}
		switch t := btf.UnderlyingType(p.Type).(type) {
		case *btf.Pointer:
			a.Pointer = true
		case *btf.Int:
			a.Signed = t.Encoding&btf.Signed != 0
		case *btf.Enum:
			a.Signed = t.Signed
		}
		r.Args = append(r.Args, a)
	}
	return r, nil
}

// rawNames are the names of a raw tracepoint's parameters, nil if no function
// tells them.
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

// cType is a type as C writes it.
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
	return "void" // and functions, to which there are pointers
}

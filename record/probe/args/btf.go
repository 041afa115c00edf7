package args

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// Kernel holds the types of a kernel and one module.
type Kernel struct {
	spec    *btf.Spec
	machine *Machine
	types   map[btf.Type]*Type
}

// openKernel reads the BTF of the running kernel and of a module, unless module is "". The
// error is a *NoDebugError.
func openKernel(module string, m *Machine) (*Kernel, error) {
	spec, err := btf.LoadKernelSpec()
	what := "the kernel"
	if err == nil && module != "" {
		what = "module " + module
		spec, err = btf.LoadKernelModuleSpec(module)
	}
	if err != nil {
		return nil, &NoDebugError{what, "BTF", err}
	}
	return NewKernel(spec, m), nil
}

// NewKernel returns the types of spec.
func NewKernel(spec *btf.Spec, m *Machine) *Kernel {
	return &Kernel{spec, m, map[btf.Type]*Type{}}
}

// Scope returns the parameters of a function at the entry. The error is a *NoDebugError.
func (k *Kernel) Scope(function string) (*Scope, error) {
	var fn *btf.Func
	if err := k.spec.TypeByName(function, &fn); err != nil {
		if errors.Is(err, btf.ErrNotFound) {
			err = nil
		}
		return nil, &NoDebugError{"the kernel", "BTF of " + function, err}
	}
	proto, ok := fn.Type.(*btf.FuncProto)
	if !ok {
		return nil, &NoDebugError{"the kernel", "BTF of " + function, nil}
	}
	s := &Scope{Function: function, Return: k.typeOf(proto.Return)}
	a := arguments{machine: k.machine}
	for _, p := range proto.Params {
		if p.Name == "" {
			break // after the last declared one: "..."
		}
		v := Var{Name: p.Name, Type: k.typeOf(p.Type), Param: true}
		v.Where, v.Err = a.place(v.Type)
		s.Vars = append(s.Vars, v)
	}
	return s, nil
}

// Prototype returns the arguments of a tracepoint, with the names $arg1 etc. as fetchargs.
func (k *Kernel) Prototype(tracepoint string, params []btf.FuncParam, names []string) *Scope {
	s := &Scope{Function: tracepoint, Return: void}
	for i, p := range params {
		s.Vars = append(s.Vars, Var{Name: names[i], Type: k.typeOf(p.Type), Param: true,
			Where: Where{Base: fmt.Sprintf("$arg%d", i+1)}})
	}
	return s
}

// arguments assigns locations to parameters, in order.
type arguments struct {
	machine *Machine
	n       int  // places taken
	lost    bool // the last parameter may be in registers or on the stack
}

// place returns the location of the next parameter. For structs passed by value, it is known
// only if they fit into one or two registers.
func (a *arguments) place(t *Type) (Where, error) {
	words := (t.Size + 7) / 8
	if a.lost || words == 0 || words > 2 || words == 2 && a.n+int(words) > len(a.machine.args) {
		a.lost = true
		return Where{}, fmt.Errorf("it follows or is a struct passed by value, which may be on the stack")
	}
	var pieces []Piece
	for range words {
		a.n++
		base, err := a.machine.KernelArg(a.n)
		pieces = append(pieces, Piece{Where{Base: base}, 8, err})
	}
	if words == 1 {
		return pieces[0].Where, pieces[0].Err
	}
	return Where{Pieces: pieces}, nil
}

const pointerSize = 8 // of all supported machines

// typeOf converts a type of BTF. Types that refer to each other are converted on demand.
func (k *Kernel) typeOf(t btf.Type) *Type {
	if known, ok := k.types[t]; ok {
		return known
	}
	// A placeholder, in case a type refers to itself.
	k.types[t] = unknown("(unknown_type)")
	made := k.make(t)
	k.types[t] = made
	return made
}

func (k *Kernel) make(t btf.Type) *Type {
	switch t := t.(type) {
	case *btf.Void:
		return void
	case *btf.Int:
		return &Type{Name: t.Name, Kind: Int, Size: int64(t.Size), Signed: t.Encoding == btf.Signed || t.Name == "char"}
	case *btf.Float:
		return &Type{Name: t.Name, Kind: Float, Size: int64(t.Size)}
	case *btf.Enum:
		return &Type{Name: "enum " + t.Name, Kind: Enum, Size: int64(t.Size)}
	case *btf.Pointer:
		return pointer(pointerSize, func() *Type { return k.typeOf(t.Target) })
	case *btf.Array:
		return array(int64(t.Nelems), k.typeOf(t.Type))
	case *btf.Struct:
		return k.structure("struct ", t.Name, t.Size, t.Members)
	case *btf.Union:
		return k.structure("union ", t.Name, t.Size, t.Members)
	case *btf.Fwd:
		return unknown(t.Kind.String() + " " + t.Name)
	case *btf.FuncProto:
		return function
	case *btf.Typedef:
		named := *k.typeOf(t.Type)
		named.Name = t.Name
		return &named
	case *btf.Const:
		return k.typeOf(t.Type)
	case *btf.Volatile:
		return k.typeOf(t.Type)
	case *btf.Restrict:
		return k.typeOf(t.Type)
	case *btf.TypeTag:
		return k.typeOf(t.Type)
	}
	return unknown("(unknown_type)")
}

func (k *Kernel) structure(word, name string, size uint32, members []btf.Member) *Type {
	return &Type{Name: word + name, Kind: Struct, Size: int64(size), fields: func() (l []Field) {
		for _, m := range members {
			l = append(l, Field{m.Name, k.typeOf(m.Type), int64(m.Offset), int64(m.BitfieldSize)})
		}
		return l
	}}
}

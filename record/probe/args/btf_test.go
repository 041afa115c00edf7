package args

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cilium/ebpf/btf"
)

func testKernel(t *testing.T, types ...btf.Type) *Kernel {
	t.Helper()
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := b.Spec()
	if err != nil {
		t.Fatal(err)
	}
	return NewKernel(spec, machines["amd64"])
}

func TestKernelScope(t *testing.T) {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	long := &btf.Int{Name: "long unsigned int", Size: 8}
	small := &btf.Struct{Name: "kuid_t", Size: 4, Members: []btf.Member{{Name: "val", Type: integer}}}
	pair := &btf.Struct{Name: "pair", Size: 16, Members: []btf.Member{{Name: "a", Type: long},
		{Name: "b", Type: integer, Offset: 64}}}
	node := &btf.Struct{Name: "node", Size: 16}
	node.Members = []btf.Member{
		{Name: "next", Type: &btf.Pointer{Target: &btf.Const{Type: node}}},
		{Type: &btf.Union{Size: 8, Members: []btf.Member{
			{Name: "x", Type: &btf.Typedef{Name: "u32", Type: integer}},
			{Name: "flag", Type: integer, BitfieldSize: 1, Offset: 3},
		}}, Offset: 64},
	}
	k := testKernel(t, &btf.Func{Name: "f", Linkage: btf.GlobalFunc,
		Type: &btf.FuncProto{Return: &btf.Void{}, Params: []btf.FuncParam{
			{Name: "n", Type: &btf.Pointer{Target: node}}, {Name: "uid", Type: small}, {Name: "p", Type: pair}, {Name: "c", Type: long},
			{Name: "d", Type: long}, {Name: "e", Type: long}, {Name: "q", Type: pair}, {Name: "g", Type: long},
		}}})
	s, err := k.Scope("f")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range s.Vars {
		where := show(v.Where, v.Err)
		if v.Err != nil {
			where = "nowhere"
		}
		got = append(got, v.Type.String()+" "+v.Name+" "+where)
	}
	want := []string{"struct node* n $arg1", "struct kuid_t uid $arg2", "struct pair p [8 $arg3 8 $arg4]",
		"long unsigned int c $arg5",
		"long unsigned int d $arg6", "long unsigned int e $arg7", "struct pair q nowhere", "long unsigned int g nowhere"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if s.Return.Kind != Void {
		t.Errorf("returns %v, want void", s.Return)
	}
	f, ok := s.Vars[0].Type.Elem().Field("flag")
	if !ok || f.Bit != 67 || f.Bits != 1 || f.Type.String() != "int" {
		t.Errorf("flag, of an anonymous union: %+v, %v", f, ok)
	}
	if next, _ := s.Vars[0].Type.Elem().Field("next"); next.Type.Elem() != s.Vars[0].Type.Elem() {
		t.Errorf("next points to %v, want the node's own type", next.Type.Elem())
	}

	var lack *NoDebugError
	if _, err := k.Scope("g"); !errors.As(err, &lack) || lack.Lack != "BTF of g" {
		t.Errorf("an unknown function: %v, want a NoDebugError", err)
	}
}

// TestInRegisters checks the parameters that are known at the entry of functions.
func TestInRegisters(t *testing.T) {
	integer := &Type{Name: "int", Kind: Int, Size: 4, Signed: true}
	real, text := &Type{Name: "double", Kind: Float, Size: 8}, pointer(8, func() *Type { return integer })
	large := &Type{Name: "struct large", Kind: Struct, Size: 24}
	param := func(name string, t *Type) Var { return Var{Name: name, Type: t, Param: true} }
	for _, c := range []struct {
		name    string
		machine string
		result  *Type
		vars    []Var
		want    string
	}{
		{"floats have others", "amd64", void, []Var{param("a", integer), param("f", real), param("p", text)}, "a0 p1 "},
		{"locals", "amd64", void, []Var{{Name: "l", Type: integer}, param("a", integer)}, "a0 "},
		{"a struct hides the rest", "amd64", void, []Var{param("a", integer), param("s", large), param("b", integer)}, "a0 "},
		{"a large result", "amd64", large, []Var{param("a", integer)}, "a1 "},
		{"a large result", "arm64", large, []Var{param("a", integer)}, "a0 "},
		{"many", "amd64", void, []Var{param("a", text), param("b", text), param("c", text), param("d", text), param("e", text),
			param("f", text), param("g", text)}, "a0 b1 c2 d3 e4 f5 "},
	} {
		got := ""
		for _, p := range MachineOf(c.machine).InRegisters(&Scope{Vars: c.vars, Return: c.result}, false) {
			got += fmt.Sprintf("%s%d ", p.Name, p.Register)
		}
		if got != c.want {
			t.Errorf("%s on %s: %q, want %q", c.name, c.machine, got, c.want)
		}
	}
}

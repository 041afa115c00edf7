package probe

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"gperf/record/probe/vars"
)

// testScope returns the scope of int f(struct node *np, char *s, int n, struct pair p, u16
// h).
func testScope(t testing.TB) *vars.Scope {
	t.Helper()
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	u16 := &btf.Int{Name: "short unsigned int", Size: 2}
	long := &btf.Int{Name: "long unsigned int", Size: 8}
	text := &btf.Pointer{Target: char}
	many := func(of btf.Type, n uint32) *btf.Array { return &btf.Array{Index: integer, Type: of, Nelems: n} }
	node := &btf.Struct{Name: "node", Size: 400}
	node.Members = []btf.Member{
		{Name: "next", Type: &btf.Pointer{Target: node}},
		{Name: "label", Type: text, Offset: 64},
		{Name: "name", Type: many(char, 16), Offset: 128},
		{Name: "arr", Type: many(integer, 4), Offset: 256},
		{Name: "grid", Type: many(many(u16, 3), 2), Offset: 384},
		{Name: "big", Type: many(integer, 65), Offset: 512},
		{Name: "lo", Type: u16, Offset: 3000, BitfieldSize: 3},
		{Name: "hi", Type: u16, Offset: 3003, BitfieldSize: 5},
		{Name: "self", Type: &btf.Pointer{Target: &btf.Fwd{Name: "secret"}}, Offset: 3072},
	}
	pair := &btf.Struct{Name: "pair", Size: 16, Members: []btf.Member{
		{Name: "p", Type: text}, {Name: "n", Type: integer, Offset: 64}, {Name: "m", Type: integer, Offset: 96}}}
	b, err := btf.NewBuilder([]btf.Type{&btf.Func{Name: "f", Linkage: btf.GlobalFunc, Type: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{
		{Name: "np", Type: &btf.Pointer{Target: node}}, {Name: "s", Type: text}, {Name: "n", Type: integer}, {Name: "p", Type: pair},
		{Name: "h", Type: u16}, {Name: "l", Type: long}, {Name: "on_stack", Type: long}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := b.Spec()
	if err != nil {
		t.Fatal(err)
	}
	scope, err := vars.NewKernel(spec, vars.MachineOf("amd64")).Scope("f")
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

// argsOf returns the arguments of words for a probe of testScope's function.
func argsOf(t testing.TB, k Kind, words string) ([]Arg, error) {
	scope := testScope(t)
	s, err := parse(k.String() + ":file:f " + words)
	if err != nil {
		return nil, err
	}
	r := reader{spec: s, probe: &Probe{Kind: k, Symbol: "f", Path: "/file"}, machine: vars.MachineOf("amd64"),
		types: func() string { return "u8/16/32/64, char, ustring, %pd/%pD" }, scope: func() (*vars.Scope, error) { return scope, nil }}
	return r.args()
}

func show(l []Arg) string {
	var b strings.Builder
	for _, a := range l {
		fmt.Fprintf(&b, " %s=%s", a.Name, a.Fetch)
	}
	return strings.TrimPrefix(b.String(), " ")
}

func TestArgs(t *testing.T) {
	for _, c := range []struct {
		kind        Kind
		words, want string
	}{
		{Kprobe, "np s n h", "np=$arg1:x64 s=$arg2:x64 n=$arg3:s32 h=$arg6:x16"},
		{Kprobe, "on_stack:u l:x32", "on_stack_u=$arg8:u64 l_x32=$arg7:x32"},
		{Kprobe, "s:string", "s_string=+0($arg2):string"},
		{Kprobe, "t=s:ustring", "t=+0($arg2):ustring"},
		{Kprobe, "s:string@user np->label:string", "s_string=+u0($arg2):string label=+0(+8($arg1)):string"},
		{Kprobe, "np->next->next->label:string@user", "label=+u0(+u8(+u0(+u0($arg1)))):string"},
		{Kprobe, "np->name", "name=+16($arg1):string"},
		{Kprobe, "np->name[3]:char", "name=+19($arg1):char"},
		{Kprobe, "np->arr a2=np->arr[2] a3=np->arr:x8[16]", "arr=+32($arg1):s32[4] a2=+40($arg1):s32 a3=+32($arg1):x8[16]"},
		{Kprobe, "s:u8[4] np->label:x8[4]", "s_u8=+0($arg2):u8[4] label=+0(+8($arg1)):x8[4]"},
		{Kprobe, "np->grid[1][2]", "grid=+58($arg1):x16"},
		{Kprobe, "np->lo np->hi", "lo=+374($arg1):b3@8/16 hi=+374($arg1):b5@11/16"},
		{Kprobe, "np[1].arr[0] *s", "arr=+432($arg1):s32 s=+0($arg2):s8"},
		{Kprobe, "p.p:string p.n p.m", "p=+0($arg4):string n=$arg5:s32 m=$arg5:b32@32/64"},
		{Kprobe, "$params", "np=$arg1:x64 s=$arg2:x64 n=$arg3:s32 h=$arg6:x16 l=$arg7:x64 on_stack=$arg8:x64"},
		{Kprobe, "$arg2 dev=$arg9 %di +0x10(+8(%si)):u32 $comm", "arg1=$arg2 dev=$arg9 arg3=%di arg4=+0x10(+8(%si)):u32 arg5=$comm"},
		{Kprobe, `@jiffies:u64 @jiffies+8 \3 \"a=b" $stack $stack7 f=%ip:symbol`,
			`arg1=@jiffies:u64 arg2=@jiffies+8 arg3=\3 arg4=\"a=b" arg5=$stack arg6=$stack7 f=%ip:symbol`},
		{Kprobe, "b=%di:b4@2/32 -8(%sp):s16[4]", "b=%di:b4@2/32 arg2=-8(%sp):s16[4]"},
		{Kretprobe, "$retval r=$retval:x64 e=$arg1", "arg1=$retval:s32 r=$retval:x64 e=$arg1"},
		{Uprobe, "$arg1 $arg6 $arg7 $arg8:string[0]", "error: 1 to 64"},
		{Uprobe, "$arg1 $arg6 $arg7 $arg8", "arg1=%di arg2=%r9 arg3=$stack1 arg4=$stack2"},

		{Kprobe, "nq", "error: f has no variable nq: did you mean np, n, s, p, h?; `gperf probe --vars f` lists the variables"},
		{Uprobe, "nq", "error: `gperf probe --vars f -x file` lists the variables"},
		{Kprobe, "np->lable", "error: struct node has no member lable: did you mean label?"},
		{Kprobe, "p.zzzzzz", "error: struct pair has no member zzzzzz; it has p, n, m"},
		{Kprobe, "np.label", "error: np is a pointer (struct node*): write np->label"},
		{Kprobe, "p->n", "error: p is not a pointer but struct pair: write p.n"},
		{Kprobe, "n->x", "error: n is not a struct or union but int"},
		{Kprobe, "np->self->x", "error: np->self is struct secret, whose members are unknown here"},
		{Kprobe, "np->arr[4]", "error: np->arr has 4 elements"},
		{Kprobe, "n[0]", "error: n is neither an array nor a pointer"},
		{Kprobe, "np->big", "error: the kernel reads 1 to 64: name one (np->big[0])"},
		{Kprobe, "*np", "error: name a member (next, label, name, arr, grid, …)"},
		{Kprobe, "p", "error: p is a struct pair: name a member (p, n, m)"},
		{Kprobe, "n:string", "error: n is int; a string needs a pointer or an array"},
		{Kprobe, "np->arr:string", "error: a string consists of characters"},
		{Kprobe, "np->lo:u8", "error: a bit-field, which cannot have a type"},
		{Kprobe, "n:u99", `error: "u99" is not a type: use u8`},
		{Kprobe, "n:symstr", "error: this kernel has no type symstr; it has u8/16/32/64, char, ustring"},
		{Kprobe, "n:u8[65]", "error: an array has 1 to 64 elements"},
		{Kprobe, "%rdi", "error: no register %rdi: did you mean %di"},
		{Kprobe, "%di:string", "error: a string needs an address, such as the one in %di: +0(%di):string"},
		{Kprobe, "n:u8[4]", "error: n is int; u8[4] needs a pointer or an array"},
		{Kprobe, "$arg1:u8[4]", "error: such as the one in $arg1: +0($arg1):u8[4]"},
		{Kprobe, "+0(np)", "error: brackets need a register"},
		{Kprobe, "+0(%di", "error: +0(%di is not a value"},
		{Kprobe, "$retval", "error: use kretprobe or uretprobe"},
		{Kprobe, "$ret", "error: unknown $ret"},
		{Kprobe, "$arg0", "error: unknown $arg0"},
		{Kprobe, "1x=n", "error: a name consists of letters"},
		{Kprobe, "n np->arr n", "error: another argument has the name n"},
		{Kprobe, "common_pid=n", "error: common_pid is one of the kernel's own fields"},
		{Kprobe, "n=", "error: the value is missing"},
		{Kprobe, "+0(%di):u8@user", "error: other values use u: +u0(%di)"},
		{Kprobe, "&n", "error: a variable is NAME, followed by members"},
		{Kprobe, "*", "error: a variable is NAME, followed by members"},
		{Kprobe, strings.Repeat("n ", 129), "error: 129 arguments; the kernel supports 128"},
		{Kprobe, strings.Repeat("n", 33) + "=n", "error: longer than 32 characters"},
		{Kprobe, "x=np" + strings.Repeat("->next", 14), "error: is longer than 63 characters"},
		{Kretprobe, "np", "error: variables are not available at the function's return; $retval is its return value"},
		{Uretprobe, "$arg1", "error: arguments are not available at the function's return; $retval is its return value"},
		{Uprobe, "$stack0:symbol", "error: use a kprobe"},
	} {
		l, err := argsOf(t, c.kind, c.words)
		want, wrong := strings.CutPrefix(c.want, "error: ")
		var spec *SpecError
		switch {
		case wrong && !errors.As(err, &spec):
			t.Errorf("%s %s: %s, %v, want a SpecError", c.kind, c.words, show(l), err)
		case wrong && !strings.Contains(err.Error(), want):
			t.Errorf("%s %s: %v\nwant %s", c.kind, c.words, err, want)
		case !wrong && (err != nil || show(l) != want):
			t.Errorf("%s %s: %s, %v\nwant %s", c.kind, c.words, show(l), err, want)
		}
	}
}

func TestArgsBehindTheEntry(t *testing.T) {
	for words, want := range map[string]string{"np": "not at +4", "$arg1": "not at +4"} {
		s, err := parse("kprobe:f+4 " + words)
		if err != nil {
			t.Fatal(err)
		}
		r := reader{spec: s, probe: &Probe{Symbol: "f", Off: 4}, machine: vars.MachineOf("amd64"),
			scope: func() (*vars.Scope, error) { return testScope(t), nil }}
		if l, err := r.args(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want an error: %s", words, show(l), err, want)
		}
	}
}

// FuzzArgs checks that words are rejected, or make a definition with as many arguments, which
// the kernel would split in the same way.
func FuzzArgs(f *testing.F) {
	for _, words := range []string{"np->label:string@user", "*np[1].arr", `x=\"a b" $params`, "+0x8(-4(%di)):b1@2/8[3]", "p.n $arg3 @s+4", "$retval->x"} {
		f.Add(words, byte(Kprobe))
		f.Add(words, byte(Kretprobe))
	}
	f.Fuzz(func(t *testing.T, words string, kind byte) {
		if strings.Contains(words, "@") {
			kind &= 1 // symbols of programs are looked for in files
		}
		l, err := argsOf(t, Kind(kind&3), words)
		if err != nil {
			return
		}
		for _, a := range l {
			if !identifier.MatchString(a.Name) || len(fields(a.Name+"="+a.Fetch)) != 1 {
				t.Errorf("%q means %q %q", words, a.Name, a.Fetch)
			}
		}
	})
}

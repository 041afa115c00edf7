package args

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// testScope returns the scope of int f(struct node *np, char *s, int n, struct pair p, u16
// h).
func testScope(t testing.TB) *Scope {
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
	b, err := btf.NewBuilder([]btf.Type{&btf.Func{Name: "f", Linkage: btf.GlobalFunc,
		Type: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{
			{Name: "np", Type: &btf.Pointer{Target: node}}, {Name: "s", Type: text}, {Name: "n", Type: integer}, {Name: "p", Type: pair},
			{Name: "h", Type: u16}, {Name: "l", Type: long}, {Name: "on_stack", Type: long}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := b.Spec()
	if err != nil {
		t.Fatal(err)
	}
	scope, err := NewKernel(spec, MachineOf("amd64")).Scope("f")
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

// kinds are the kinds of probes of testSite.
type kind int

const (
	kprobe kind = iota
	kretprobe
	uprobe
	uretprobe
)

func (k kind) String() string { return [...]string{"kprobe", "kretprobe", "uprobe", "uretprobe"}[k] }

// testSite returns a site of testScope's function.
func testSite(t testing.TB, k kind) Site {
	scope := testScope(t)
	s := Site{
		Spec: k.String() + ":f", Returns: k == kretprobe || k == uretprobe, Path: "/file", Machine: MachineOf("amd64"),
		Types: func() string { return "u8/16/32/64, char, ustring, %pd/%pD" },
		Scope: func() (*Scope, error) { return scope, nil },
		Help:  "`gperf probe --vars f` lists the variables",
	}
	if k >= uprobe {
		s.Kind = InProgram
	}
	return s
}

// argsOf returns the arguments of words for a probe of testScope's function.
func argsOf(t testing.TB, k kind, words string) ([]Arg, error) {
	l, _, err := testSite(t, k).Resolve(Words(words))
	return l, err
}

func showArgs(l []Arg) string {
	var b strings.Builder
	for _, a := range l {
		fmt.Fprintf(&b, " %s=%s", a.Name, a.Fetch)
	}
	return strings.TrimPrefix(b.String(), " ")
}

func TestArgs(t *testing.T) {
	for _, c := range []struct {
		kind        kind
		words, want string
	}{
		{kprobe, "np s n h", "np=$arg1:x64 s=$arg2:x64 n=$arg3:s32 h=$arg6:x16"},
		{kprobe, "on_stack:u l:x32", "on_stack_u=$arg8:u64 l_x32=$arg7:x32"},
		{kprobe, "s:string", "s_string=+0($arg2):string"},
		{kprobe, "t=s:ustring", "t=+0($arg2):ustring"},
		{kprobe, "s:string@user np->label:string", "s_string=+u0($arg2):string label=+0(+8($arg1)):string"},
		{kprobe, "np->next->next->label:string@user", "label=+u0(+u8(+u0(+u0($arg1)))):string"},
		{kprobe, "np->name", "name=+16($arg1):string"},
		{kprobe, "np->name[3]:char", "name=+19($arg1):char"},
		{kprobe, "np->arr a2=np->arr[2] a3=np->arr:x8[16]", "arr=+32($arg1):s32[4] a2=+40($arg1):s32 a3=+32($arg1):x8[16]"},
		{kprobe, "s:u8[4] np->label:x8[4]", "s_u8=+0($arg2):u8[4] label=+0(+8($arg1)):x8[4]"},
		{kprobe, "np->grid[1][2]", "grid=+58($arg1):x16"},
		{kprobe, "np->lo np->hi", "lo=+374($arg1):b3@8/16 hi=+374($arg1):b5@11/16"},
		{kprobe, "np[1].arr[0] *s", "arr=+432($arg1):s32 s=+0($arg2):s8"},
		{kprobe, "p.p:string p.n p.m", "p=+0($arg4):string n=$arg5:s32 m=$arg5:b32@32/64"},
		{kprobe, "$params", "np=$arg1:x64 s=$arg2:x64 n=$arg3:s32 h=$arg6:x16 l=$arg7:x64 on_stack=$arg8:x64"},
		{kprobe, "$arg2 dev=$arg9 %di +0x10(+8(%si)):u32 $comm", "arg1=$arg2 dev=$arg9 arg3=%di arg4=+0x10(+8(%si)):u32 arg5=$comm"},
		{kprobe, `@jiffies:u64 @jiffies+8 \3 \"a=b" $stack $stack7 f=%ip:symbol`,
			`arg1=@jiffies:u64 arg2=@jiffies+8 arg3=\3 arg4=\"a=b" arg5=$stack arg6=$stack7 f=%ip:symbol`},
		{kprobe, "b=%di:b4@2/32 -8(%sp):s16[4]", "b=%di:b4@2/32 arg2=-8(%sp):s16[4]"},
		{kretprobe, "$retval r=$retval:x64 e=$arg1", "arg1=$retval:s32 r=$retval:x64 e=$arg1"},
		{uprobe, "$arg1 $arg6 $arg7 $arg8:string[0]", "error: 1 to 64"},
		{uprobe, "$arg1 $arg6 $arg7 $arg8", "arg1=%di arg2=%r9 arg3=$stack1 arg4=$stack2"},

		{kprobe, "nq", "error: f has no variable nq: did you mean np, n, s, p, h?; `gperf probe --vars f` lists the variables"},
		{kprobe, "np->lable", "error: struct node has no member lable: did you mean label?"},
		{kprobe, "p.zzzzzz", "error: struct pair has no member zzzzzz; it has p, n, m"},
		{kprobe, "np.label", "error: np is a pointer (struct node*): write np->label"},
		{kprobe, "p->n", "error: p is not a pointer but struct pair: write p.n"},
		{kprobe, "n->x", "error: n is not a struct or union but int"},
		{kprobe, "np->self->x", "error: np->self is struct secret, whose members are unknown here"},
		{kprobe, "np->arr[4]", "error: np->arr has 4 elements"},
		{kprobe, "n[0]", "error: n is neither an array nor a pointer"},
		{kprobe, "np->big", "error: the kernel reads 1 to 64: name one (np->big[0])"},
		{kprobe, "*np", "error: name a member (next, label, name, arr, grid, …)"},
		{kprobe, "p", "error: p is a struct pair: name a member (p, n, m)"},
		{kprobe, "n:string", "error: n is int; a string needs a pointer or an array"},
		{kprobe, "np->arr:string", "error: a string consists of characters"},
		{kprobe, "np->lo:u8", "error: a bit-field, which cannot have a type"},
		{kprobe, "n:u99", `error: "u99" is not a type: use u8`},
		{kprobe, "n:symstr", "error: this kernel has no type symstr; it has u8/16/32/64, char, ustring"},
		{kprobe, "n:u8[65]", "error: an array has 1 to 64 elements"},
		{kprobe, "%rdi", "error: no register %rdi: did you mean %di"},
		{kprobe, "%di:string", "error: a string needs an address, such as the one in %di: +0(%di):string"},
		{kprobe, "n:u8[4]", "error: n is int; u8[4] needs a pointer or an array"},
		{kprobe, "$arg1:u8[4]", "error: such as the one in $arg1: +0($arg1):u8[4]"},
		{kprobe, "+0(np)", "error: brackets need a register"},
		{kprobe, "+0(%di", "error: +0(%di is not a value"},
		{kprobe, "$retval", "error: use kretprobe or uretprobe"},
		{kprobe, "$ret", "error: unknown $ret"},
		{kprobe, "$arg0", "error: unknown $arg0"},
		{kprobe, "1x=n", "error: a name consists of letters"},
		{kprobe, "n np->arr n", "error: another argument has the name n"},
		{kprobe, "common_pid=n", "error: common_pid is one of the kernel's own fields"},
		{kprobe, "n=", "error: the value is missing"},
		{kprobe, "+0(%di):u8@user", "error: other values use u: +u0(%di)"},
		{kprobe, "&n", "error: a variable is NAME, followed by members"},
		{kprobe, "*", "error: a variable is NAME, followed by members"},
		{kprobe, strings.Repeat("n ", 129), "error: 129 arguments; the kernel supports 128"},
		{kprobe, strings.Repeat("n", 33) + "=n", "error: longer than 32 characters"},
		{kprobe, "x=np" + strings.Repeat("->next", 14), "error: is longer than 63 characters"},
		{kretprobe, "np", "error: variables are not available at the function's return; $retval is its return value"},
		{uretprobe, "$arg1", "error: arguments are not available at the function's return; $retval is its return value"},
		{uprobe, "$stack0:symbol", "error: use a kprobe"},
	} {
		t.Run(c.words, func(t *testing.T) {
			l, err := argsOf(t, c.kind, c.words)
			want, wrong := strings.CutPrefix(c.want, "error: ")
			var spec *SpecError
			switch {
			case wrong && !errors.As(err, &spec):
				t.Errorf("%s %s: %s, %v, want a SpecError", c.kind, c.words, showArgs(l), err)
			case wrong && !strings.Contains(err.Error(), want):
				t.Errorf("%s %s: %v\nwant %s", c.kind, c.words, err, want)
			case !wrong && (err != nil || showArgs(l) != want):
				t.Errorf("%s %s: %s, %v\nwant %s", c.kind, c.words, showArgs(l), err, want)
			}
		})
	}
}

func TestArgsAfterEntry(t *testing.T) {
	site := testSite(t, kprobe)
	site.FuncOff = 4
	for words, want := range map[string]string{"np": "not at +4", "$arg1": "not at +4"} {
		t.Run(words, func(t *testing.T) {
			if l, _, err := site.Resolve([]string{words}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %v, want an error: %s", showArgs(l), err, want)
			}
		})
	}
}

// FuzzArgs checks that words are rejected, or make a definition with as many arguments, which
// the kernel would split in the same way.
func FuzzArgs(f *testing.F) {
	for _, words := range []string{"np->label:string@user", "*np[1].arr", `x=\"a b" $params`, "+0x8(-4(%di)):b1@2/8[3]",
		"p.n $arg3 @s+4", "$retval->x"} {
		f.Add(words, byte(kprobe))
		f.Add(words, byte(kretprobe))
	}
	f.Fuzz(func(t *testing.T, words string, k byte) {
		if strings.Contains(words, "@") {
			k &= 1 // symbols of programs are looked for in files
		}
		l, err := argsOf(t, kind(k&3), words)
		if err != nil {
			return
		}
		for _, a := range l {
			if !IsName(a.Name) || len(Words(a.Name+"="+a.Fetch)) != 1 {
				t.Errorf("%q means %q %q", words, a.Name, a.Fetch)
			}
		}
	})
}

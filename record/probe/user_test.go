package probe

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

// find returns the probes of a spec as event@symbol, by the file's functions.
func find(t *testing.T, path, place string) (l []string, err error) {
	t.Helper()
	kind, place, ok := strings.Cut(place, " ")
	if !ok {
		kind, place = "uprobe", kind
	}
	var f Finder
	probes, err := f.Find(kind + ":" + path + ":" + place)
	if err != nil {
		return nil, err
	}
	functions, err := f.Functions(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range probes {
		name := "?"
		for _, fn := range functions {
			switch {
			case p.Off == fn.Off:
				name = fn.Symbol
			case p.Off-fn.Off < fn.Size:
				name = fn.Symbol + "+"
			}
		}
		l = append(l, p.String()+"@"+name)
	}
	slices.Sort(l) // compilers order functions as they like
	return l, nil
}

func checkFind(t *testing.T, path string, want map[string]string) {
	t.Helper()
	for place, want := range want {
		l, err := find(t, path, place)
		got := strings.ReplaceAll(strings.Join(l, " "), "probe_functions:", "")
		if err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", place, got, err, want)
		}
	}
}

func TestFindC(t *testing.T) {
	line13 := "func_c@func_c"
	if runtime.GOARCH == "arm64" {
		line13 += "+" // after the instruction that allocates stack space
	}
	checkFind(t, functionsC.Path(t), map[string]string{
		"func_c":           "func_c@func_c",
		"uretprobe func_c": "func_c__return@func_c",
		"func_[ab]":        "func_a@func_a func_b@func_b",
		"functions.c:13":   line13,
		"functions.c:20":   "func_b@func_b+",
	})
}

func TestFindCXX(t *testing.T) {
	checkFind(t, functionsCXX.Path(t), map[string]string{
		"ns::f":             "ns_f@_ZN2ns1fEd ns_f@_ZN2ns1fEi",
		"ns::f(int)":        "ns_f@_ZN2ns1fEi",
		`"ns::f(double)"`:   "ns_f@_ZN2ns1fEd",
		"_ZN2ns1fEi":        "ns_f@_ZN2ns1fEi",
		"ns::Class::method": "ns_Class_method@_ZNK2ns5Class6methodEi",
		"ns::t<int>":        "ns_t_int@_ZN2ns1tIiEEiT_",
		"ns::t<*>":          "ns_t_int@_ZN2ns1tIiEEiT_ ns_t_long@_ZN2ns1tIlEEiT_",
	})
}

func TestFindGo(t *testing.T) {
	want := map[string]string{
		"main.(*T).Method":           "main_T_Method@main.(*T).Method",
		`"main.(*T).Method"`:         "main_T_Method@main.(*T).Method",
		"main.(*T).*":                "main_T_Method@main.(*T).Method",
		"main.Generic[...]":          "main_Generic_go_shape_int@main.Generic[go.shape.int]",
		"uretprobe main.(*T).Method": "main_T_Method__return@main.(*T).Method+ main_T_Method__return@main.(*T).Method+",
	}
	checkFind(t, functionsGo.Path(t), want)
	checkFind(t, functionsGoBare.Path(t), want)
}

func TestFindRefusals(t *testing.T) {
	plain := functionsC.Path(t)
	stripped := functionsStripped.Path(t)
	for _, c := range []struct{ path, place, want string }{
		{plain, "func_d", "did you mean func_a, func_b, func_c?"},
		{plain, "add", "inlined everywhere: probe an inlined call, such as func_c+"},
		{plain, "printf", "it is imported from another file: probe libc.so.6:printf"},
		{plain, "func_c+0x1000", "func_c is 0x"},
		{plain, "0x10", "there is no code at 0x10"},
		{plain, "functions.c:3", "has no code; the next line with code is functions.c:"},
		{plain, "other.c:3", "has no code from a source file other.c"},
		{plain, "uretprobe func_c+4", "a function without an offset, not +4"},
		{stripped, "func_c", "it is stripped: "},
		{stripped, "functions.c:13", "no debug information (DWARF)"},
		{"/no/such/file", "f", "no such file"},
		{"/etc/passwd", "f", "not an ELF file"},
		{"/tmp", "f", "not a regular file"},
		{"no-such-name", "f", "no program of that name"},
	} {
		if l, err := find(t, c.path, c.place); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s: %v, %v; want %q", c.place, c.path, l, err, c.want)
		}
	}
}

// TestFindBoundaries rejects a probe inside an instruction, which it would corrupt.
func TestFindBoundaries(t *testing.T) {
	path := functionsC.Path(t)
	f, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.readFunctions(); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(f.functions, func(fn Function) bool { return fn.Symbol == "func_c" })
	fn := &f.functions[i]
	starts := map[uint64]bool{}
	for off := range f.instructions(fn) {
		starts[off-fn.Off] = true
	}
	if len(starts) < 3 {
		t.Fatalf("func_c has %d instructions", len(starts))
	}
	for off := range fn.Size {
		_, err := find(t, path, "func_c+0x"+hexed(off))
		if (err == nil) != starts[off] {
			t.Errorf("func_c+%#x: %v", off, err)
		}
	}
}

// TestFindOtherMachine rejects programs for another machine.
func TestFindOtherMachine(t *testing.T) {
	b, err := os.ReadFile(functionsC.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	b[18], b[19] = 0xf3, 0 // e_machine: RISC-V
	path := t.TempDir() + "/program"
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	var e *FileError
	if _, err := new(Finder).Find("uprobe:" + path + ":main"); !errors.As(err, &e) || !strings.Contains(err.Error(), "it is for RISCV, this machine is ") {
		t.Error(err)
	}
}

// TestFindIFUNC checks that the implementation found for an IFUNC is the one that a running
// process uses.
func TestFindIFUNC(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, _ = os.Create(os.DevNull)
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	defer in.Close()
	in.Write(make([]byte, 1<<17)) // taken: it runs, and the dynamic linker is done
	var notices []string
	f := Finder{Notice: func(what error) { notices = append(notices, what.Error()) }}
	for _, name := range []string{"strlen", "memcpy", "strchr"} {
		asked, err := f.Find("uprobe:libc.so.6:" + name)
		var file *FileError
		if errors.As(err, &file) {
			t.Skip(err)
		}
		running := Finder{PIDs: []int{cmd.Process.Pid}}
		if runtime.GOARCH != "amd64" { // what chooses is not run here
			if len(notices) == 0 && err != nil && !strings.Contains(err.Error(), "record a running process (-p)") {
				t.Error(err)
			}
			found, err := running.Find("uprobe:libc.so.6:" + name)
			switch {
			case err == nil && len(found) == 1 && !funcAt(t, &f, found[0]).ifunc:
			case name != "strlen" && err != nil: // not called so far
			default:
				t.Errorf("%s: %v of a process, %v", name, found, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(notices) == 0 {
			t.Skip("this libc has no IFUNCs")
		}
		found, err := running.Find("uprobe:libc.so.6:" + name)
		if err != nil || len(asked) != 1 || len(found) != 1 || found[0].Off != asked[0].Off {
			t.Errorf("%s: %v of a process, %v; asked %v", name, found, err, asked)
		}
		if direct := funcAt(t, &f, asked[0]); direct.ifunc {
			t.Errorf("%s: the probe is at what chooses", name)
		}
	}
}

func funcAt(t *testing.T, f *Finder, p *Probe) (at Function) {
	t.Helper()
	functions, err := f.Functions(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, fn := range functions {
		if fn.Off == p.Off {
			at = fn
		}
	}
	return at
}

// TestGoFunctionsAgainstSymbols checks that Go's own table has the functions of the symbol
// table, wherever the linker put them.
func TestGoFunctionsAgainstSymbols(t *testing.T) {
	for name, p := range map[string]*programs.Program{"static": functionsGo, "PIE": functionsGoPIE, "linked by C's compiler": functionsGoByC, "race": functionsGoRace} {
		t.Run(name, func(t *testing.T) { sameAsSymbols(t, p.Path(t)) })
	}
}

func sameAsSymbols(t *testing.T, path string) {
	f, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.readFunctions(); err != nil {
		t.Fatal(err)
	}
	if f.goPCs {
		t.Fatal("it is stripped")
	}
	symbols := map[string]map[uint64]bool{}
	for _, fn := range f.functions {
		if symbols[fn.Symbol] == nil {
			symbols[fn.Symbol] = map[uint64]bool{}
		}
		symbols[fn.Symbol][fn.Off] = true
	}
	same, other := 0, 0
	for _, fn := range f.goFunctions() {
		switch at, ok := symbols[fn.Symbol]; {
		case !ok: // go:buildid, names that the linker shortens
		case at[fn.Off], symbols[fn.Symbol+".abi0"][fn.Off]: // one name for both ways of calling
			same++
		default:
			other++
		}
	}
	if same < 1000 || other > 0 {
		t.Errorf("%d functions are where the symbols are, %d are not", same, other)
	}
}

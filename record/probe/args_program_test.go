package probe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
	"gperf/record/probe/args"
)

// show returns arguments as they are in a definition.
func show(l []args.Arg) string {
	var b strings.Builder
	for _, a := range l {
		fmt.Fprintf(&b, " %s=%s", a.Name, a.Fetch)
	}
	return strings.TrimPrefix(b.String(), " ")
}

func run(t *testing.T, dir, name string, words ...string) string {
	t.Helper()
	cmd := exec.Command(name, words...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(words, " "), err, out)
	}
	return string(out)
}

// perfDefinition returns perf probe -D's definition of words, without the events' names; ""
// if perf rejects them.
func perfDefinition(t *testing.T, path, words string) string {
	t.Helper()
	cmd := exec.Command("perf", "probe", "-x", path, "-D", "values "+words)
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	_, definition, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	return definition
}

func needPerfProbe(t *testing.T, path string) {
	t.Helper()
	if _, err := exec.LookPath("perf"); err != nil {
		t.Skip("perf is not installed: there is nothing to compare with")
	}
	if perfDefinition(t, path, "n") == "" {
		t.Skip("perf probe -D finds no variables: it may be built without DWARF")
	}
}

// TestArgsOfProgramsLikePerf compares definitions with perf's, for arguments that both support; perf handles
// bit-fields and complete arrays wrongly.
func TestArgsOfProgramsLikePerf(t *testing.T) {
	words := strings.Fields(
		`n np s ul c sh on_stack s:string np->label:string np->in.a np->ptr->a np->ptr->name:string np->in.name:string
		np->arr[2] np->sc np->col np->u1 np->u2 np->d a[1] si.a x=n:u8 n:x np->next->next->label:string np->in.name[1] c:char
		np->label:string@user np->arr:u32[4] np[1].in.a $params`)
	words = append(words, "n s:string np->arr[1]:x16 np->col", "local")
	for _, p := range argsCs {
		t.Run(p.String(), func(t *testing.T) {
			path := p.Path(t)
			needPerfProbe(t, path)
			compared := 0
			for _, w := range words {
				want := perfDefinition(t, path, w)
				got := ""
				if l, err := new(Resolver).Find("uprobe:" + path + ":values " + w); err == nil {
					_, got, _ = strings.Cut(l[0].Definition("group", "event"), " ")
				} else if want != "" {
					got = err.Error()
				}
				if got != want {
					t.Errorf("%s: %s\nperf has %s", w, got, want)
				}
				if want != "" {
					compared++
				}
			}
			if compared < 20 {
				t.Errorf("perf could read %d of %d", compared, len(words))
			}
		})
	}
}

// TestArgsOfStrippedProgram reads debug information from a separate file.
func TestArgsOfStrippedProgram(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // where perf keeps copies of programs
	path := filepath.Join(t.TempDir(), "args")
	if b, err := os.ReadFile(argsC.Path(t)); err != nil {
		t.Fatal(err)
	} else if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	want, err := new(Resolver).Find("uprobe:" + path + ":values n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("objcopy"); err != nil {
		t.Skip("objcopy is not installed: debug information cannot be taken apart")
	}
	dir := filepath.Join(filepath.Dir(path), ".debug")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	debug := filepath.Join(dir, "args")
	run(t, dir, "objcopy", "--only-keep-debug", path, debug)
	run(t, dir, "objcopy", "--strip-debug", path)
	got, err := new(Resolver).Find("uprobe:" + path + ":values n")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got[0].Args, want[0].Args) {
		t.Errorf("%v, want %v", got[0].Args, want[0].Args)
	}
	if err := os.Remove(debug); err != nil {
		t.Fatal(err)
	}
	if l, err := new(Resolver).Find("uprobe:" + path + ":values n"); err == nil ||
		!strings.Contains(err.Error(), "has no DWARF") {
		t.Errorf("without debug information: %v, %v", l, err)
	}
	if l, err := new(Resolver).Find("uprobe:" + path + ":values $arg1 @global"); err != nil || len(l[0].Args) != 2 {
		t.Errorf("registers and symbols need none: %v, %v", l, err)
	}
}

// TestArgsOfGoProgram reads strings and slices, which are in several registers.
func TestArgsOfGoProgram(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the registers are those of amd64")
	}
	path := argsGo.Path(t)
	for words, want := range map[string]string{
		"t->n k":              "n=+16(%ax):s64 k=%r9:s64",
		"s.str:string s.len":  "str=+0(%bx):string len=%cx:s64",
		"b.array:u8[3] b.cap": "array=+0(%di):u8[3] cap=%r8:s64",
		"t->name.str:string":  "str=+0(+0(%ax)):string",
		"s:string":            "s_string=+0(%bx):x64[32] s_string__len=%cx:u64",
		"s":                   "s=+0(%bx):x64[32] s__len=%cx:u64",
		"t->name:ustring":     "name=+0(+0(%ax)):x64[32] name__len=+8(%ax):u64",
		"x=b:string":          "x=+0(%di):x64[32] x__len=%si:u64",
		"b":                   "name a member (array, len, cap)",
		"$params":             "t=%ax:x64 s=+0(%bx):x64[32] s__len=%cx:u64 k=%r9:s64",
		"nosuch":              "main.(*T).Method has no variable nosuch",
	} {
		t.Run(words, func(t *testing.T) {
			l, err := new(Resolver).Find("uprobe:" + path + `:"main.(*T).Method" ` + words)
			if err != nil && !strings.Contains(err.Error(), want) || err == nil && show(l[0].Args) != want {
				t.Errorf("%v, %v, want %s", l, err, want)
			}
		})
	}
}

// TestArgsOfCXXStrings reads C++ strings, which end with a NUL wherever they are stored, and
// views, which do not.
func TestArgsOfCXXStrings(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the registers are those of amd64")
	}
	for _, p := range valuesCXXs {
		t.Run(p.String(), func(t *testing.T) {
			path := p.Path(t)
			for words, want := range map[string]string{
				"s:string":         `^s_string=\+0\(\+0\([^()]*(\([^()]*\))?\)\):string$`,
				"v:string":         `^v_string=\S+:x64\[32\] v_string__len=\S+:u64$`,
				"v":                `^v=\S+:x64\[32\] v__len=\S+:u64$`,
				"sh->label":        `^label=\S+:string$`,
				"sh->area":         `^area=\S+:x64 float$`,
				"sh->side":         `^side=\S+:x32 float$`,
				"sh->at":           `^at=\S+:x64\[3\] float$`,
				"sh->area:f64":     `^area=\S+:x64 float$`,
				"sh->area:u64":     `^area=\S+:u64$`,
				"x=+8(%di):f32[2]": `^x=\+8\(%di\):x32\[2\] float$`,
			} {
				l, err := new(Resolver).Find("uprobe:" + path + ":values " + words)
				got := fmt.Sprint(err)
				if err == nil {
					got = show(l[0].Args)
					if l[0].Args[0].Float {
						got += " float"
					}
				}
				if !regexp.MustCompile(want).MatchString(got) {
					t.Errorf("%s: %s, want %s", words, got, want)
				}
			}
			l, err := new(Resolver).Find("uretprobe:" + path + `:"returned[abi:cxx11]" $retval:string`)
			if err != nil || show(l[0].Args) != "arg1=+0(+0(%ax)):string" {
				t.Errorf("returned: %v, %v", show(l[0].Args), err)
			}
		})
	}
}

// TestVarsOfProgram compares with perf probe --vars, which sorts by type.
func TestVarsOfProgram(t *testing.T) {
	path := argsC.Path(t)
	needPerfProbe(t, path)
	l, err := new(Resolver).Variables("uprobe:"+path+":values", Where{})
	if err != nil || len(l) != 1 {
		t.Fatalf("%v, %v, want one place", l, err)
	}
	var got []string
	for _, v := range l[0].Scope.Vars {
		if v.Err == nil && !v.Global {
			got = append(got, strings.Replace(v.Type.String(), "[]", "*", 1)+"\t"+v.Name) // as perf 6.1 wrote arrays
		}
	}
	slices.Sort(got)
	var want []string
	for line := range strings.Lines(run(t, "", "perf", "probe", "-x", path, "--vars", "values")) {
		if v, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "\t\t"); ok {
			want = append(want, v)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nperf has %q", got, want)
	}
}

// TestReturnedByGo checks that a Go function's return value gets the type of the first result, or, without DWARF,
// no type.
func TestReturnedByGo(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the registers are those of amd64")
	}
	for _, c := range []struct {
		program *programs.Program
		want    string
	}{{functionsGo, "arg1=%ax:s64"}, {functionsGoBare, "arg1=%ax"}} {
		path := c.program.Path(t)
		l, err := new(Resolver).Find("uretprobe:" + path + ":main.(*T).Method $retval")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range l {
			if show(p.Args) != c.want {
				t.Errorf("%s: %s, want %s", p, show(p.Args), c.want)
			}
		}
		if len(l) != 2 {
			t.Errorf("it returns at %d places, not at 2", len(l))
		}
	}
	_, err := new(Resolver).Find("uretprobe:" + functionsGo.Path(t) + ":main.Generic[go.shape.int] $retval")
	if err == nil || !strings.Contains(err.Error(), "does not fit into one register; %ax has the first part") {
		t.Errorf("a slice: %v", err)
	}
}

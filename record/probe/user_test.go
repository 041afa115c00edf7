package probe

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gperf/record/probe/program"
)

// find returns the probes of a spec as event@symbol, by the file's functions.
func find(t *testing.T, path, place string) (l []string, err error) {
	t.Helper()
	kind, place, ok := strings.Cut(place, " ")
	if !ok {
		kind, place = "uprobe", kind
	}
	var f Resolver
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
		t.Run(c.place, func(t *testing.T) {
			if l, err := find(t, c.path, c.place); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s of %s: %v, %v; want %q", c.place, c.path, l, err, c.want)
			}
		})
	}
}

// TestFindMissedCalls checks that a probe at a function reports, once, the calls that do not get there: inlined calls,
// and those of the compiler's copies.
func TestFindMissedCalls(t *testing.T) {
	path := functionsC.Path(t)
	for _, c := range []struct{ place, want string }{
		{"twice", `probe "uprobe:PATH:twice" misses inlined calls (1: main+`},
		{"copied", `probe "uprobe:PATH:copied" misses calls of the compiler's copies ` +
			"(copied.constprop.0; probe these, too)"},
		{"copied*", ""},
		{"copied.constprop.0", ""},
		{"func_c", ""},
		{"[cft]*", `probe "uprobe:PATH:[cft]*" misses inlined calls (1: main+`},
	} {
		t.Run(c.place, func(t *testing.T) {
			var notices []string
			r := Resolver{Notice: func(err error) { notices = append(notices, err.Error()) }}
			for range 2 {
				if _, err := r.Find("uprobe:" + path + ":" + c.place); err != nil {
					t.Fatal(err)
				}
			}
			got := strings.ReplaceAll(strings.Join(notices, "\n"), path, "PATH")
			if len(notices) > 1 || got == "" != (c.want == "") || !strings.HasPrefix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestFindReplaced finds functions in the file that a process maps after an upgrade has given its name to another file.
func TestFindReplaced(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: deleted files cannot be opened")
	}
	dir := t.TempDir()
	path, link := dir+"/functions", dir+"/link"
	code, err := os.ReadFile(functionsC.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	install := func() {
		if err := os.WriteFile(path+".new", code, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	install()
	if err := os.Symlink("functions", link); err != nil {
		t.Fatal(err)
	}
	pid := startStopped(t, path)
	for _, state := range []struct {
		name   string
		change func()
		old    bool
	}{
		{"installed", func() {}, false},
		{"upgraded", install, true},
		{"removed", func() { os.Remove(path) }, true},
	} {
		state.change()
		for _, file := range []string{path, link, "functions"} {
			if _, err := os.Stat(file); err != nil && file == link {
				continue // it leads nowhere
			}
			t.Run(state.name+" "+filepath.Base(file), func(t *testing.T) {
				var notices []string
				r := Resolver{PIDs: []int{pid}, Notice: func(err error) { notices = append(notices, err.Error()) }}
				l, err := r.Find("uprobe:" + file + ":func_c")
				if err != nil {
					t.Fatal(err)
				}
				if old := strings.HasPrefix(l[0].Path, fmt.Sprintf("/proc/%d/map_files/", pid)); len(l) != 1 ||
					old != state.old || l[0].String() != "probe_functions:func_c" {
					t.Errorf("%d probes, the first is %v in %s", len(l), l[0], l[0].Path)
				}
				want := fmt.Sprintf("%s was deleted or replaced after process %d mapped it", path, pid)
				if strings.Contains(strings.Join(notices, "\n"), want) != state.old {
					t.Errorf("warned: %q", notices)
				}
			})
		}
	}
}

// startStopped starts a program that stops before its first instruction, and returns the PID.
func startStopped(t *testing.T, path string) int {
	t.Helper()
	runtime.LockOSThread() // the tracer is a thread
	cmd := exec.Command(path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		runtime.UnlockOSThread()
	})
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, 0, nil); err != nil || !status.Stopped() {
		t.Fatalf("the program did not stop: %v, %v", status, err)
	}
	return cmd.Process.Pid
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
	var e *program.FileError
	if _, err := new(Resolver).Find("uprobe:" + path + ":main"); !errors.As(err, &e) ||
		!strings.Contains(err.Error(), "it is for RISCV, this machine is ") {
		t.Error(err)
	}
}

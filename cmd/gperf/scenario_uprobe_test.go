package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"gperf/format"
	"gperf/internal/testutil/programs"
)

// Users' tasks with probes in programs, on the kernel that runs.

const probed = "../../record/probe/testdata/"

var (
	functionsC     = programs.C(probed+"functions.c", "-O1", "-fomit-frame-pointer", "-fno-optimize-sibling-calls")
	functionsFP    = programs.C(probed+"functions.c", "-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
	functionsS     = programs.C(probed+"functions.c", "-O1", "-s")
	functionsDebug = programs.C(probed+"functions.c", "-O1", "-g")
	functionsGo    = programs.Go(probed + "functions.go")
	usdtC          = programs.C(probed+"usdt.c", "-O1")
	insideC        = programs.C(probed+"who.c", "-O1", "-DWHO=inside")
	outsideC       = programs.C(probed+"who.c", "-O1", "-DWHO=outside")
)

// Registers of calls: the values that Go and C return, the second argument of Go, the first of C.
var returned, second, first = registers()

func registers() (returned, second, first string) {
	if runtime.GOARCH == "arm64" {
		return "%x0", "%x1", "%x0"
	}
	return "%ax", "%bx", "%di"
}

// scripted is the output of gperf script for the recording in dir.
func scripted(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.Command(binary(t, "./cmd/gperf"),
		append([]string{"script", "-i", filepath.Join(dir, "perf.data")}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("gperf script: %v\n%s", err, out)
	}
	return string(out)
}

// samplesOf are the samples in script's text, each with a stack.
func samplesOf(text string) []string {
	return strings.Split(strings.Trim(text, "\n"), "\n\n") // without a tab, the first frame is no frame
}

func TestScenarioStacks(t *testing.T) {
	needProbes(t, "uprobe")
	for _, c := range []struct {
		name    string
		program *programs.Program
		args    []string
		needBPF bool
	}{
		{"without frame pointers, by dwarf", functionsC, []string{"-g"}, true},
		{"with frame pointers, by dwarf", functionsFP, []string{"-g"}, true},
		{"with frame pointers, by fp", functionsFP, []string{"--call-graph", "fp"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, program := t.TempDir(), c.program.Path(t)
			r := mustRecord(t, dir, append(c.args, "-e", "uprobe:"+program+":func_c", "--", program)...)
			if c.needBPF && !strings.Contains(r.stderr, "User stacks: ") {
				t.Skipf("no BPF program can be loaded here:\n%s", r.stderr)
			}
			samples := samplesOf(scripted(t, dir, "-F", "event,ip,sym"))
			// A function's first instruction is reached before the function makes a frame.
			whole := regexp.MustCompile(
				`probe_functions:func_c: *\n.* func_c\n.* func_b\n.* func_a\n.* main\n(.*\n)*.* _start$`)
			if !c.needBPF {
				whole = regexp.MustCompile(`probe_functions:func_c: *\n.* func_c\n(.* func_b\n)?.* func_a\n.* main\n`)
			}
			if len(samples) != 5 {
				t.Errorf("%d samples, the program calls func_c 5 times", len(samples))
			}
			for _, s := range samples {
				if !whole.MatchString(s) {
					t.Errorf("the stack is not whole:\n%s", s)
				}
			}
		})
	}
}

func TestScenarioReturnValues(t *testing.T) {
	needProbes(t, "uprobe")
	dir, program := t.TempDir(), functionsC.Path(t)
	mustRecord(t, dir, "-e", "uretprobe:"+program+":func_c got=$retval:s32", "--", program)
	got := regexp.MustCompile(`got=-?\d+`).FindAllString(scripted(t, dir), -1)
	if want := "got=2 got=3 got=4 got=5 got=6"; strings.Join(got, " ") != want {
		t.Errorf("func_c returns %v, want %s", got, want)
	}
}

// The stack of a process that gperf does not know yet is copied, with the return addresses that the
// kernel replaced.
func TestScenarioReturnsOfNewProcess(t *testing.T) {
	needProbes(t, "uprobe")
	if runtime.GOARCH != "amd64" {
		t.Skip("return addresses are at an unknown place of the stack")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "functions") // which no other test runs
	copyFile(t, functionsC.Path(t), program)
	r := mustRecord(t, dir, "-a", "-g", "-e", "uprobe:"+program+":func_c", "-e", "uretprobe:"+program+":func_b",
		"-e", "uretprobe:"+program+":func_a", "--", "sh", "-c", program)
	stacks := regexp.MustCompile(`func_c\+0x\S+ .*\n.*func_b\+0x\S+ .*\n.*func_a\+0x\S+ .*\n.*main\+`)
	text := scripted(t, dir, "-F", "ip,sym,symoff,dso")
	if n := len(stacks.FindAllString(text, -1)); n != 5 || strings.Contains(text, "uprobes]") {
		t.Errorf("%d of 5 stacks are complete:\n%s\n%s", n, r.stderr, text)
	}
}

func TestScenarioGo(t *testing.T) {
	needProbes(t, "uprobe")
	dir, program := t.TempDir(), functionsGo.Path(t)
	mustRecord(t, dir, "-e", `uprobe:`+program+`:"main.(*T).Method" a=`+second+`:s64`, "--", program)
	text := scripted(t, dir)
	for a := range 5 {
		// A goroutine starts the function again after its stack grew, or after preemption at the probe.
		if n := strings.Count(text, fmt.Sprintf("probe_functions:main_T_Method: (%s) a=%d\n", firstAddress(text),
			a)); n < 1 || n > 2 {
			t.Errorf("Method(%d) is called %d times in:\n%s", a, n, text)
		}
	}
	// Where a function returns while its stack moves, a uretprobe would crash the program.
	r := mustRecord(t, dir, "-e", "uretprobe:"+program+":main.* got="+returned+":s64", "--", program)
	text = scripted(t, dir)
	var got []string
	for _, m := range regexp.MustCompile(`main_T_Method__return(?:_1)?: \(.*\) got=(\d+)`).FindAllStringSubmatch(text,
		-1) {
		got = append(got, m[1])
	}
	if want := "103 104 105 3 4"; strings.Join(got, " ") != want {
		t.Errorf("Method returns %v, want %s\n%s%s", got, want, r.stderr, text)
	}
}

func firstAddress(text string) string {
	m := regexp.MustCompile(`\(([0-9a-f]+)\)`).FindStringSubmatch(text)
	if m == nil {
		return "?"
	}
	return m[1]
}

func TestScenarioLibrary(t *testing.T) {
	needProbes(t, "uprobe")
	dir, program := t.TempDir(), functionsC.Path(t)
	t.Run("IFUNC", func(t *testing.T) {
		r := recordIn(t, dir, "-e", "uprobe:libc:strl*", "--", program)
		if strings.Contains(r.stderr, "on this architecture the choice can only be read from a running process") {
			t.Skipf("cannot find which strlen programs call:\n%s", r.stderr)
		}
		text := scripted(t, dir)
		if n := strings.Count(text, "probe_libc:strlen: "); n < 5 {
			t.Errorf("strlen is called %d times, at least 5 times by the program\n%s%s", n, r.stderr, text)
		}
	})
	mustRecord(t, dir, "-e", "uprobe:libc.so.6:strn*", "true")
	for _, name := range []string{"strnlen", "strncmp", "strndup"} {
		if out := evlistOf(t, dir); !strings.Contains(out, "probe_libc:"+name+"\n") {
			t.Errorf("%s is not probed:\n%s", name, out)
		}
	}
}

func evlistOf(t *testing.T, dir string) string {
	t.Helper()
	out, _ := gperf(t, "evlist", "-i", filepath.Join(dir, "perf.data"))
	return out
}

// The same path is another file in another mount namespace.
func TestScenarioMountNamespace(t *testing.T) {
	needProbes(t, "uprobe")
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("unshare is not installed (package util-linux)")
	}
	dir := t.TempDir()
	box := filepath.Join(dir, "box")
	for _, d := range []string{box, filepath.Join(dir, "inner")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(t, outsideC.Path(t), filepath.Join(box, "prog"))
	copyFile(t, insideC.Path(t), filepath.Join(dir, "inner/real"))
	if err := os.Symlink(filepath.Join(box, "real"), filepath.Join(dir, "inner/prog")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(unshare, "-m", "sh", "-c",
		"mount --bind "+dir+"/inner "+box+" && echo mounted && exec "+box+"/prog")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if n, _ := out.Read(make([]byte, 16)); n == 0 {
		t.Skip("no mount namespace can be made here (CAP_SYS_ADMIN)")
	}
	pid := fmt.Sprint(cmd.Process.Pid)
	for waited := 0; ; waited++ {
		if exe, _ := os.Readlink("/proc/" + pid + "/exe"); filepath.Base(exe) == "real" {
			break
		}
		if waited > 1000 {
			t.Fatal("the program does not start")
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, args := range [][]string{
		{"-e", "uprobe:" + box + "/prog:inside", "-p", pid},
		{"-e", "uprobe:real:inside", "-p", pid},
		{"-e", "uprobe:/proc/" + pid + "/root" + box + "/prog:inside", "-a"},
	} {
		mustRecord(t, dir, append(args, "--call-graph", "fp", "--", "sleep", "0.2")...)
		text := scripted(t, dir)
		if strings.Contains(text, "probe_real:inside: ") && !buildIDs(t, filepath.Join(dir, "perf.data")) {
			continue // before Linux 5.12, no build ID identifies the mapped file
		}
		if !strings.Contains(text, "probe_real:inside: ") || !strings.Contains(text, " inside+0x0 ("+box+"/real)") {
			t.Errorf("%v: there are no samples of inside, or its name is not found:\n%.1000s", args, text)
		}
	}
	if r := recordIn(t, dir, "-e", "uprobe:"+box+"/prog:outside", "-p", pid, "--", "true"); r.code != exitUsage {
		t.Errorf("what only this namespace has is found: exit code %d\n%s", r.code, r.stderr)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// During the recording, the semaphore shows the program that its USDT probe is active.
func TestScenarioUSDT(t *testing.T) {
	needProbes(t, "uprobe")
	dir, program := t.TempDir(), usdtC.Path(t)
	r := mustRecord(t, dir, "-e", "usdt:"+program+":shop:sale", "--", program)
	if r.stdout != "watched 3\n" {
		t.Errorf("the program says: %q", r.stdout)
	}
	text := scripted(t, dir)
	for i := range 3 {
		if want := fmt.Sprintf(" arg1=%d arg2=%d arg3=-7\n", i, 42+2*i); !strings.Contains(text, want) {
			t.Errorf("no sample with%s%s", want, text)
		}
	}
	if out, err := exec.Command(program).Output(); err != nil || string(out) != "watched 0\n" {
		t.Errorf("after the recording: %q, %v", out, err)
	}
}

// Stock perf prints the same text as gperf.
func TestScenarioPerfReadsProbes(t *testing.T) {
	needProbes(t, "uprobe")
	o := needOracle(t)
	dir, program, mark := t.TempDir(), functionsC.Path(t), usdtC.Path(t)
	mustRecord(t, dir, "-e", "uprobe:"+program+":func_* n="+first+":s32,uretprobe:"+program+":func_c got=$retval", "-e",
		"uprobe:libc:printf,usdt:"+mark+":sale",
		"--", "sh", "-c", program+"; "+mark)
	file := filepath.Join(dir, "perf.data")
	want, err := o.run(t, "script", "--no-inline", "-i", file)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := gperf(t, "script", "--no-inline", "--compat", o.compat, "-i", file)
	sameText(t, "script", got, want)
	for _, event := range []string{"probe_functions:func_a", "probe_functions:func_c__return",
		"probe_libc:printf", "sdt_shop:sale"} {
		if !strings.Contains(want, " "+event+": ") {
			t.Errorf("perf has no sample of %s", event)
		}
	}
}

// buildIDs reports whether the kernel put build IDs into a recording's mmap records.
func buildIDs(t *testing.T, file string) bool {
	t.Helper()
	for _, a := range read(t, file).Attrs {
		if a.Flags&format.FlagBuildID != 0 {
			return true
		}
	}
	return false
}

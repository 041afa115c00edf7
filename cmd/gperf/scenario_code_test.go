package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

// Stacks through code without CFI: functions made at run time, V8's builtins, CPython's trampolines.

var madeCode = programs.C("../../unwind/testdata/jit.c", "-O2", "-fomit-frame-pointer")

// madeChain is the stack in madeCode's function work, the innermost function first; "" is a function made at run time.
var madeChain = []string{"work", "inner", "", "inner", "", "inner", "", "call", "main"}

// chainsOf returns the names of each sample's functions, "" for unknown ones.
func chainsOf(text string) (chains [][]string) {
	frame := regexp.MustCompile(`(?m)^\s+[0-9a-f]+ (.*)$`)
	for _, s := range samplesOf(text) {
		var chain []string
		for _, m := range frame.FindAllStringSubmatch(s, -1) {
			chain = append(chain, strings.TrimSuffix(m[1], "[unknown]"))
		}
		chains = append(chains, chain)
	}
	return chains
}

// The functions of 500 generations of code are at the same addresses but different frames: an answer for one is wrong
// for the next.
func TestScenarioMadeCode(t *testing.T) {
	needProbes(t, "uprobe")
	dir, program := t.TempDir(), madeCode.Path(t)
	const generations = 500
	r := mustRecord(t, dir, "-v", "-g", "-e", "uprobe:"+program+":work", "--", program, strconv.Itoa(generations),
		strconv.Itoa(patience(500)))
	chains := chainsOf(scripted(t, dir, "-F", "ip,sym"))
	if len(chains) != generations {
		t.Errorf("%d samples of %d generations", len(chains), generations)
	}
	// The first ones are copied, and walked when the program's table is built: by then other functions are there. The
	// program waits after the first, but a busy machine takes longer to build tables.
	copied := 0
	for _, m := range regexp.MustCompile(`(\d+) stacks? unwound in user space`).FindAllStringSubmatch(r.stderr, -1) {
		n, _ := strconv.Atoi(m[1])
		copied += n
	}
	if copied > generations/2 {
		t.Fatalf("%d of %d stacks were copied:\n%s", copied, generations, r.stderr)
	}
	wrong := 0
	for i, c := range chains[max(1, copied):] {
		if len(c) <= len(madeChain) || !slices.Equal(c[:len(madeChain)], madeChain) || c[len(c)-1] != "_start" {
			if wrong++; wrong <= 5 {
				t.Errorf("generation %d: %q", max(1, copied)+i, c)
			}
		}
	}
}

// Samples at all instructions: a function may be left out, but no frame is wrong.
func TestRecordMadeCode(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	r := mustRecord(t, dir, "-g", "-e", "cpu-clock:u", "-F", "2000", "--", madeCode.Path(t), "3000000", "0", "5")
	if !strings.Contains(r.stderr, "User stacks: ") {
		t.Skipf("no BPF program can be loaded here:\n%s", r.stderr)
	}
	inside, exact, wrong := 0, 0, 0
	for _, c := range chainsOf(scripted(t, dir, "-F", "ip,sym")) {
		end := slices.Index(c, "main")
		if end < 0 || !slices.Contains(c[:end], "call") {
			continue // starts, or makes functions
		}
		inside++
		switch c = c[:end+1]; {
		case slices.Equal(c, madeChain[len(madeChain)-len(c):]):
			exact++
		case !isSubsequence(c, madeChain):
			if wrong++; wrong <= 5 {
				t.Errorf("a wrong frame in %q", c)
			}
		}
	}
	if inside < 10 || exact < inside*8/10 {
		t.Errorf("of %d stacks, %d are exact", inside, exact)
	}
}

func isSubsequence(part, of []string) bool {
	for _, s := range of {
		if len(part) > 0 && part[0] == s {
			part = part[1:]
		}
	}
	return len(part) == 0
}

func TestStacksOfNode(t *testing.T) {
	needEvents(t)
	needPrograms(t, "node")
	const script = `
		const cpu = () => process.cpuUsage().user / 1e6, end = cpu() + 2;
		function ccc(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) % 1000003; return s; }
		function bbb(n) { let r = 0; for (let i = 0; i < 20; i++) r += ccc(n + i); return r + 1; }
		function aaa(n) { let r = 0; for (let i = 0; i < 5; i++) r += bbb(n + i); return r + 1; }
		for (let z = 0; cpu() < end; ) z += aaa(500);
		console.log(process.pid);`
	for _, option := range []string{"--interpreted-frames-native-stack", "--always-sparkplug", "--opt"} {
		t.Run(option, func(t *testing.T) {
			js := filepath.Join(t.TempDir(), "abc.js")
			if err := os.WriteFile(js, []byte(script), 0o644); err != nil {
				t.Fatal(err)
			}
			inlines := option == "--opt"
			args := []string{"--perf-basic-prof", option, js}
			if !inlines {
				args = slices.Insert(args, 0, "--no-opt")
			}
			chains := recordRuntime(t, append([]string{"node"}, args...)...)
			checkOrder(t, chains, inlines, regexp.MustCompile(`^JS:.(aaa|bbb|ccc) `))
		})
	}
}

func TestStacksOfPythonPerf(t *testing.T) {
	needEvents(t)
	const script = `
import os, time
end = time.process_time() + 2
def ccc(n):
    s = 0
    for i in range(n): s = (s * 31 + i) % 1000003
    return s
def bbb(n): return sum([ccc(n + i) for i in range(20)])
def aaa(n): return bbb(n) + 1
while time.process_time() < end: aaa(500)
print(os.getpid())`
	python := ""
	for _, name := range []string{"python3", "python3.12", "python3.13", "python3.14"} {
		check := exec.Command(name, "-X", "perf", "-c", "import sys; sys.exit(not sys.is_stack_trampoline_active())")
		if check.Run() == nil {
			python = name
		}
	}
	if python == "" {
		t.Skip("there is no Python 3.12 or later that writes perf maps")
	}
	chains := recordRuntime(t, python, "-X", "perf", "-c", script)
	checkOrder(t, chains, false, regexp.MustCompile(`^py::(aaa|bbb|ccc):`))
}

// recordRuntime records a program, which prints its pid, and returns the chains of the samples, with the names that the
// program writes itself. 95 of 100 must be complete.
func recordRuntime(t *testing.T, command ...string) [][]string {
	t.Helper()
	dir := t.TempDir()
	flags := []string{"-g", "--no-runtimes", "-e", "cpu-clock", "-F", "999", "--"}
	r := mustRecord(t, dir, append(flags, command...)...)
	if pid, err := strconv.Atoi(strings.TrimSpace(r.stdout)); err == nil {
		defer os.Remove("/tmp/perf-" + strconv.Itoa(pid) + ".map")
	}
	m := regexp.MustCompile(`User stacks: \d+ complete \(([\d.]+)%\)`).FindStringSubmatch(r.stderr)
	if m == nil {
		t.Skipf("no BPF program can be loaded here:\n%s", r.stderr)
	}
	if percent, _ := strconv.ParseFloat(m[1], 64); percent < 95 {
		t.Error(r.stderr)
	}
	return chainsOf(scripted(t, dir, "-F", "ip,sym"))
}

// checkOrder checks that ccc's callers are bbb and aaa, in 95 of 100 stacks, and that it is in most, because it takes
// most of the time. If functions may be inlined, some of the three may be missing.
func checkOrder(t *testing.T, chains [][]string, inlined bool, name *regexp.Regexp) {
	t.Helper()
	order := []string{"ccc", "bbb", "aaa"}
	total, right, deep := 0, 0, 0
	for _, c := range chains {
		var got []string
		for _, f := range c {
			if m := name.FindStringSubmatch(f); m != nil {
				got = append(got, m[1])
			}
		}
		if len(got) == 0 {
			continue
		}
		total++
		if slices.Equal(got, order[max(0, len(order)-len(got)):]) || inlined && isSubsequence(got, order) {
			right++
		}
		if got[0] == order[0] {
			deep++
		}
	}
	if total < 100 || right < total*95/100 || !inlined && deep < total*9/10 {
		t.Errorf("of %d stacks with these functions, %d have them in order, %d have %s", total, right, deep, order[0])
	}
}

var copiedCode = programs.C("../../testdata/programs/copied.c", "-O2", "-fno-omit-frame-pointer")

// Code that a program copied to memory at the same addresses gets the names and the unwind information of the file,
// and other code there gets none.
func TestScenarioCopiedCode(t *testing.T) {
	needEvents(t)
	program := copiedCode.Path(t)
	for _, how := range []string{"anonymous", "memfd", "mremap", "other"} {
		t.Run(how, func(t *testing.T) {
			for _, graph := range []string{"dwarf", "fp"} {
				dir := t.TempDir()
				mustRecord(t, dir, "-e", "cpu-clock:u", "-F", "499", "--call-graph", graph, "--", program, how, "500")
				checkCopied(t, dir, graph, how)
			}
		})
	}
	t.Run("attach", func(t *testing.T) {
		cmd := exec.Command(program, "anonymous", "600000")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
		bufio.NewReader(out).ReadString('\n')
		for _, graph := range []string{"dwarf", "fp"} {
			dir := t.TempDir()
			mustRecord(t, dir, append([]string{"-e", "cpu-clock:u", "-F", "499", "--call-graph", graph,
				"-p", strconv.Itoa(cmd.Process.Pid), "--"}, untilUsed(cmd.Process.Pid, 500)...)...)
			checkCopied(t, dir, graph, "attached")
		}
	})
}

// checkCopied checks the stacks of copied.c. Frame pointers leave out the caller of the innermost function.
func checkCopied(t *testing.T, dir, graph, how string) {
	t.Helper()
	chains := chainsOf(scripted(t, dir, "-F", "ip,sym"))
	named, right := 0, 0
	for _, c := range chains {
		switch {
		case !slices.Contains(c, "hot_leaf"):
			continue
		case graph == "fp" || len(c) > 2 && slices.Equal(c[:3], []string{"hot_leaf", "hot_middle", "main"}):
			right++
		}
		named++
	}
	switch {
	case how == "other" && named > 0:
		t.Errorf("%s: %d of %d stacks have functions whose code is not there", graph, named, len(chains))
	case how != "other" && (len(chains) < 20 || right < len(chains)*9/10):
		t.Errorf("%s, %s: of %d stacks, %d have the copied functions, %d with their callers",
			how, graph, len(chains), named, right)
	}
}

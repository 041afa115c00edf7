package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/internal/dso"
)

// pythonSource is a program with known functions.
const pythonSource = "testdata/functions.py"

// pythons returns the interpreters to test.
func pythons(t *testing.T) []string {
	return runtimesOf(t, "/usr/bin/python3", "python3", "GPERF_PYTHONS")
}

// pythonProgram returns the absolute path of the program, and gives the test a build-ID cache of its own.
func pythonProgram(t *testing.T) string { return knownProgram(t, filepath.Base(pythonSource)) }

// pythonStacks returns the functions of all samples, the innermost first, with the names in the program's lines.
func pythonStacks(t *testing.T, data string) [][]knownCall {
	stacks := functionStacks(t, data)
	for _, stack := range stacks {
		for i := range stack {
			c := &stack[i]
			name := c.function[strings.LastIndexByte(c.function, '.')+1:]
			switch {
			case strings.HasPrefix(name, "long_xxx") && len(name) == len("long_")+900:
				name = "long"
			case strings.HasPrefix(name, "made_") && strings.HasPrefix(filepath.Base(c.file), name+".py"),
				strings.HasPrefix(filepath.Base(c.file), "made_") && name == "<module>":
				name = "made"
			}
			c.function = name
		}
	}
	return stacks
}

// right reports whether each function of a stack is at a line of its own that calls the one before. known is false for
// stacks of Python's own modules.
func right(stack []knownCall, lines map[int]knownLine) (known, ok bool) {
	called := ""
	for _, c := range stack {
		switch {
		case c.function == "long" || c.function == "made":
			if called != "" && called != "spin" {
				return known, false
			}
			known = true
		case filepath.Base(c.file) == filepath.Base(pythonSource):
			l := lines[c.line]
			if known = true; l.function != c.function || called != "" && !slices.Contains(l.calls, called) {
				return true, false
			}
		case known && strings.HasSuffix(c.file, "threading.py"):
			return true, true
		default:
			return known, false
		}
		called = c.function
	}
	return known, known
}

// Python's functions are named, with lines, in gperf's and perf's output, whichever way they run: calls without a call
// in C, recursion, generators, coroutines, threads, code that is made and freed again, and long and non-ASCII names.
func TestScenarioPythonFunctions(t *testing.T) {
	program := pythonProgram(t)
	lines := knownLines(t, pythonSource, "  # ")
	for _, python := range pythons(t) {
		t.Run(filepath.Base(python), func(t *testing.T) {
			dir := t.TempDir()
			r := mustRecord(t, dir, "-o", "p.data", "-e", "cpu-clock", "-F", "499", "-g", "--", python, program, "2")
			var j judged
			for _, stack := range pythonStacks(t, filepath.Join(dir, "p.data")) {
				known, ok := right(stack, lines)
				if !known {
					continue
				}
				j.add(stack, ok)
			}
			j.check(t, r.stderr, "spin", "deep", "berechne_größe_数", "values", "wait_for", "key", "long", "made",
				"thread")
		})
	}
}

// Recordings with Python functions print the same names after each way: in an archive, through a pipe, without the
// cache, and in perf.
func TestScenarioPythonElsewhere(t *testing.T) {
	program, elsewhere := pythonProgram(t), t.TempDir()
	python := pythons(t)[0]
	dir := t.TempDir()
	data := filepath.Join(dir, "p.data")
	mustRecord(t, dir, "-o", data, "-e", "cpu-clock", "-F", "499", "-g", "--", python, program, "1")
	names := func(path string) string {
		out, _ := gperf(t, "script", "-F", "ip,sym,srcline", "-i", path)
		return out
	}
	here := names(data)
	if !strings.Contains(here, "spin") {
		t.Fatalf("no function spin:\n%.2000s", here)
	}
	if perf, err := exec.LookPath("perf"); err == nil {
		out, err := exec.Command(perf, "script", "--force", "-F", "ip,sym", "-i", data).Output()
		if err != nil || !bytes.Contains(out, []byte("deep")) || !bytes.Contains(out, []byte("berechne_größe_数")) {
			t.Errorf("perf names no functions (%v):\n%.2000s", err, out)
		}
	}
	packed := filepath.Join(dir, "p.zip")
	gperf(t, "archive", "-i", data, "-o", packed)
	t.Setenv("HOME", elsewhere)
	if got := names(packed); got != here {
		t.Errorf("the archive has other names:\n%.500s\nwant\n%.500s", got, here)
	}
	if got := names(data); strings.Contains(got, "deep") {
		t.Errorf("names are known without the cache:\n%.500s", got)
	}
	mustRecord(t, dir, "-N", "-o", data, "-e", "cpu-clock", "-F", "499", "-g", "--", python, program, "1")
	if got := names(data); !strings.Contains(got, "deep") {
		t.Errorf("-N: no function deep:\n%.500s", got)
	}
	if kept, _ := filepath.Glob(filepath.Join(elsewhere, ".debug", dso.PythonName, "*")); len(kept) > 0 {
		t.Errorf("-N stored %v", kept)
	}
	mustRecord(t, dir, "--no-runtimes", "-o", data, "-e", "cpu-clock", "-F", "499", "-g", "--",
		python, program, "1")
	if got := names(data); strings.Contains(got, "deep") {
		t.Errorf("--no-runtimes: functions are named:\n%.500s", got)
	}
}

// Waits show the Python functions that wait, in proportion to the time.
func TestScenarioPythonWaits(t *testing.T) {
	pythonProgram(t)
	dir := t.TempDir()
	program, data := filepath.Join(dir, "waits.py"), filepath.Join(dir, "p.data")
	text := "import time\ndef short():\n    time.sleep(0.01)\ndef long():\n    time.sleep(0.03)\n" +
		"for _ in range(25):\n    short()\n    long()\n"
	if err := os.WriteFile(program, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := recordIn(t, dir, "--off-cpu", "-o", data, "-g", "--", pythons(t)[0], program); r.code != exitOK {
		t.Skipf("waits cannot be recorded: %s", r.stderr)
	}
	folded, _ := gperf(t, "report", "--format", "folded", "--no-native", "-i", data)
	weight := map[string]int{}
	for line := range strings.Lines(folded) {
		stack, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.Atoi(count)
		for _, f := range []string{"short", "long"} {
			if strings.Contains(stack+";", ";<module>;"+f+";") {
				weight[f] += n
			}
		}
	}
	if ratio := float64(weight["long"]) / float64(max(1, weight["short"])); ratio < 1.5 || ratio > 3.5 {
		t.Errorf("waits of %v ns:\n%s", weight, folded)
	}
}

// --no-native shows Python functions and the kernel alone.
func TestScenarioPythonNoNative(t *testing.T) {
	program := pythonProgram(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "p.data")
	mustRecord(t, dir, "-o", data, "-e", "cpu-clock", "-F", "499", "-g", "--", pythons(t)[0], program, "1")
	report := func(flags ...string) string {
		all := append([]string{"report", "--stdio", "--no-children", "-g", "none", "-i", data}, flags...)
		out, _ := gperf(t, all...)
		return out
	}
	first := func(text string) string {
		for line := range strings.Lines(text) {
			if strings.Contains(line, "%") && !strings.HasPrefix(line, "#") {
				return line
			}
		}
		return ""
	}
	if got := first(report("--no-native")); !strings.Contains(got, "[python]") || !strings.Contains(got, "spin") {
		t.Errorf("--no-native: the first entry is %q", got)
	}
	if got := first(report()); strings.Contains(got, "[python]") {
		t.Errorf("without --no-native: the first entry is %q", got)
	}
	folded, _ := gperf(t, "report", "--format", "folded", "--no-native", "-i", data)
	for line := range strings.Lines(folded) {
		if strings.Contains(line, ";deep;") && strings.Contains(line, "_PyEval") {
			t.Errorf("a native frame is shown: %s", line)
			break
		}
	}
}

// The native stack of a greenlet continues with the callers of its start: the functions of these callers are not in the
// list of the thread that runs, and must not be replaced by the greenlet's functions.
func TestScenarioPythonGreenlets(t *testing.T) {
	needEvents(t)
	source, err := filepath.Abs("testdata/greenlets.py")
	if err != nil {
		t.Fatal(err)
	}
	const eval = "_PyEval_EvalFrameDefault"
	known := []string{
		"E work key E child E", // a key function, which list.sort calls
		"E work inner E E",     // a greenlet that another one started
		"E work <module>",      // the main greenlet
	}
	tried := 0
	for _, python := range pythons(t) {
		if exec.Command(python, "-c", "import greenlet").Run() != nil {
			continue
		}
		tried++
		t.Run(python, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			dir := t.TempDir()
			r := mustRecord(t, dir, "-g", "-e", "cpu-clock:u", "-F", "499", "--", python, source, "100")
			if !strings.Contains(r.stderr, "User stacks: ") {
				t.Skipf("no BPF program can be loaded here:\n%s", r.stderr)
			}
			seen, other := map[string]int{}, map[string]int{}
			samples := chainsOf(scripted(t, dir, "-F", "ip,sym"))
			for _, chain := range samples {
				var l []string
				for _, name := range chain {
					switch name {
					case eval:
						l = append(l, "E")
					case "work", "key", "child", "inner", "outer", "<module>":
						l = append(l, name)
					}
				}
				switch i := slices.Index(l, "work"); {
				case i < 0:
				case slices.Contains(known, strings.Join(l, " ")):
					seen[strings.Join(l, " ")]++
				default:
					other[strings.Join(l, " ")]++
				}
			}
			wrong := 0
			for _, n := range other {
				wrong += n
			}
			for _, want := range known {
				if seen[want] < 5 {
					t.Errorf("%d samples of %s", seen[want], want)
				}
			}
			if wrong > len(samples)/100 {
				t.Errorf("%d of %d samples are wrong: %v", wrong, len(samples), other)
			}
		})
	}
	if tried == 0 {
		t.Skip("no Python has greenlet (Debian: python3-greenlet)")
	}
}

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// nodeSource is a program with known functions.
const nodeSource = "testdata/functions.js"

// nodeLines are the lines of the program with a comment.
type nodeLines map[int]knownLine

// nodeFrame matches the two lines of a frame of JavaScript, with symbol and source line.
var nodeFrame = regexp.MustCompile(`(?m)^\s+4[0-9a-f]{12} (.*)\n\s+(.*?)(?::(\d+))?$`)

// right reports whether each function of a stack is at a line of its own that calls the one before. known is false for
// stacks of other scripts.
func (l nodeLines) right(block string) (known, ok bool) {
	called := ""
	for _, m := range nodeFrame.FindAllStringSubmatch(block, -1) {
		name, at := m[1], 0
		if m[3] != "" {
			at, _ = strconv.Atoi(m[3])
		}
		switch file := filepath.Base(m[2]); {
		case file == "(eval)", name == "evaluated": // made by the program from a string
			if called != "" && called != "spin" {
				return true, false
			}
			called = "made"
			if name == "evaluated" {
				called = name
			}
		case file == filepath.Base(nodeSource) && name != "(anonymous)":
			if strings.HasPrefix(name, "long_xxx") && len(name) == len("long_")+900 {
				name = "long"
			}
			line := l[at]
			if line.function != name || called != "" && !slices.Contains(line.calls, called) {
				return true, false
			}
			called = name
		default:
			return known, known
		}
		known = true
	}
	return known, known
}

// trampolineRow matches the row of the builtin that interprets functions, with whole percents.
var trampolineRow = regexp.MustCompile(`(?m)^ +(\d+)\.\d+% .*Builtins_InterpreterEntryTrampoline`)

// JavaScript's functions are named, with lines, whichever part of V8 runs them: the interpreter, compiled code,
// builtins, recursion, classes, generators, async functions, code from strings, and long and non-ASCII names.
func TestScenarioNodeFunctions(t *testing.T) {
	program := knownProgram(t, filepath.Base(nodeSource))
	lines := nodeLines(knownLines(t, nodeSource, "  // "))
	for _, node := range runtimesOf(t, "node", "nodejs", "GPERF_NODES") {
		for _, flag := range []string{"--no-warnings", "--jitless"} {
			dir := t.TempDir()
			data := filepath.Join(dir, "p.data")
			mustRecord(t, dir, "-o", data, "-e", "cpu-clock", "-F", "499", "-g", "--", node, flag, program, "1")
			out, _ := gperf(t, "script", "-F", "ip,sym,srcline", "--full-source-path", "-i", data)
			n, good := 0, 0
			wrong := ""
			seen := map[string]bool{}
			for _, block := range strings.Split(out, "\n\n") {
				known, ok := lines.right(block)
				if !known {
					continue
				}
				for _, m := range nodeFrame.FindAllStringSubmatch(block, -1) {
					seen[m[1]] = true
				}
				if n++; ok {
					good++
				} else {
					wrong = block
				}
			}
			t.Logf("%s %s: %d of %d stacks are right", node, flag, good, n)
			if n < 20 || good*100 < n*95 {
				t.Errorf("%s %s: %d of %d stacks are right; wrong:\n%s", node, flag, good, n, wrong)
			}
			for _, name := range []string{"main", "spin", "berechne_größe_数"} {
				if n >= 100 && !seen[name] {
					t.Errorf("%s %s: no %s", node, flag, name)
				}
			}
			out, _ = gperf(t, "report", "--no-native", "--no-children", "--sort", "sym", "-g", "none", "-i", data)
			// A stack contains no function if the first one was just called.
			if m := trampolineRow.FindStringSubmatch(out); m != nil && m[1] != "0" || !strings.Contains(out, "spin") {
				t.Errorf("%s %s: --no-native:\n%s", node, flag, out[:min(len(out), 2000)])
			}
		}
	}
}

// v8Version matches the version that TestScenarioNodeLines asks node for.
var v8Version = regexp.MustCompile(`^(\d+)\.`)

// JavaScript's functions take as much of the time at each line as V8's own profile of the same run says: in compiled
// code, with functions that are inlined.
func TestScenarioNodeLines(t *testing.T) {
	program := knownProgram(t, "lines.js")
	for _, node := range runtimesOf(t, "node", "nodejs", "GPERF_NODES") {
		version, err := exec.Command(node, "-p", "process.versions.v8").Output()
		if err != nil {
			t.Fatal(err)
		}
		const atIP = "10" // its profiles count an instruction at an ip itself, as perf does; later ones the one before
		if m := v8Version.FindSubmatch(version); m == nil || string(m[1]) == atIP {
			continue
		}
		dir := t.TempDir()
		data := filepath.Join(dir, "p.data")
		mustRecord(t, dir, "-o", data, "-e", "cpu-clock", "-F", "999", "-g", "--", node, "--cpu-prof",
			"--cpu-prof-dir", dir, program, "3")
		theirs := v8Ticks(t, dir, filepath.Base(program))
		out, _ := gperf(t, "script", "-F", "ip,sym,srcline", "--full-source-path", "-i", data)
		ours := map[int]float64{}
		for _, block := range strings.Split(out, "\n\n") {
			m := nodeFrame.FindStringSubmatch(block)
			if m == nil || !strings.HasPrefix(strings.TrimLeft(block, "\n"), strings.TrimLeft(m[0], "\n")) ||
				filepath.Base(m[2]) != filepath.Base(program) {
				continue // in C++ code, a builtin or the kernel, or none of the program
			}
			line, _ := strconv.Atoi(m[3])
			ours[line]++
		}
		if same := overlap(ours, theirs); same < 0.9 {
			t.Errorf("%s: the shares of %.1f %% are as in V8's profile\n%v\n%v", node, 100*same, ours, theirs)
		} else {
			t.Logf("%s: the shares of %.1f %% are as in V8's profile", node, 100*same)
		}
	}
}

// v8Ticks returns the samples by line of a script in the profile that node wrote into a directory.
func v8Ticks(t *testing.T, dir, script string) map[int]float64 {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*.cpuprofile"))
	if len(files) != 1 {
		t.Fatalf("profiles: %v", files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var profile struct {
		Nodes []struct {
			CallFrame     struct{ URL string }
			PositionTicks []struct {
				Line  int
				Ticks float64
			}
		}
	}
	if err := json.Unmarshal(text, &profile); err != nil {
		t.Fatal(err)
	}
	ticks := map[int]float64{}
	for _, n := range profile.Nodes {
		for _, p := range n.PositionTicks {
			if strings.HasSuffix(n.CallFrame.URL, "/"+script) {
				ticks[p.Line] += p.Ticks
			}
		}
	}
	return ticks
}

// overlap returns the part of two distributions that is the same: 0 to 1.
func overlap(a, b map[int]float64) (same float64) {
	all := func(m map[int]float64) (sum float64) {
		for _, n := range m {
			sum += n
		}
		return sum
	}
	for k := range a {
		same += min(a[k]/all(a), b[k]/all(b))
	}
	return same
}

package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// nodeSource is a program with known functions.
const nodeSource = "testdata/functions.js"

// nodeLines are the lines of the program that have a comment.
type nodeLines map[int]knownLine

// reaches reports whether a function calls another one, or one that does.
func (l nodeLines) reaches(from, to string, depth int) bool {
	for _, line := range l {
		if line.function != from || depth == 0 {
			continue
		}
		for _, c := range line.calls {
			if c == to || c != from && l.reaches(c, to, depth-1) {
				return true
			}
		}
	}
	return false
}

// nodeFrame matches the two lines of a frame of JavaScript, with its symbol and its source line.
var nodeFrame = regexp.MustCompile(`(?m)^\s+4[0-9a-f]{12} (.*)\n\s+(.*?)(?::(\d+))?$`)

// right reports whether each function of a stack is at a line of its own, and calls the one before: perhaps through
// functions that it has inlined, unless each call must be at its line. known is false for stacks of other scripts.
func (l nodeLines) right(block string, each bool) (known, ok bool) {
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
			if line.function != name || called != "" && !slices.Contains(line.calls, called) &&
				(each || !l.reaches(name, called, 4)) {
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

// JavaScript's functions have their names and lines, whatever runs them: the interpreter, compiled code, builtins,
// recursion, classes, generators, async functions, code from strings, and long and non-ASCII names.
func TestScenarioNodeFunctions(t *testing.T) {
	program := knownProgram(t, filepath.Base(nodeSource))
	lines := nodeLines(knownLines(t, nodeSource, "  // "))
	for _, node := range runtimesOf(t, "node", "nodejs", "GPERF_NODES") {
		for _, mode := range []struct {
			flag string
			each bool // each function is interpreted: all calls have their lines
		}{{"--no-warnings", false}, {"--jitless", true}} {
			dir := t.TempDir()
			data := filepath.Join(dir, "p.data")
			mustRecord(t, dir, "-o", data, "-e", "cpu-clock", "-F", "499", "-g", "--", node, mode.flag, program, "1")
			out, _ := gperf(t, "script", "-F", "ip,sym,srcline", "--full-source-path", "-i", data)
			n, good := 0, 0
			wrong := ""
			seen := map[string]bool{}
			for _, block := range strings.Split(out, "\n\n") {
				known, ok := lines.right(block, mode.each)
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
			if n < 20 || good*100 < n*95 {
				t.Errorf("%s %s: %d of %d stacks are right; wrong:\n%s", node, mode.flag, good, n, wrong)
			}
			for _, name := range []string{"main", "spin", "berechne_größe_数"} {
				if mode.each && n >= 100 && !seen[name] { // compiled code may have it inlined
					t.Errorf("%s %s: no %s", node, mode.flag, name)
				}
			}
			out, _ = gperf(t, "report", "--no-native", "--no-children", "--sort", "sym", "-g", "none", "-i", data)
			if strings.Contains(out, "Builtins_InterpreterEntryTrampoline") || !strings.Contains(out, "spin") {
				t.Errorf("%s %s: --no-native:\n%s", node, mode.flag, out[:min(len(out), 2000)])
			}
		}
	}
}

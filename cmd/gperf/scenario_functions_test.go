package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// knownLine is the comment of a line of a program with known functions: the function, and, after >, functions
// that it calls.
type knownLine struct {
	function string
	calls    []string
}

// knownLines returns the lines of a program with such a comment, which begins with mark.
func knownLines(t *testing.T, path, mark string) map[int]knownLine {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int]knownLine{}
	for i, line := range strings.Split(string(text), "\n") {
		if _, comment, ok := strings.Cut(line, mark); ok && i > 2 {
			function, calls, _ := strings.Cut(strings.TrimSpace(comment), " > ")
			lines[i+1] = knownLine{function, strings.Fields(calls)}
		}
	}
	return lines
}

// functionFrame matches the two lines of a frame with a function of a runtime: its symbol and its source line, if it
// has one.
var functionFrame = regexp.MustCompile(`(?m)^\s+4[0-9a-f]{12} (.*)\n\s+(?:(.*):(\d+)|\S.*)$`)

// knownCall is a function in a stack.
type knownCall struct {
	function, file string
	line           int
}

// functionStacks returns the functions of runtimes of all samples with some, the innermost first.
func functionStacks(t *testing.T, data string) (stacks [][]knownCall) {
	t.Helper()
	out, _ := gperf(t, "script", "-F", "ip,sym,srcline", "--full-source-path", "-i", data)
	for _, block := range strings.Split(out, "\n\n") {
		var stack []knownCall
		for _, m := range functionFrame.FindAllStringSubmatch(block, -1) {
			line, _ := strconv.Atoi(m[3])
			stack = append(stack, knownCall{m[1], m[2], line})
		}
		if len(stack) > 0 {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// rightCalls reports whether each function of a stack is at a line of its own that calls the one before. Functions
// without a line are not in the program's file.
func rightCalls(stack []knownCall, program string, lines map[int]knownLine) bool {
	called := ""
	for _, c := range stack {
		if filepath.Base(c.file) == filepath.Base(program) {
			l := lines[c.line]
			if l.function != c.function || called != "" && !slices.Contains(l.calls, called) {
				return false
			}
		}
		called = c.function
	}
	return true
}

// runtimesOf returns the programs of a runtime to test: this machine's, and the ones that a variable names.
func runtimesOf(t *testing.T, name, pkg, variable string) (l []string) {
	t.Helper()
	for _, name := range append([]string{name}, strings.Fields(os.Getenv(variable))...) {
		if path, err := exec.LookPath(name); err == nil {
			l = append(l, path)
		}
	}
	if len(l) == 0 {
		t.Skipf("no %s (Debian's %s); %s may name others", name, pkg, variable)
	}
	return l
}

// knownProgram returns the absolute path of a program in testdata, and gives the test a build-ID cache of its own.
func knownProgram(t *testing.T, name string) string {
	t.Helper()
	needEvents(t)
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if cache, err := os.UserCacheDir(); err == nil { // the cache of unwind tables stays
		t.Setenv("XDG_CACHE_HOME", cache)
	}
	t.Setenv("HOME", t.TempDir())
	return path
}

// judged counts the stacks of a program with known functions.
type judged struct {
	n, good   int
	wrong     []knownCall     // a wrong stack
	functions map[string]bool // of the others
}

// add counts a stack.
func (j *judged) add(stack []knownCall, right bool) {
	j.n++
	if !right {
		j.wrong = stack
		return
	}
	j.good++
	if j.functions == nil {
		j.functions = map[string]bool{}
	}
	for _, c := range stack {
		j.functions[c.function] = true
	}
}

// check fails if less than 95 % of the stacks are right, or if none contains one of the functions.
func (j *judged) check(t *testing.T, stderr string, functions ...string) {
	t.Helper()
	t.Logf("%d of %d stacks are right", j.good, j.n)
	if j.n < 100 || j.good*100 < j.n*95 {
		t.Errorf("%d of %d stacks are right, not %+v\n%s", j.good, j.n, j.wrong, stderr)
	}
	for _, f := range functions {
		if !j.functions[f] {
			t.Errorf("no sample of %s", f)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// knownLine is what a line of a program with known functions says in its comment: its function, and, after >, those
// that it calls.
type knownLine struct {
	function string
	calls    []string
}

// knownLines returns the lines of a program that have such a comment, which begins with mark.
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

// functionStacks returns the functions of runtimes of all samples that have some, the innermost first.
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

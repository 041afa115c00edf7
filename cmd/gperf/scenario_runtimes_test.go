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

// knownProgram is a program with known functions: the comment of each line names them and, after >, those that they
// call, without spaces.
type knownProgram struct {
	path  string
	lines map[int]knownLine
	// made are patterns of functions that the program makes itself, with the names by which the comments know them. They
	// call spin only.
	made map[string]*regexp.Regexp
	// skip are files of functions that the runtime has itself.
	skip *regexp.Regexp
}

// knownLine is what a line of a program says.
type knownLine struct{ functions, calls []string }

// knownCall is a function in a stack.
type knownCall struct {
	function, file string
	line           int
}

// readKnown reads a program. mark is what begins a comment.
func readKnown(t *testing.T, path, mark string) *knownProgram {
	t.Helper()
	needEvents(t)
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := &knownProgram{path: path, lines: map[int]knownLine{}}
	for i, line := range strings.Split(string(text), "\n") {
		if _, comment, ok := strings.Cut(line, "  "+mark+" "); ok {
			functions, calls, _ := strings.Cut(comment, " > ")
			p.lines[i+1] = knownLine{strings.Fields(functions), strings.Fields(calls)}
		}
	}
	if cache, err := os.UserCacheDir(); err == nil { // the cache of unwind tables stays
		t.Setenv("XDG_CACHE_HOME", cache)
	}
	t.Setenv("HOME", t.TempDir())
	return p
}

// knownFrame matches the two lines of a frame, with its symbol and its source line.
var knownFrame = regexp.MustCompile(`(?m)^\s+4[0-9a-f]{12} (.*)\n\s+(.*):(\d+)$`)

// stacks returns the functions of all samples, the innermost first.
func (p *knownProgram) stacks(t *testing.T, data string) (stacks [][]knownCall) {
	out, _ := gperf(t, "script", "-F", "ip,sym,srcline", "--full-source-path", "-i", data)
	for _, block := range strings.Split(out, "\n\n") {
		var stack []knownCall
		for _, m := range knownFrame.FindAllStringSubmatch(block, -1) {
			line, _ := strconv.Atoi(m[3])
			c := knownCall{strings.ReplaceAll(m[1], " ", "_"), m[2], line}
			if p.skip != nil && p.skip.MatchString(c.file) {
				continue
			}
			for name, pattern := range p.made {
				if pattern.MatchString(c.function + " " + filepath.Base(c.file)) {
					c.function = name
				}
			}
			stack = append(stack, c)
		}
		if len(stack) > 0 {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// right reports whether each function of a stack is at a line of its own that calls the one before. known is false for
// stacks without functions of the program.
func (p *knownProgram) right(stack []knownCall) (known, ok bool) {
	called := ""
	for _, c := range stack {
		l := p.lines[c.line]
		switch {
		case p.made[c.function] != nil:
			l = knownLine{[]string{c.function}, []string{"spin"}}
		case c.file != p.path:
			return known, known
		}
		known = true
		if !slices.Contains(l.functions, c.function) || called != "" && !slices.Contains(l.calls, called) {
			return true, false
		}
		called = c.function
	}
	return known, known
}

// check fails if fewer than 95 % of the stacks of a recording are right, or some functions are in none.
func (p *knownProgram) check(t *testing.T, data string, least int, functions ...string) {
	t.Helper()
	n, good := 0, 0
	seen := map[string]bool{}
	var wrong []knownCall
	for _, stack := range p.stacks(t, data) {
		known, ok := p.right(stack)
		switch {
		case ok:
			good++
			for _, c := range stack {
				seen[c.function] = true
			}
		case known:
			wrong = stack
		}
		if known {
			n++
		}
	}
	if n < least || good*100 < n*95 {
		t.Errorf("%d of %d stacks are right, not %+v", good, n, wrong)
	}
	for _, f := range functions {
		if !seen[f] {
			t.Errorf("no sample of %s", f)
		}
	}
	t.Logf("%d of %d stacks are right; a wrong one: %+v", good, n, wrong)
}

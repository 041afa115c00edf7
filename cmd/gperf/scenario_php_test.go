package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// phps returns the interpreters to test: Debian's, and those that GPERF_PHPS names.
func phps(t *testing.T) (l []string) {
	for _, name := range append([]string{"php"}, strings.Fields(os.Getenv("GPERF_PHPS"))...) {
		if path, err := exec.LookPath(name); err == nil {
			l = append(l, path)
		}
	}
	if len(l) == 0 {
		t.Skip("no php (Debian's php-cli); GPERF_PHPS may name others")
	}
	return l
}

// PHP's functions have their names and lines, whatever runs them: recursion, methods, generators, fibers, functions of
// PHP that call others, code that a program makes, and long and non-ASCII names.
func TestScenarioPHPFunctions(t *testing.T) {
	pythonProgram(t)
	program, err := filepath.Abs("testdata/functions.php")
	if err != nil {
		t.Fatal(err)
	}
	lines := knownLines(t, program, "// ")
	for _, php := range phps(t) {
		t.Run(filepath.Base(php), func(t *testing.T) {
			dir := t.TempDir()
			r := mustRecord(t, dir, "-o", "p.data", "-e", "cpu-clock", "-F", "499", "-g", "--", php, program, "2")
			n, good := 0, 0
			functions := map[string]bool{}
			var wrong []knownCall
			for _, stack := range functionStacks(t, filepath.Join(dir, "p.data")) {
				for i := range stack {
					switch c := &stack[i]; {
					case strings.HasPrefix(c.function, "long_xxx") && len(c.function) == len("long_")+900:
						c.function = "long"
					case strings.HasPrefix(c.function, "{closure"):
						c.function = "closure"
					}
				}
				if n++; !rightCalls(stack, program, lines) {
					wrong = stack
					continue
				}
				good++
				for _, c := range stack {
					functions[c.function] = true
				}
			}
			if n < 100 || good*100 < n*95 {
				t.Errorf("%d of %d stacks are right, not %+v\n%s", good, n, wrong, r.stderr)
			}
			t.Logf("%d of %d stacks are right", good, n)
			for _, f := range []string{"spin", "deep", "Größe::berechne_größe_数", "values", "key_of", "array_map",
				"closure", "long", "in_fiber", "{main}"} {
				if !functions[f] {
					t.Errorf("no sample of %s", f)
				}
			}
		})
	}
}

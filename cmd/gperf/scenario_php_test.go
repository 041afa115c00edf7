package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// PHP's functions are named, with lines, whichever way they run: recursion, methods, generators, fibers, functions of
// PHP that call others, code that a program makes, and long and non-ASCII names.
func TestScenarioPHPFunctions(t *testing.T) {
	program := knownProgram(t, "functions.php")
	lines := knownLines(t, program, "// ")
	for _, php := range runtimesOf(t, "php", "php-cli", "GPERF_PHPS") {
		t.Run(filepath.Base(php), func(t *testing.T) {
			dir := t.TempDir()
			r := mustRecord(t, dir, "-o", "p.data", "-e", "cpu-clock", "-F", "499", "-g", "--", php, program, "2")
			var j judged
			for _, stack := range functionStacks(t, filepath.Join(dir, "p.data")) {
				for i := range stack {
					switch c := &stack[i]; {
					case strings.HasPrefix(c.function, "long_xxx") && len(c.function) == len("long_")+900:
						c.function = "long"
					case strings.HasPrefix(c.function, "{closure"):
						c.function = "closure"
					}
				}
				j.add(stack, rightCalls(stack, program, lines))
			}
			j.check(t, r.stderr, "spin", "deep", "Größe::berechne_größe_数", "values", "key_of", "array_map",
				"closure", "long", "in_fiber", "{main}")
		})
	}
}

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// perlName returns a function's name as in the lines of the program.
func perlName(c *knownCall) string {
	name := strings.TrimPrefix(c.function, "main::")
	switch {
	case strings.HasPrefix(name, "long_xxx") && len(name) == len("long_")+240:
		return "long"
	case strings.HasPrefix(name, "made_") && filepath.Base(c.file) == name+".pl":
		return "made"
	}
	return c.function
}

// Perl's functions are named, with lines, whichever way they run: recursion, methods, operators of classes, sorting,
// functions of C that call others, closures, evals, code that a program makes, and long and non-ASCII names.
func TestScenarioPerlFunctions(t *testing.T) {
	program := knownProgram(t, "functions.pl")
	lines := knownLines(t, program, " # ")
	for _, perl := range runtimesOf(t, "/usr/bin/perl", "perl", "GPERF_PERLS") {
		t.Run(filepath.Base(perl), func(t *testing.T) {
			dir := t.TempDir()
			r := mustRecord(t, dir, "-o", "p.data", "-e", "cpu-clock", "-F", "499", "-g", "--", perl, program, "2")
			var j judged
			for _, stack := range functionStacks(t, filepath.Join(dir, "p.data")) {
				known := filepath.Base(stack[len(stack)-1].file) == filepath.Base(program)
				for i := range stack {
					stack[i].function = perlName(&stack[i])
					known = known && !strings.Contains(stack[i].function, "BEGIN")
				}
				if !known {
					continue // the start, with Perl's own files
				}
				j.add(stack, rightCalls(stack, program, lines))
			}
			j.check(t, r.stderr, "main::spin", "main::deep", "Größe::berechne_größe_数", "Größe::compare",
				"main::by_number", "main::through_c", "main::__ANON__", "main::caught", "long", "made", "(main)")
		})
	}
}

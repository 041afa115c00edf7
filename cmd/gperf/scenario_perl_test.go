package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// perls returns the interpreters to test: Debian's, and those that GPERF_PERLS names.
func perls(t *testing.T) (l []string) {
	for _, name := range append([]string{"/usr/bin/perl"}, strings.Fields(os.Getenv("GPERF_PERLS"))...) {
		if path, err := exec.LookPath(name); err == nil {
			l = append(l, path)
		}
	}
	if len(l) == 0 {
		t.Skip("no /usr/bin/perl (Debian's perl); GPERF_PERLS may name others")
	}
	return l
}

// perlName returns a function's name as the lines of the program have it.
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

// Perl's functions have their names and lines, whatever runs them: recursion, methods, operators of classes, sorting,
// functions of C that call others, closures, evals, code that a program makes, and long and non-ASCII names.
func TestScenarioPerlFunctions(t *testing.T) {
	pythonProgram(t)
	program, err := filepath.Abs("testdata/functions.pl")
	if err != nil {
		t.Fatal(err)
	}
	lines := knownLines(t, program, " # ")
	for _, perl := range perls(t) {
		t.Run(filepath.Base(perl), func(t *testing.T) {
			dir := t.TempDir()
			r := mustRecord(t, dir, "-o", "p.data", "-e", "cpu-clock", "-F", "499", "-g", "--", perl, program, "2")
			n, good := 0, 0
			functions := map[string]bool{}
			var wrong []knownCall
			for _, stack := range functionStacks(t, filepath.Join(dir, "p.data")) {
				known := filepath.Base(stack[len(stack)-1].file) == filepath.Base(program)
				for i := range stack {
					stack[i].function = perlName(&stack[i])
					known = known && !strings.Contains(stack[i].function, "BEGIN")
				}
				if !known {
					continue // the start, with Perl's own files
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
			t.Logf("%d of %d stacks are right", good, n)
			if n < 100 || good*100 < n*95 {
				t.Errorf("%d of %d stacks are right, not %+v\n%s", good, n, wrong, r.stderr)
			}
			for _, f := range []string{"main::spin", "main::deep", "Größe::berechne_größe_数", "Größe::compare",
				"main::by_number", "main::through_c", "main::__ANON__", "main::caught", "long", "made", "(main)"} {
				if !functions[f] {
					t.Errorf("no sample of %s", f)
				}
			}
		})
	}
}

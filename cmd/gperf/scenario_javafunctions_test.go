package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// javas returns the virtual machines to test: Debian's, and those that GPERF_JAVAS names.
func javas(t *testing.T) (l []string) {
	if runtime.GOARCH != "amd64" {
		t.Skip("HotSpot's stacks are walked by its own tables on x86-64 only")
	}
	for _, name := range append([]string{"java"}, strings.Fields(os.Getenv("GPERF_JAVAS"))...) {
		if path, err := exec.LookPath(name); err == nil {
			l = append(l, path)
		}
	}
	if _, err := exec.LookPath("javac"); err != nil || len(l) == 0 {
		t.Skip("no java and javac (Debian's default-jdk-headless); GPERF_JAVAS may name other virtual machines")
	}
	return l
}

// Names of the methods of lambdas, and of the hidden classes that call them.
var (
	javaLambda      = regexp.MustCompile(`^Functions\.lambda\$`)
	javaLambdaClass = regexp.MustCompile(`^Functions\$\$Lambda`)
)

// Java's methods have their names and lines: interpreted, compiled by C1 and C2, inlined, recursive, of interfaces,
// lambdas, called by the library, and with non-ASCII names.
func TestScenarioJavaFunctions(t *testing.T) {
	pythonProgram(t)
	program, err := filepath.Abs("testdata/Functions.java")
	if err != nil {
		t.Fatal(err)
	}
	lines := knownLines(t, program, "// ")
	for _, java := range javas(t) {
		classes := t.TempDir()
		javac := exec.Command("javac", "--release", "8", "-encoding", "UTF-8", "-d", classes, program)
		if out, err := javac.CombinedOutput(); err != nil {
			t.Fatalf("javac: %v\n%s", err, out)
		}
		for _, mode := range []string{"", "-Xint"} {
			t.Run(filepath.Base(java)+mode, func(t *testing.T) {
				dir := t.TempDir()
				args := []string{"-o", "p.data", "-e", "cpu-clock", "-F", "499", "-g", "--", java,
					"-Dfile.encoding=UTF-8", "-cp", classes, "Functions", "2"}
				if mode != "" {
					args = slices.Insert(args, slices.Index(args, java)+1, mode)
				}
				r := mustRecord(t, dir, args...)
				n, good := 0, 0
				functions := map[string]bool{}
				var wrong []knownCall
				for _, stack := range functionStacks(t, filepath.Join(dir, "p.data")) {
					stack = slices.DeleteFunc(stack, func(c knownCall) bool { // stubs have no file
						return c.file == "" || javaLambdaClass.MatchString(c.function)
					})
					// What the program's innermost function calls in the library is not said by its lines.
					innermost := slices.IndexFunc(stack, func(c knownCall) bool {
						return filepath.Base(c.file) == "Functions.java"
					})
					if innermost < 0 {
						continue
					}
					stack = stack[innermost:]
					for i := range stack {
						if javaLambda.MatchString(stack[i].function) {
							stack[i].function = "lambda"
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
				for _, f := range []string{"spin", "deep", "run", "applied"} {
					if !functions["Functions."+f] {
						t.Errorf("no sample of %s", f)
					}
				}
			})
		}
	}
}

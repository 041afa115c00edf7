package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"testing"
)

// javas returns the virtual machines to test: Debian's, and those that GPERF_JAVAS names.
func javas(t *testing.T) []string {
	if runtime.GOARCH != "amd64" {
		t.Skip("HotSpot's stacks are walked by its own tables on x86-64 only")
	}
	needPrograms(t, "javac")
	return runtimesOf(t, "java", "default-jdk-headless", "GPERF_JAVAS")
}

// Names of the methods of lambdas, and of the hidden classes that call them.
var (
	javaLambda      = regexp.MustCompile(`^Functions\.lambda\$`)
	javaLambdaClass = regexp.MustCompile(`^Functions\$\$Lambda`)
)

// Java's methods are named, with lines: interpreted, compiled by C1 and C2, inlined, recursive, of interfaces,
// lambdas, called by the library, and with non-ASCII names.
func TestScenarioJavaFunctions(t *testing.T) {
	program := knownProgram(t, "Functions.java")
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
				var j judged
				for _, stack := range functionStacks(t, filepath.Join(dir, "p.data")) {
					stack = slices.DeleteFunc(stack, func(c knownCall) bool { // stubs come from no file
						return c.file == "" || javaLambdaClass.MatchString(c.function)
					})
					// The lines do not say which functions of the library the program's innermost function calls.
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
					j.add(stack, rightCalls(stack, program, lines))
				}
				j.check(t, r.stderr, "Functions.spin", "Functions.deep", "Functions.run", "Functions.applied")
			})
		}
	}
}

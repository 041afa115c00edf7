package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	keepFunction = regexp.MustCompile(`\bkeep_(\d+)`)
	madeFunction = regexp.MustCompile(`\bmade_(\d+)`)
)

// A function has its own name, file and line where others were in its memory before it: programs of templates, rules
// and plug-ins make functions all the time, and free them.
func TestScenarioFreedFunctions(t *testing.T) {
	for _, c := range []struct{ program, runtime, pkg, variable string }{
		{"freed.py", "/usr/bin/python3", "python3", "GPERF_PYTHONS"},
		{"freed.rb", "/usr/bin/ruby", "ruby", "GPERF_RUBIES"},
		{"freed.php", "php", "php-cli", "GPERF_PHPS"},
		{"freed.pl", "/usr/bin/perl", "perl", "GPERF_PERLS"},
		{"freed.js", "node", "nodejs", "GPERF_NODES"},
	} {
		t.Run(c.program, func(t *testing.T) {
			program := knownProgram(t, c.program)
			for _, runtime := range runtimesOf(t, c.runtime, c.pkg, c.variable) {
				checkFreed(t, runtime, program, "2")
			}
		})
	}
}

// The same of Java's methods, interpreted and compiled, whose classes are unloaded.
func TestScenarioUnloadedClasses(t *testing.T) {
	program := knownProgram(t, "Freed.java")
	for _, java := range javas(t) {
		classes, made := t.TempDir(), t.TempDir()
		compile := func(file, to string) {
			if out, err := exec.Command("javac", "--release", "8", "-d", to, file).CombinedOutput(); err != nil {
				t.Fatalf("javac: %v\n%s", err, out)
			}
		}
		compile(program, classes)
		for i := range 4 {
			name := fmt.Sprintf("made_%d", i)
			file := filepath.Join(made, name+".java")
			source := strings.Repeat("\n", i%2) + "public class " + name +
				" implements java.util.function.LongUnaryOperator { public long applyAsLong(long n) { long t = 0;" +
				" for (int i = 0; i < n; i++) t = (t + i * i) % 9973; return t; } }"
			if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
				t.Fatal(err)
			}
			compile(file, made)
		}
		for _, mode := range []string{"-Xmixed", "-Xint"} {
			t.Run(filepath.Base(java)+mode, func(t *testing.T) {
				checkFreed(t, java, mode, "-XX:+UseSerialGC", "-cp", classes, "Freed", "3", made)
			})
		}
	}
}

// checkFreed records a program whose functions keep_N make functions, and fails if more than 5 % of these have another
// number or another line than N % 2 + 1: names that have not changed for a while are read again only now and then.
func checkFreed(t *testing.T, command ...string) {
	t.Helper()
	dir := t.TempDir()
	r := mustRecord(t, dir, append(strings.Fields("-o f.data -e cpu-clock -F 499 -g --"), command...)...)
	right, wrong := 0, []knownCall(nil)
	for _, stack := range functionStacks(t, filepath.Join(dir, "f.data")) {
		made, other := madeBy(stack)
		if right += made; other != nil {
			wrong = append(wrong, *other)
		}
	}
	t.Logf("%s: %d functions, %d of them wrong", command[0], right+len(wrong), len(wrong))
	if right < 100 || 20*len(wrong) > right+len(wrong) {
		t.Errorf("%s: %d functions are right, %d wrong: %+v\n%s", command[0], right, len(wrong), wrong, r.stderr)
	}
}

// madeBy counts the functions of a stack that a function keep_N has made up to one that is wrong, which it returns.
func madeBy(stack []knownCall) (made int, wrong *knownCall) {
	n := -1
	for _, c := range stack {
		if m := keepFunction.FindStringSubmatch(c.function); m != nil {
			n, _ = strconv.Atoi(m[1])
		}
	}
	for i, c := range stack {
		numbers := madeFunction.FindAllStringSubmatch(c.function+" "+c.file, -1)
		if numbers == nil && strings.Count(c.file, "eval()'d") < 2 || n < 0 { // PHP's names have no number
			continue
		}
		for _, m := range numbers {
			if m[1] != strconv.Itoa(n) {
				return made, &stack[i]
			}
		}
		if c.line != n%2+1 {
			return made, &stack[i]
		}
		made++
	}
	return made, nil
}

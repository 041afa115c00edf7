package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rubies returns the interpreters to test.
func rubies(t *testing.T) []string { return runtimesOf(t, "/usr/bin/ruby", "ruby", "GPERF_RUBIES") }

// rubyInternal matches the files of Ruby's own functions.
var rubyInternal = regexp.MustCompile(`^<internal:`)

// rubyStacks returns the Ruby functions of the samples with some of the program.
func rubyStacks(t *testing.T, program, data string) (stacks [][]knownCall) {
	for _, stack := range functionStacks(t, data) {
		stack = slices.DeleteFunc(stack, func(c knownCall) bool { return rubyInternal.MatchString(c.file) })
		known := false
		for i := range stack {
			c := &stack[i]
			known = known || c.file == program
			c.function = strings.ReplaceAll(c.function, " ", "_")
			switch {
			case c.function == "long_"+strings.Repeat("x", 900) && c.file == "long.rb":
				c.function = "long"
			case strings.HasPrefix(filepath.Base(c.file), "made_"):
				c.function = "made"
			}
		}
		if known {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// Ruby's functions are named, with lines, whichever way they run: the interpreter or YJIT, calls without a call in C,
// recursion, blocks, enumerators, fibers, threads, exceptions, code that is made and replaced, and long and non-ASCII
// names.
func TestScenarioRubyFunctions(t *testing.T) {
	program := knownProgram(t, "functions.rb")
	lines := knownLines(t, program, "  # ")
	for _, ruby := range rubies(t) {
		for _, jit := range []string{"--disable-yjit", "--yjit"} {
			t.Run(filepath.Base(ruby)+jit, func(t *testing.T) {
				if exec.Command(ruby, jit, "-e", "").Run() != nil {
					t.Skip("no YJIT")
				}
				dir := t.TempDir()
				r := mustRecord(t, dir, "-o", "p.data", "-e", "cpu-clock", "-F", "499", "-g", "--",
					ruby, jit, program, "3")
				var j judged
				for _, stack := range rubyStacks(t, program, filepath.Join(dir, "p.data")) {
					j.add(stack, rightCalls(stack, program, lines))
				}
				j.check(t, r.stderr, "spin", "deep", "berechne_größe_数", "block_in_<class:Größe>",
					"method_missing", "block_(2_levels)_in_enumerate", "block_(2_levels)_in_fibers", "key",
					"block_in_sorted",
					"block_(2_levels)_in_nested", "rescued", "long", "made", "big", "thread")
			})
		}
	}
}

// --no-native shows Ruby functions and the kernel alone, --no-runtimes records none.
func TestScenarioRubyNoNative(t *testing.T) {
	knownProgram(t, "functions.rb")
	dir := t.TempDir()
	record := func(flags ...string) string {
		data := filepath.Join(dir, "p.data")
		mustRecord(t, dir, append(flags, "-o", data, "-e", "cpu-clock", "-F", "499", "-g", "--", rubies(t)[0],
			filepath.Join(dir, "deep.rb"))...)
		folded, _ := gperf(t, "report", "--format", "folded", "--no-native", "-i", data)
		return folded
	}
	text := "def deep(n)\n  n == 0 ? 100000.times { } : deep(n - 1)\nend\n100.times { deep(9) }\n"
	if err := os.WriteFile(filepath.Join(dir, "deep.rb"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	folded := record()
	if !strings.Contains(folded, ";deep;deep;deep;") {
		t.Errorf("no function deep:\n%.500s", folded)
	}
	for line := range strings.Lines(folded) {
		if strings.Contains(line, ";deep;") && strings.Contains(line, "rb_vm_exec") {
			t.Errorf("a native frame is shown: %s", line)
			break
		}
	}
	if folded := record("--no-runtimes"); strings.Contains(folded, ";deep;") {
		t.Errorf("--no-runtimes: functions are named:\n%.500s", folded)
	}
}

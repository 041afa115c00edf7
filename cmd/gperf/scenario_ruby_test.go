package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rubies returns the interpreters to test: Debian's, and those that GPERF_RUBIES names.
func rubies(t *testing.T) (l []string) {
	for _, name := range append([]string{"/usr/bin/ruby"}, strings.Fields(os.Getenv("GPERF_RUBIES"))...) {
		if path, err := exec.LookPath(name); err == nil {
			l = append(l, path)
		}
	}
	if len(l) == 0 {
		t.Skip("no /usr/bin/ruby (Debian's ruby); GPERF_RUBIES may name others")
	}
	return l
}

// rubyProgram returns the program with known functions.
func rubyProgram(t *testing.T) *knownProgram {
	p := readKnown(t, "testdata/functions.rb", "#")
	p.made = map[string]*regexp.Regexp{
		"long": regexp.MustCompile(`^long_x{900} long\.rb$`),
		"made": regexp.MustCompile(`^made_(\d+) made_\d+\.rb$|^<main> made_\d+\.rb$`),
	}
	p.skip = regexp.MustCompile(`^<internal:`)
	return p
}

// Ruby's functions have their names and lines, whatever runs them: the interpreter or YJIT, calls without a call in C,
// recursion, blocks, enumerators, fibers, threads, exceptions, code that is made and replaced, and long and non-ASCII
// names.
func TestScenarioRubyFunctions(t *testing.T) {
	p := rubyProgram(t)
	for _, ruby := range rubies(t) {
		for _, jit := range []string{"", "--yjit"} {
			t.Run(filepath.Base(ruby)+jit, func(t *testing.T) {
				data := filepath.Join(t.TempDir(), "p.data")
				args := append(strings.Fields(ruby+" "+jit), p.path, "2")
				if jit != "" && exec.Command(ruby, jit, "-e", "").Run() != nil {
					t.Skip("no YJIT")
				}
				mustRecord(t, filepath.Dir(data), append([]string{"-o", data, "-e", "cpu-clock", "-F", "499", "-g", "--"},
					args...)...)
				p.check(t, data, 50, "spin", "deep", "berechne_größe_数", "block_in_<class:Größe>", "method_missing",
					"block_(2_levels)_in_enumerate", "block_(2_levels)_in_fibers", "key", "block_in_sorted",
					"block_(2_levels)_in_nested", "rescued", "long", "made", "big", "thread")
			})
		}
	}
}

// --no-native shows Ruby functions and the kernel alone, --no-runtimes records none.
func TestScenarioRubyNoNative(t *testing.T) {
	p := rubyProgram(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "p.data")
	record := func(flags ...string) string {
		all := append(flags, "-o", data, "-e", "cpu-clock", "-F", "499", "-g", "--", rubies(t)[0], p.path, "1")
		mustRecord(t, dir, all...)
		folded, _ := gperf(t, "report", "--format", "folded", "--no-native", "-i", data)
		return folded
	}
	for line := range strings.Lines(record()) {
		if strings.Contains(line, ";deep;") && strings.Contains(line, "rb_vm_exec") {
			t.Errorf("a native frame is shown: %s", line)
			break
		}
	}
	if folded := record("--no-runtimes"); strings.Contains(folded, ";deep;") {
		t.Errorf("--no-runtimes: functions are named:\n%.500s", folded)
	}
}

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

// death is a program with functions that end with a call that does not return: the return address lies after them.
// After each function there is one that is not called.
type death struct {
	*programs.Program
	alive, dead string   // prefixes of the names of functions that are called, and are not called
	names       []string // the rest of the names
	events      string   // probes of the functions that do not return; PROGRAM is the program
	long        bool     // not in short mode
}

var (
	diesC    = []string{"fails_first", "fails_second"}
	exitsC   = []string{"at_end_abort", "if_abort", "at_end_exit", "if_exit", "at_end_assert", "if_assert"}
	throwsCC = []string{"at_end_throw", "if_throw", "at_end_error", "if_error", "at_end_vector", "if_vector",
		"at_end_string", "if_string"}
	panicsRust = []string{"at_end_panic", "if_panic", "at_end_index", "if_index", "at_end_unwrap", "if_unwrap",
		"at_end_exit", "if_exit", "at_end_abort", "if_abort"}
	panicsGo = []string{"Panic", "Index", "Slice", "Map", "Type", "Goexit", "Exit"}
)

const (
	exitsOfC   = "uprobe:libc:abort uprobe:libc:exit uprobe:libc:__assert_fail"
	throws     = "uprobe:libstdc++:__cxa_throw"
	exitOfRust = "uprobe:libgcc_s.so.1:_Unwind_RaiseException uprobe:libc:exit uprobe:libc:abort"
	exitsOfGo  = "uprobe:PROGRAM:runtime.gopanic uprobe:PROGRAM:runtime.Goexit uprobe:PROGRAM:os.Exit"
)

var deaths = []death{
	{programs.C("testdata/dies.c", "-g", "-O2"), "", "never_called", diesC, "uprobe:PROGRAM:die", false},
	{programs.C("testdata/dies.c", "-Os"), "", "never_called", diesC, "uprobe:PROGRAM:die", true},
	{programs.C("testdata/exits.c", "-O2"), "dies_", "never_", exitsC, exitsOfC, false},
	{programs.C("testdata/exits.c", "-g", "-O0"), "dies_", "never_", exitsC, exitsOfC, true},
	{programs.C("testdata/dies.cc", "-O2"), "dies_", "never_", throwsCC, throws, false},
	{programs.C("testdata/dies.cc", "-g", "-O0"), "dies_", "never_", throwsCC, throws, true},
	{programs.Rust("testdata/dies.rs", "-O"), "dies_", "never_", panicsRust, exitOfRust, true},
	{programs.Rust("testdata/dies.rs", "-g"), "dies_", "never_", panicsRust, exitOfRust, true},
	{programs.Go("testdata/dies.go"), "diesOf", "neverOf", panicsGo, exitsOfGo, true},
}

// TestScenarioNoReturn: the caller of a function that does not return has its own name in every output, and in stock
// perf's, though the return address may be in the function after it.
func TestScenarioNoReturn(t *testing.T) {
	needProbes(t, "uprobe")
	perf, _ := findOracle()
	for _, d := range deaths {
		t.Run(d.String(), func(t *testing.T) {
			if d.long && testing.Short() {
				t.Skip("one program of each kind in short mode")
			}
			program, dir := d.Path(t), t.TempDir()
			args := []string{"-g"}
			for _, e := range strings.Fields(d.events) {
				args = append(args, "-e", strings.Replace(e, "PROGRAM", program, 1))
			}
			mustRecord(t, dir, append(args, program)...)
			file := filepath.Join(dir, "perf.data")
			for _, line := range []string{"script -F ip,sym", "report --stdio --no-children",
				"report --stdio --children"} {
				words := append(strings.Fields(line), "-i", file)
				text, _ := gperf(t, words...)
				d.check(t, line, text)
				if perf != nil {
					text, err := perf.run(t, words...)
					if err != nil {
						t.Error(err)
					}
					d.check(t, "perf "+line, text)
				}
			}
			for _, format := range []string{"csv", "folded", "json", "flamegraph", "svg", "speedscope", "firefox",
				"perfetto", "pprof"} {
				out := filepath.Join(dir, format)
				gperf(t, "report", "--format", format, "-o", out, "-i", file)
				d.check(t, format, textOf(t, out))
			}
		})
	}
}

// check checks the functions in an output.
func (d *death) check(t *testing.T, output, text string) {
	t.Helper()
	for _, name := range d.names {
		if !strings.Contains(text, d.alive+name) {
			t.Errorf("%s: no %s%s", output, d.alive, name)
		}
		if d.alive == "" {
			name = ""
		}
		if strings.Contains(text, d.dead+name) {
			t.Errorf("%s: %s%s, which is not called", output, d.dead, name)
		}
	}
}

// textOf returns the text of a file, which may be compressed.
func textOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		if data, err = io.ReadAll(r); err != nil {
			t.Fatal(fmt.Errorf("%s: %w", path, err))
		}
	}
	return string(data) + pageBlockOf(t, string(data))
}

// TestScenarioFunctionNamedF: a function of C with the name of a mangled type keeps its name.
func TestScenarioFunctionNamedF(t *testing.T) {
	needProbes(t, "uprobe")
	program, dir := deaths[0].Path(t), t.TempDir()
	mustRecord(t, dir, "-g", "-e", "uprobe:"+program+":die", program)
	text, _ := gperf(t, "script", "-F", "ip,sym", "-i", filepath.Join(dir, "perf.data"))
	if !strings.Contains(text, " f\n") || strings.Contains(text, "float") {
		t.Errorf("the function f is not shown as f:\n%.300s", text)
	}
}

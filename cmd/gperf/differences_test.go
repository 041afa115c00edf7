package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gperf/cmd/gperf/cli"
)

// outputDifferences lists intended differences from perf's output that do not depend on a file
// of the corpus, each with the test that asserts it.
var outputDifferences = []struct{ what, gperf, perf, test string }{
	{"`report`: default sort keys of tracepoints",
		"their fields `location` and `reason`, the name of the system call, or the arguments of a probe",
		"the printed fields (`--sort trace`)", "TestGolden"},
	{"`report --sort symbol`", "no column `IPC` without branch records", "an empty column", "TestFlagsAsPerf"},
	{"`report --branch-history -g callee` with callers", "the kernel's callers after branches have names and DSOs",
		"`[unknown]`", "TestReportBranchHistory"},
	{"`report --branch-history -g none`", "a table", "a crash", "TestReportBranchHistory"},
	{"`report -D`", "no remark about records that have no output", "`: unhandled!`", "TestFlagsAsPerf"},
	{"`record --off-cpu`", "waits only, unless -e, -F or -c is given", "`cycles`, too", "TestScenarioOffCPU"},
	{"`record --off-cpu`: waits for a CPU", "samples of their own, after waits and preemption", "part of the waits",
		"TestScenarioRunQueue"},
	{"`record --off-cpu-thresh`: default", "1 ms", "500 ms", "TestScenarioOffCPU"},
	{"`record -c N` of tracepoints", "every Nth occurrence", "each occurrence", "TestRecordEveryNth"},
	{"names with control characters, on a terminal", "escaped: `^[`", "as they are", "TestTerminalGetsNoControls"},
	{"callers of functions that do not return", "their names; in the text of `script` and `report` for recordings " +
		"that perf made, as perf", "their names in recordings of `gperf record -g`; else the function at the return " +
		"address, which may be the next one", "TestScenarioNoReturn"},
	{"C functions whose names are mangled types, such as `f` and `i`", "their names, as perf 6.1",
		"`float`, `int`", "TestScenarioFunctionNamedF"},
	{"C++: constructors and destructors of lambdas", "`main::{lambda()#1}::~{lambda()#1}()`",
		"`main::{lambda()#1}::~main()`", "TestName"},
	{"C++: an empty pack among parameters", "no parameter", "an empty one: `f(int, , int)`", "TestName"},
	{"C++: a call of a template in a type", "`f<T>()`", "`(f<T>)()`", "TestName"},
	{"C++: last words of `h` and hexadecimal digits, such as `list::head`", "the word", "no word, as of Rust's hashes: " +
		"`list`", "TestName"},
	{"PLT entries: those of mold, and of arm64 with branch protection", "the functions to which they jump",
		"the functions of other entries, `[unknown]`", "TestPLTAgainstObjdump"},
	{"PLT entries of programs without symbols", "their names", "`[unknown]`", "TestPLTAgainstObjdump"},
	{"threads that start after the first thread has exited", "the mappings of the process", "no mappings in `script`",
		"TestThreadsOutliveLeader"},
	{"addresses after a function of assembly without a size, in stripped files", "`[unknown]` from the next function on",
		"the name of that function", "TestSymbolWithoutSize"},
	{"addresses that several lines of a perf map list", "the function of the last line", "the function of any of them",
		"TestPerfMapReused"},
	{"source lines of callers", "the line of the call", "the line of the next instruction", "TestRecordSrcline"},
	{"probe arguments: floating-point numbers in memory", "numbers", "their bits", "TestScenarioValuesOfCXX"},
	{"probe arguments: strings of C++, Rust and Go", "up to their length", "not supported", "TestScenarioValuesOfGo"},
}

//go:generate go test -run ^TestDifferences$ -update .

// TestDifferences compares docs/differences.md with the data of gperf and of the tests; -update
// writes it.
func TestDifferences(t *testing.T) {
	file := filepath.Join(root, "docs", "differences.md")
	got := differences()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sameText(t, "docs/differences.md (-update writes it)", got, string(want))
}

// TestDifferencesAreTested checks that the tests of outputDifferences exist.
func TestDifferencesAreTested(t *testing.T) {
	paths, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"symbolize", "symbolize/demangle", "internal/session"} {
		more, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, more...)
	}
	tests := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
	}
	for _, d := range outputDifferences {
		if !tests[d.test] {
			t.Errorf("%s: there is no %s", d.what, d.test)
		}
	}
}

// differences returns the text of docs/differences.md.
func differences() string {
	var b strings.Builder
	b.WriteString(`# Differences from perf

<!-- Made by go test ./cmd/gperf -run Differences -update, from the data of gperf and of its tests. -->

gperf prints what perf 7.3.4 prints, byte for byte, except for the differences below. Tests assert them: they compare
gperf with perf's output for recordings of gperf, of perf 3.2 to 7.3 and of other tools, and fail also if a difference
disappears.

## Output

| where | gperf | perf | asserted by |
|---|---|---|---|
`)
	for _, d := range outputDifferences {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", d.what, d.gperf, d.perf, d.test)
	}
	b.WriteString("\n## Unusual recordings\n\nThe corpus of the tests has recordings for which the output differs:\n\n")
	b.WriteString("| commands | reason | recordings |\n|---|---|---|\n")
	for _, row := range corpusDifferences() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row.commands, row.why, row.files)
	}
	for _, part := range []struct {
		title, text string
		refused     bool
	}{
		{"Flags without effect",
			"gperf accepts these flags of perf with a notice: the output is the same without them.", false},
		{"Refused flags",
			"gperf refuses these flags of perf, because the output would be wrong without their effect.", true},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| flag | reason |\n|---|---|\n", part.title, part.text)
		for _, c := range idleFlagsOf {
			for _, idle := range c.flags {
				if idle.Refused == part.refused {
					fmt.Fprintf(&b, "| `%s --%s` | %s |\n", c.command, longName(idle), cell(idle.Why))
				}
			}
		}
	}
	b.WriteString("\n## Commands that gperf does not have\n\n| command | instead |\n|---|---|\n")
	for _, c := range cli.OtherCommands {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.Name, cell(c.Way))
	}
	return b.String()
}

// idleFlagsOf lists perf's flags that gperf accepts without effect or refuses, by command.
var idleFlagsOf = []struct {
	command string
	flags   []cli.Idle
}{
	{"record", cli.RecordIdle}, {"script", cli.ScriptIdle}, {"report", cli.ReportIdleFlags},
	{"top", cli.TopIdle}, {"annotate", cli.AnnotateIdle}, {"diff", cli.DiffIdle},
	{"buildid-list", cli.BuildIDListIdle}, {"list", listIdle}, {"probe", probeIdle},
}

// longName returns a flag's name without the shorthand.
func longName(f cli.Idle) string { return f.Name[strings.IndexByte(f.Name, ',')+1:] }

// cell escapes text for a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// A corpusDifference is a reason with the commands and files of the corpus that it applies to.
type corpusDifference struct{ commands, why, files string }

// corpusDifferences returns the differences of the corpora by reason.
func corpusDifferences() (rows []corpusDifference) {
	commands, files := map[string]map[string]bool{}, map[string][]string{}
	for _, o := range slices.Concat(corpusOutcomes, corpusOutcomes2) {
		for command, kept := range o.kept {
			if commands[kept.why] == nil {
				commands[kept.why] = map[string]bool{}
			}
			commands[kept.why][command] = true
			if !slices.Contains(files[kept.why], o.file) {
				files[kept.why] = append(files[kept.why], o.file)
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(commands)) {
		rows = append(rows, corpusDifference{
			commands: strings.Join(slices.Sorted(maps.Keys(commands[why])), ", "),
			why:      cell(why),
			files:    strings.Join(files[why], ", "),
		})
	}
	return rows
}

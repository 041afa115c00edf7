package recording

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fixtures holds texts of perf script in perf-script/, and the folded output of other programs in expected/,
// next to the checkout.
const fixtures = "../../../../shared/fixtures"

func TestFlameGraphPairs(t *testing.T) {
	options := map[string]FoldOptions{
		"pid": {Pid: true}, "tid": {Tid: true}, "kernel": {Kernel: true}, "jit": {JIT: true},
		"all": {Kernel: true, JIT: true}, "addrs": {Addrs: true},
	}
	for _, want := range expected(t, "flamegraph") {
		input, option, _ := strings.Cut(strings.TrimSuffix(filepath.Base(want), ".txt"), "-collapsed-")
		t.Run(input+"/"+option, func(t *testing.T) {
			o, ok := options[option]
			if !ok {
				t.Fatalf("%s: option %q is unknown here", want, option)
			}
			text := read(t, filepath.Join(fixtures, "perf-script/flamegraph", input+".txt"))
			compare(t, fold(t, text, o), read(t, want))
		})
	}
}

// TestInfernoPairs compares with inferno's output. Where inferno differs from stackcollapse-perf.pl, Fold
// follows the latter, and the test adapts the input or uses inferno's tidy:
//
//   - inferno takes samples of one line, with a padded command and the frame after the event;
//   - it counts a last sample without an empty line after it;
//   - it keeps parentheses within angle brackets ("std::function<int (int, int)>");
//   - it completes the demangling of Rust's legacy names, which perf demangles partly.
func TestInfernoPairs(t *testing.T) {
	for _, want := range expected(t, "inferno") {
		input := strings.TrimSuffix(filepath.Base(want), "-collapsed.txt")
		t.Run(input, func(t *testing.T) {
			text := read(t, filepath.Join(fixtures, "perf-script/inferno", input+".txt"))
			compare(t, fold(t, breakLines(text)+"\n\n", FoldOptions{tidy: infernoTidy}), read(t, want))
		})
	}
}

// frameAfterEvent matches a sample of one line. The event is not at the line's end, so Fold does not know it.
var frameAfterEvent = regexp.MustCompile(`(?m)^ +(\S.*\S: ) +([0-9a-f]+ .*\))$`)

// breakLines moves the frame of a sample of one line to a separate line.
func breakLines(text string) string {
	return frameAfterEvent.ReplaceAllString(text, "$1 -\n$2\n")
}

var rustLegacy = strings.NewReplacer("$LT$", "<", "$GT$", ">", "$u7b$", "{", "$u7d$", "}")

func infernoTidy(name string) string {
	if strings.Contains(name, "$") {
		name = rustLegacy.Replace(name)
		if i := strings.LastIndex(name, "::h"); i >= 0 {
			name = name[:i]
		}
	}
	if isGoMethod(name) {
		return tidy(name)
	}
	depth := 0
	for i := 0; i < len(name); i++ {
		switch name[i] {
		case '<':
			depth++
		case '>':
			depth--
		case '(':
			if depth == 0 {
				return dropQuotes(name[:i])
			}
		}
	}
	return dropQuotes(strings.ReplaceAll(name, ";", ":"))
}

// Each row is the output of stackcollapse-perf.pl by the script's rules.
func TestOddities(t *testing.T) {
	const frame = "\tffffffff81000000 f+0x10 ([kernel.kallsyms])\n\n"
	for _, c := range []struct{ name, text, want string }{
		{"padded command", "            true 12 1.0: 1 cycles:\n" + frame, ""},
		{"no empty line at the end", "true 12 1.0: 1 cycles:\n" + strings.TrimSpace(frame) + "\n", ""},
		{"short command", "a      12 1.0: 7 cycles:\n" + frame, "a_;f 7"},
		{"blanks in a command", "V8 Worker 12/13 1.0: 7 cycles:\n" + frame, "V8_Worker;f 7"},
		{"number in a command", "job 7 x 12 1.0: 9 cycles:\n" + frame, "job;f 9"},
		{"number after a command", "job 7 12 1.0: 9 cycles:\n" + frame, "job;f 9"},
		{"second event", "x1 12 1.0: 1 a:\n" + frame + "x2 12 1.0: 1 b:\n" + frame, "x1;f 1"},
		{"tracepoints", "x1 12 1.0: s:a: p=1\n" + frame + "x2 12 1.0: s:b: p=1\n" + frame, "x1;f 1\nx2;f 1"},
		{"tracepoint whose fields end like an event", "x1 12 1.0: s:a: state: R:\n" + frame + "x2 12 1.0: 1 b:\n" + frame, "x1;f 1"},
		{"no frames", "true 12 1.0: 5 cycles:\n\n", "true 5"},
		{"period of 0", "true 12 1.0: 0 cycles:\n" + frame, "true;f 1"},
		{"anonymous namespace", "true 12 1.0: 1 c:\n\t10 (anonymous namespace)::f(int)+0x1 (/x)\n\n", "true 1"},
		{"inner anonymous namespace", "true 12 1.0: 1 c:\n\t10 a::(anonymous namespace)::f(int)+0x1 (/x)\n\n", "true;a::(anonymous namespace)::f 1"},
		{"operator->", "true 12 1.0: 1 c:\n\t10 p::operator->+0x1 (/x)\n\n", "true;p::operator 1"},
		{"deleted file", "true 12 1.0: 1 c:\n\t10 f+0x1 (/memfd:x (deleted))\n\n", "true;f+0x1  1"},
		{"no name", "true 12 1.0: 1 c:\n\t10  (/x)\n\n", "true;  1"},
	} {
		t.Run(c.name, func(t *testing.T) { compare(t, fold(t, c.text, FoldOptions{}), c.want) })
	}
}

func FuzzFold(f *testing.F) {
	f.Add("java 1/2 [000] 1.0: 7 cycles:\n\t10 La/b;.c->La/d;.e+0x1 (/tmp/perf-1.map)\n\n")
	f.Add("a  1 1.0: s:e: x: y:\n\t10 (x)\n (\n)\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		for stack, n := range fold(t, text, FoldOptions{Tid: true, Kernel: true, JIT: true, Addrs: true}) {
			if stack == "" || n == 0 {
				t.Errorf("stack %q folded %d times", stack, n)
			}
		}
	})
}

func fold(t *testing.T, text string, o FoldOptions) map[string]uint64 {
	t.Helper()
	got, err := Fold(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// compare prints the lines that only one side contains.
func compare(t *testing.T, folded map[string]uint64, want string) {
	t.Helper()
	var got []string
	for stack, n := range folded {
		got = append(got, fmt.Sprintf("%s %d", stack, n))
	}
	slices.Sort(got)
	lines := strings.Split(want, "\n")
	lines = slices.DeleteFunc(lines, func(s string) bool { return s == "" })
	slices.Sort(lines)
	for _, line := range lines {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(lines, line) {
			t.Errorf("unexpected: %s", line)
		}
	}
}

func expected(t *testing.T, tool string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(fixtures, "expected", tool, "*-collapsed*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("no third-party pairs of %s under %s", tool, fixtures)
	}
	return files
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

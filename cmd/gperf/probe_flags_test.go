package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestProbeFlagsAsPerf: source lines and variables are listed as perf probe does.
func TestProbeFlagsAsPerf(t *testing.T) {
	o := needOracle(t)
	if o.compat != "7.3" {
		t.Skip("perf 6.1 finds other lines")
	}
	for _, program := range []string{functionsDebug.Path(t), argsPlain.Path(t), argsC.Path(t)} {
		for _, flags := range [][]string{
			{"-L", "main"}, {"-L", "func_a"}, {"-L", "func_c"}, {"-L", "add"}, {"-L", "functions.c"}, {"-L", "args.c"},
			{"-V", "main"}, {"-V", "main", "--externs"},
			{"-V", "main", "--filter", "a*"}, {"-V", "main", "--filter", "!a* & !arg*"}, {"-V", "main", "--filter", "argc|sum", "--externs"},
		} {
			t.Run(filepath.Base(program)+" "+strings.Join(flags, " "), func(t *testing.T) {
				args := append([]string{"probe", "-x", program}, flags...)
				want := string(o.output(t, args))
				if want == "" {
					t.Skip("the program has no such function or file")
				}
				got, _ := gperf(t, args...)
				sameText(t, strings.Join(flags, " "), got, want)
			})
		}
	}
}

// TestProbeLines: the lines of a range, with the numbers of lines with code.
func TestProbeLines(t *testing.T) {
	program := functionsDebug.Path(t)
	if dir, err := os.Getwd(); err == nil && strings.HasPrefix(dir, "/host/") {
		t.Skip("the program was compiled outside of this guest, where its source has another path")
	}
	for _, c := range []struct{ line, want string }{
		{"func_b", `^<func_b@\S*/functions\.c:0>\n      0  __attribute__\(\(noinline\)\) int func_b\(int n\)\n         {\n`},
		{"func_b:3+1", `^<func_b@\S*/functions\.c:3>\n      3  \treturn got \+ 1;\n$`},
		{"func_b@functions.c:3-4", `^<func_b@\S*/functions\.c:3>\n      3  \treturn got \+ 1;\n         }\n$`},
		{"functions.c:11-12", `^<\S*/functions\.c:11>\n     11  __attribute__\(\(noinline\)\) int func_c\(.*\n         {\n$`},
	} {
		t.Run(c.line, func(t *testing.T) {
			got, _ := gperf(t, "probe", "-x", program, "-L", c.line)
			if !regexp.MustCompile(c.want).MatchString(got) {
				t.Errorf("%s:\n%s\nwant %s", c.line, got, c.want)
			}
		})
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-x", program, "-L", "nosuch"}, "these lines have no code"},
		{[]string{"-x", program, "-L", "func_b:5-2"}, "comes before the first"},
		{[]string{"-x", program, "-L", "func_b:x"}, "FUNC[@SRC]"},
		{[]string{"-x", functionsS.Path(t), "-L", "main"}, "no DWARF"},
		{[]string{"-L", "ip_rcv"}, "lines of source files"},
		{[]string{"-x", program, "-V", "main", "--filter", "(a"}, "not closed"},
		{[]string{"-x", program, "--funcs", "--filter", "a&"}, "a pattern is expected"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			var out, stderr bytes.Buffer
			if code := run(append([]string{"probe"}, c.args...), &out, &stderr); code == exitOK ||
				!strings.Contains(stderr.String(), c.want) {
				t.Errorf("%v: exit code %d, %q; want %q", c.args, code, &stderr, c.want)
			}
		})
	}
}

// TestProbeFilter: --filter chooses functions.
func TestProbeFilter(t *testing.T) {
	program := functionsDebug.Path(t)
	for _, c := range []struct{ filter, want string }{
		{"func_?", "func_a func_b func_c"},
		{"func_* & !(func_a | func_c)", "func_b"},
		{"main|func_[bc]", "func_b func_c main"},
	} {
		t.Run(c.filter, func(t *testing.T) {
			got, _ := gperf(t, "probe", "-x", program, "--funcs", "--filter", c.filter)
			if l := strings.Join(strings.Fields(got), " "); l != c.want {
				t.Errorf("%s: %s, want %s", c.filter, l, c.want)
			}
		})
	}
}

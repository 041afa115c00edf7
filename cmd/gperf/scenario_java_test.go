package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// callsMethod matches a method of testdata/Calls.java in a line of a stack, or an interpreted one, without the name.
var callsMethod = regexp.MustCompile(`\bCalls(?:\.|::)(\w+)|\bInterpreter$`)

// inOrder reports whether a stack, outermost first, ends with the first of calls, in order. "" is an interpreted
// method, which may be any; the stack may begin with others.
func inOrder(stack, calls []string) bool {
	for n := 1; n <= min(len(stack), len(calls)); n++ {
		rest, last := stack[:len(stack)-n], stack[len(stack)-n:]
		matches := func(got, want string) bool { return got == "" || got == want }
		if strings.Join(rest, "") == "" && slices.EqualFunc(last, calls[:n], matches) {
			return true
		}
	}
	return false
}

// Java methods without frame pointers show the callers, in the order of the calls: compiled ones by both
// compilers, and those that are being entered or left.
func TestScenarioJavaStacks(t *testing.T) {
	needEvents(t)
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip(err)
	}
	source, err := filepath.Abs("testdata/Calls.java")
	if err != nil {
		t.Fatal(err)
	}
	calls := slices.Concat([]string{"main", "a"}, slices.Repeat([]string{"rec"}, 21), []string{"b", "c", "leaf"})
	for name, option := range map[string]string{
		"both compilers": "-XX:+TieredCompilation", "C1": "-XX:TieredStopAtLevel=1", "C2": "-XX:-TieredCompilation",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mustRecord(t, dir, "-o", "p.data", "-e", "cpu-clock:u", "-F", "499", "-g", "--", java, option,
				"-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Calls.*", "-XX:+UnlockDiagnosticVMOptions",
				"-XX:+DumpPerfMapAtExit", source, "3000")
			out, _ := gperf(t, "script", "--no-inline", "-F", "ip,sym", "-i", filepath.Join(dir, "p.data"))
			n, complete := 0, 0
			for _, stack := range strings.Split(out, "\n\n") {
				var got []string
				for _, line := range slices.Backward(strings.Split(stack, "\n")) {
					if m := callsMethod.FindStringSubmatch(line); m != nil {
						got = append(got, m[1])
					}
				}
				if strings.Join(got, "") == "" {
					continue
				}
				n++
				if !strings.Contains(stack, "JavaMain") {
					continue // before the unwind tables were there
				}
				complete++
				if !inOrder(got, calls) {
					t.Errorf("wrong order of calls:\n%s", stack)
				}
			}
			if n == 0 {
				t.Skip("no names: java is older than 17")
			}
			if n < 100 || complete*100 < n*90 {
				t.Errorf("%d of %d stacks are complete", complete, n)
			}
		})
	}
}

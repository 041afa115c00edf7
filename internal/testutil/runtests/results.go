// This file reads the output of test binaries, and keeps the test results in files.

package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// testRun holds the results of tests that ran on one machine.
type testRun struct {
	Kernel  string // as in the arguments of testdata/kernels/test.sh: 5.10, arm64-6.1; host or race: this machine
	Release string // of uname -r
	Results []testResult
}

// testResult is the result of a test or subtest.
type testResult struct {
	Package string // relative to the module
	Test    string
	Outcome string // PASS, FAIL or SKIP
	Seconds string
	Reason  string   // one line; "" if it passed
	Output  []string // printed lines; none if it passed
}

var ended = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \((\S+)s\)$`)

// parseResults reads the output of test binaries that run with -test.v=test2json. A line before the output of each
// names the package ("=== PACKAGE cmd/gperf"), one after it contains the exit code ("=== EXIT 0"); "=== KERNEL 6.1"
// names the release.
func parseResults(r io.Reader, kernel string) (*testRun, error) {
	u := &testRun{Kernel: kernel}
	output := map[string][]string{} // of the running tests
	pkg, test := "", ""
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimPrefix(lines.Text(), "\x16") // test2json's mark of lines of the testing package
		word, rest, _ := strings.Cut(strings.TrimPrefix(line, "=== "), " ")
		rest = strings.TrimSpace(rest)
		switch m := ended.FindStringSubmatch(line); {
		case m != nil:
			u.end(testResult{Package: pkg, Test: m[2], Outcome: m[1], Seconds: m[3], Output: output[m[2]]})
			delete(output, m[2])
		case !strings.HasPrefix(line, "=== "):
			output[test] = append(output[test], line)
		case word == "KERNEL":
			u.Release = rest
		case word == "PACKAGE":
			pkg, test, output = rest, "", map[string][]string{}
		case word == "EXIT" && rest != "0" || word == "GUEST":
			// A failure outside of tests, such as a panic, counts as failure of the running test, if any.
			if !u.failedIn(pkg) {
				u.end(testResult{Package: pkg, Test: test, Outcome: "FAIL", Seconds: "0",
					Output: append(output[test], strings.ToLower(word)+" "+rest)})
			}
		case word == "RUN" || word == "NAME" || word == "CONT":
			test = rest
		}
	}
	return u, lines.Err()
}

func (u *testRun) failedIn(pkg string) bool {
	return slices.ContainsFunc(u.Results, func(r testResult) bool { return r.Package == pkg && r.Outcome == "FAIL" })
}

var position = regexp.MustCompile(`^\s*\w+_test\.go:\d+: `)

func (u *testRun) end(r testResult) {
	if r.Outcome == "PASS" {
		r.Output = nil
	}
	for _, line := range r.Output { // the last line that the test itself printed
		if at := position.FindString(line); at != "" {
			r.Reason = strings.TrimPrefix(line, at)
		}
	}
	r.Reason = strings.TrimRight(strings.ReplaceAll(r.Reason, "\t", " "), ": ")
	u.Results = append(u.Results, r)
}

// Write writes a line for each test: kernel, release, package, test, outcome, seconds, reason.
func (u *testRun) Write(path string) error {
	var b strings.Builder
	for _, r := range u.Results {
		fmt.Fprintln(&b, strings.Join([]string{u.Kernel, u.Release, r.Package, r.Test, r.Outcome, r.Seconds, r.Reason},
			"\t"))
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// Print prints the result of a test that did not pass.
func (r *testResult) Print(w io.Writer) {
	switch r.Outcome {
	case "FAIL":
		fmt.Fprintf(w, "FAIL %s %s (%s s)\n\t%s\n", r.Package, r.Test, r.Seconds, strings.Join(r.Output, "\n\t"))
	case "SKIP":
		fmt.Fprintf(w, "SKIP %s %s: %s\n", r.Package, r.Test, r.Reason)
	}
}

// Count prints the numbers of tests by outcome, and reports whether a test failed or none passed.
func (u *testRun) Count(w io.Writer) (failed bool) {
	counts := map[string]int{}
	for _, r := range u.Results {
		counts[r.Outcome]++
	}
	fmt.Fprintf(w, "%s (%s): %d passed, %d skipped, %d failed\n", u.Kernel, u.Release, counts["PASS"], counts["SKIP"],
		counts["FAIL"])
	return counts["FAIL"] > 0 || counts["PASS"] == 0
}

// printSlowestTests prints the n tests of all runs that took longest, without subtests.
func printSlowestTests(w io.Writer, runs []*testRun, n int) {
	type timed struct {
		seconds    float64
		what, test string
	}
	var l []timed
	for _, u := range runs {
		for _, r := range u.Results {
			if s, err := strconv.ParseFloat(r.Seconds, 64); err == nil && !strings.Contains(r.Test, "/") {
				l = append(l, timed{s, u.Kernel, r.Package + " " + r.Test})
			}
		}
	}
	slices.SortStableFunc(l, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range l[:min(n, len(l))] {
		fmt.Fprintf(w, "%7.1f s  %-10s %s\n", t.seconds, t.what, t.test)
	}
}

// readAllResults reads the files of a directory that Write wrote, and leaves out empty ones.
func readAllResults(dir string) (l []*testRun, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.tsv"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		u, err := readResults(path)
		if err != nil {
			return nil, err
		}
		if len(u.Results) > 0 {
			l = append(l, u)
		}
	}
	return l, nil
}

// readResults reads a file that Write wrote.
func readResults(path string) (*testRun, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	u := &testRun{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 7 {
			return nil, fmt.Errorf("%s: %d fields instead of 7 in %q", path, len(f), line)
		}
		u.Kernel, u.Release = f[0], f[1]
		u.Results = append(u.Results, testResult{Package: f[2], Test: f[3], Outcome: f[4], Seconds: f[5], Reason: f[6]})
	}
	return u, nil
}

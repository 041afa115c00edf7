// Kernels makes tables of the recording tests on other kernels: from one run's output, the results of each test;
// from the results of several runs, the matrix in docs/kernels.md. test.sh runs it.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	kernel := flag.String("kernel", "", "`kernel` of the test output on standard input, as for test.sh")
	out := flag.String("o", "", "write the results to this `file`")
	into := flag.String("matrix", "", "write the matrix of the results in the argument's directory to this `file`")
	flag.Parse()
	var err error
	if *into != "" {
		err = insertMatrix(*into, flag.Arg(0))
	} else {
		err = convert(os.Stdin, *kernel, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errFailed = errors.New("tests failed")

// convert reads the output of tests in a guest, writes their results, and prints failed and skipped tests.
func convert(r io.Reader, kernel, path string) error {
	run, err := parseRun(r, kernel)
	if err != nil {
		return err
	}
	if err := run.write(path); err != nil {
		return err
	}
	if run.summarize(os.Stdout) {
		return fmt.Errorf("kernel %s: %w", kernel, errFailed)
	}
	return nil
}

// run holds the results of the tests on a kernel.
type run struct {
	kernel  string // as in the arguments of test.sh: 5.10, arm64-6.1
	release string // of uname -r
	results []result
}

// result is the result of a test or subtest.
type result struct {
	pkg, test string
	outcome   string // PASS, FAIL or SKIP
	seconds   string
	reason    string   // one line; "" if it passed
	output    []string // printed lines; none if it passed
}

var ended = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \((\S+)s\)$`)

// parseRun reads the output of test binaries, and the lines that the guests of test.sh print between them.
func parseRun(r io.Reader, kernel string) (*run, error) {
	u := &run{kernel: kernel}
	output := map[string][]string{} // of the tests that have not ended
	pkg, test := "", ""
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimPrefix(lines.Text(), "\x16") // test2json's mark of lines of the testing package
		word, rest, _ := strings.Cut(strings.TrimPrefix(line, "=== "), " ")
		rest = strings.TrimSpace(rest)
		switch m := ended.FindStringSubmatch(line); {
		case m != nil:
			u.end(result{pkg: pkg, test: m[2], outcome: m[1], seconds: m[3], output: output[m[2]]})
			delete(output, m[2])
		case !strings.HasPrefix(line, "=== "):
			output[test] = append(output[test], line)
		case word == "KERNEL":
			u.release = rest
		case word == "PACKAGE":
			pkg, test, output = rest, "", map[string][]string{}
		case word == "EXIT" && rest != "0" || word == "GUEST":
			// A failure outside of tests, such as a panic, counts as failure of the running test, if any.
			if !u.failedIn(pkg) {
				u.end(result{pkg: pkg, test: test, outcome: "FAIL", seconds: "0",
					output: append(output[test], strings.ToLower(word)+" "+rest)})
			}
		case word == "RUN" || word == "NAME" || word == "CONT":
			test = rest
		}
	}
	return u, lines.Err()
}

func (u *run) failedIn(pkg string) bool {
	for _, r := range u.results {
		if r.pkg == pkg && r.outcome == "FAIL" {
			return true
		}
	}
	return false
}

var position = regexp.MustCompile(`^\s*\w+_test\.go:\d+: `)

func (u *run) end(r result) {
	if r.outcome == "PASS" {
		r.output = nil
	}
	for _, line := range r.output { // the last line that the test itself printed
		if at := position.FindString(line); at != "" {
			r.reason = strings.TrimPrefix(line, at)
		}
	}
	r.reason = strings.TrimRight(strings.ReplaceAll(r.reason, "\t", " "), ": ")
	u.results = append(u.results, r)
}

// write writes a line for each test: kernel, release, package, test, outcome, seconds, reason.
func (u *run) write(path string) error {
	var b strings.Builder
	for _, r := range u.results {
		fmt.Fprintln(&b, strings.Join([]string{u.kernel, u.release, r.pkg, r.test, r.outcome, r.seconds, r.reason},
			"\t"))
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// summarize prints the tests that did not pass, and reports whether a test failed or none ran.
func (u *run) summarize(w io.Writer) (failed bool) {
	counts := map[string]int{}
	for _, r := range u.results {
		counts[r.outcome]++
		switch r.outcome {
		case "FAIL":
			fmt.Fprintf(w, "FAIL %s %s (%s s)\n\t%s\n", r.pkg, r.test, r.seconds, strings.Join(r.output, "\n\t"))
		case "SKIP":
			fmt.Fprintf(w, "SKIP %s %s: %s\n", r.pkg, r.test, r.reason)
		}
	}
	fmt.Fprintf(w, "kernel %s (%s): %d passed, %d skipped, %d failed; ", u.kernel, u.release, counts["PASS"],
		counts["SKIP"], counts["FAIL"])
	return counts["FAIL"] > 0 || counts["PASS"] == 0
}

// readRuns reads the files of a directory that write wrote.
func readRuns(dir string) (l []*run, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.tsv"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		u := &run{}
		for line := range strings.Lines(string(text)) {
			f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if len(f) != 7 {
				return nil, fmt.Errorf("%s: %d fields instead of 7 in %q", path, len(f), line)
			}
			u.kernel, u.release = f[0], f[1]
			u.results = append(u.results, result{pkg: f[2], test: f[3], outcome: f[4], seconds: f[5], reason: f[6]})
		}
		if len(u.results) > 0 {
			l = append(l, u)
		}
	}
	return l, nil
}

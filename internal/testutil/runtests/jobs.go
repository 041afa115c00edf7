package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// job is a process: tests of one package.
type job struct {
	binary
	tests []string
	first bool
}

// list asks the binaries for their tests, and divides these into jobs: jobs that run next to others, and jobs that
// need the machine alone. Meanwhile each binary builds the programs that its tests need.
func (o *options) list(binaries []binary) (beside, alone []job, err error) {
	tests := make([][]string, len(binaries))
	errs := make([]error, len(binaries))
	o.parallel(len(binaries), o.jobs, func(i int) { tests[i], errs[i] = o.testsOf(binaries[i]) })
	for i, b := range binaries {
		if errs[i] != nil {
			return nil, nil, errs[i]
		}
		rest := job{binary: b}
		for _, t := range tests[i] {
			one := job{b, []string{t}, o.first.MatchString(t)}
			switch {
			case strings.HasSuffix(t, "Alone"):
				alone = append(alone, one)
			case one.first || o.each.MatchString(b.dir):
				beside = append(beside, one)
			default:
				rest.tests = append(rest.tests, t)
			}
		}
		if len(rest.tests) > 0 {
			beside = append(beside, rest)
		}
	}
	slices.SortStableFunc(beside, func(a, b job) int {
		switch {
		case a.first == b.first:
			return 0
		case a.first:
			return -1
		}
		return 1
	})
	return beside, alone, nil
}

// testsOf returns the selected tests, examples and fuzz targets of a package, in order.
func (o *options) testsOf(b binary) ([]string, error) {
	out, err := o.command(b, "-test.list=.").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", b.dir, err, out)
	}
	var l []string
	for line := range strings.Lines(string(out)) {
		name := strings.TrimSpace(line)
		if isTest.MatchString(name) && o.run.MatchString(name) && !o.skip.MatchString(name) {
			l = append(l, name)
		}
	}
	return l, nil
}

var isTest = regexp.MustCompile(`^(Test|Fuzz|Example)\w*$`)

func (o *options) command(b binary, args ...string) *exec.Cmd {
	cmd := exec.Command(b.path, args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "GPERF_TEST_PROGRAMS="+o.programs())
	return cmd
}

// start runs the jobs, n at a time, prints the tests that fail or skip, and adds the results to all.
func (o *options) start(jobs []job, n int, all *testRun) {
	var mu sync.Mutex
	o.parallel(len(jobs), n, func(i int) {
		l := o.runJob(jobs[i])
		mu.Lock()
		defer mu.Unlock()
		for _, r := range l {
			r.Print(os.Stdout)
		}
		all.Results = append(all.Results, l...)
	})
}

// parallel calls f with the numbers below count, n calls at a time.
func (o *options) parallel(count, n int, f func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	wg.Wait()
}

// runJob runs a process. A test without a result counts as failed: the process ended before it, or did not know it.
func (o *options) runJob(j job) []testResult {
	args := []string{"-test.run=^(" + strings.Join(j.tests, "|") + ")$", "-test.v=test2json",
		"-test.timeout=" + o.timeout}
	if o.short {
		args = append(args, "-test.short")
	}
	out, err := o.command(j.binary, args...).CombinedOutput()
	text := fmt.Sprintf("=== PACKAGE %s\n%s\n=== EXIT %s\n", j.dir, out, exit(err))
	run, err := parseResults(strings.NewReader(text), o.kernel)
	if err != nil {
		return []testResult{failure(j.dir, strings.Join(j.tests, "|"), err.Error())}
	}
	for _, t := range j.tests {
		ran := func(r testResult) bool { return r.Test == t || r.Outcome == "FAIL" }
		if !slices.ContainsFunc(run.Results, ran) {
			run.Results = append(run.Results, failure(j.dir, t, "it did not run"))
		}
	}
	return run.Results
}

func failure(pkg, test, why string) testResult {
	return testResult{Package: pkg, Test: test, Outcome: "FAIL", Seconds: "0", Reason: why,
		Output: []string{why}}
}

func exit(err error) string {
	if err == nil {
		return "0"
	}
	return err.Error()
}

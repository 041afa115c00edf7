// Runtests builds the test binaries of packages, each once, and runs their tests in several processes at a time.
//
// Tests of the packages that -each matches run one by one, in a process each; the tests of any other package run
// together. Tests whose names end with Alone need the machine for themselves: they run at the end, one after the
// other.
//
// The binaries, and the programs that tests run (package programs), stay in the directory -bin for other runs: the
// guests of testdata/kernels/test.sh run the same binaries.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
)

// options are the flags.
type options struct {
	jobs             int
	bin, out, kernel string
	run, skip        *regexp.Regexp
	each, first      *regexp.Regexp
	race, short      bool
	built, only      bool
	timeout          string
	packages         []string
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "kernels" {
		kernels()
		return
	}
	if program, args, ok := keeping(); ok {
		exitIf(keep(program, args))
		return
	}
	var o options
	none := regexp.MustCompile("$^")
	o.run, o.skip, o.each, o.first = regexp.MustCompile(""), none, none, none
	// Tests that record wait for half of their time.
	flag.IntVar(&o.jobs, "j", runtime.NumCPU()+1, "run `n` processes at a time")
	flag.StringVar(&o.bin, "bin", "", "keep test binaries and programs in this `directory`")
	flag.BoolVar(&o.built, "built", false, "the binaries are in -bin: build none")
	flag.BoolVar(&o.only, "build", false, "run no test, only build: for another $GOARCH, without the programs")
	flag.StringVar(&o.out, "o", "", "write the results to this `file`")
	flag.StringVar(&o.kernel, "kernel", "host", "`name` of the machine in the results")
	pattern(&o.run, "run", "run only tests that match this `regexp`")
	pattern(&o.skip, "skip", "do not run tests that match this `regexp`")
	pattern(&o.each, "each", "run each test of packages that match this `regexp` in a process of its own")
	pattern(&o.first, "first", "start tests that match this `regexp` first, because they take long")
	flag.BoolVar(&o.race, "race", false, "build with the race detector")
	flag.BoolVar(&o.short, "short", false, "pass -test.short")
	flag.StringVar(&o.timeout, "timeout", "20m", "end a process after this `duration`")
	slowest := flag.Int("slowest", 0, "print the `n` slowest tests of the result files in the arguments, and exit")
	flag.Parse()
	if *slowest > 0 {
		exitIf(printSlowest(os.Stdout, flag.Args(), *slowest))
		return
	}
	if o.packages = flag.Args(); len(o.packages) == 0 {
		o.packages = []string{"./..."}
	}
	failed, err := o.runAll()
	exitIf(err)
	if failed {
		os.Exit(1)
	}
}

func exitIf(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
		os.Exit(1)
	}
}

func pattern(to **regexp.Regexp, name, usage string) {
	flag.Func(name, usage, func(s string) (err error) {
		*to, err = regexp.Compile(s)
		return err
	})
}

// runAll builds and runs the tests, prints failed and skipped ones, and reports whether a test failed.
func (o *options) runAll() (failed bool, err error) {
	if o.bin == "" {
		if o.bin, err = os.MkdirTemp("", "gperf-tests-"); err != nil {
			return false, err
		}
		defer os.RemoveAll(o.bin)
	}
	binaries, err := o.build()
	if err != nil || o.only && cmp.Or(os.Getenv("GOARCH"), runtime.GOARCH) != runtime.GOARCH {
		return false, err
	}
	beside, alone, err := o.list(binaries)
	if err != nil || o.only {
		return false, err
	}
	all := &testRun{Kernel: o.kernel, Release: release()}
	o.start(beside, o.jobs, all)
	o.start(alone, 1, all)
	if o.out != "" {
		if err := all.Write(o.out); err != nil {
			return false, err
		}
	}
	return all.Count(os.Stdout), nil
}

func release() string {
	b, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(b))
}

func printSlowest(w io.Writer, files []string, n int) error {
	var runs []*testRun
	for _, f := range files {
		u, err := readResults(f)
		if err != nil {
			return err
		}
		runs = append(runs, u)
	}
	printSlowestTests(w, runs, n)
	return nil
}

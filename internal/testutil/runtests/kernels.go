// Kernels makes tables of the recording tests on other kernels: from one run's output, the results of each test;
// from the results of several runs, the matrix in docs/kernels.md. test.sh runs it.

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func kernels() {
	kernel := flag.String("kernel", "", "`kernel` of the test output on standard input, as for test.sh")
	out := flag.String("o", "", "write the results to this `file`")
	into := flag.String("matrix", "", "write the matrix of the results in the argument's directory to this `file`")
	flag.CommandLine.Parse(os.Args[2:])
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

// convert reads the output of tests in a guest, writes the results, and prints failed and skipped tests.
func convert(r io.Reader, kernel, path string) error {
	run, err := parseResults(r, kernel)
	if err != nil {
		return err
	}
	if err := run.Write(path); err != nil {
		return err
	}
	for _, r := range run.Results {
		r.Print(os.Stdout)
	}
	if run.Count(os.Stdout) {
		return fmt.Errorf("kernel %s: %w", kernel, errFailed)
	}
	return nil
}

// Gperf records performance data from the Linux kernel, and prints and reports
// it, in perf's file format and with perf's options.
//
// This package holds the flags, signals, exit codes and hints; packages record, script
// and report do the work. No other package writes to stderr or ends the process.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/input"
	"gperf/internal/untrusted"

	"github.com/spf13/cobra"
)

// Exit codes. gperf record also returns the command's exit code.
const (
	exitOK    = 0
	exitError = 1 // the command failed
	exitUsage = 2 // wrong use
)

// exitStatus is the error of a command that already reported the reason on stderr, or
// whose result is an exit code.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// errReported is the error of a command that was only partly successful.
const errReported = exitStatus(exitError)

// endsProcess is whether the process ends with the command: not in tests.
var endsProcess bool

func main() {
	endsProcess = true
	input.EnableSandbox(cli.PagerCommand())
	stdout, stderr := cli.Outputs(os.Stdout, os.Stderr)
	os.Exit(run(os.Args[1:], stdout, stderr))
}

// run runs a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	page := len(args) == 0 || args[0] != "--"+noPager
	if !page {
		args = args[1:]
	}
	if len(args) == 0 {
		cli.PrintHelp(stderr, newRoot(stdout, stderr))
		return exitUsage
	}
	root := newRootFor(args[0], stdout, stderr)
	switch args[0] {
	case "-h", "--help":
		args = []string{"help"}
	case "-v", "--version":
		args = []string{"version"}
	case cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd: // a shell asks for completions
		return complete(root, args)
	}
	c := find(root, args[0])
	if c == nil || !c.Runnable() {
		return unknown(root, args[0], stderr)
	}
	rewritten := cli.Rewrite(c, args[1:])
	if c.Flags().Lookup(noPager) != nil && !page {
		rewritten = append([]string{"--" + noPager}, rewritten...)
	}
	root.SetArgs(append([]string{c.Name()}, rewritten...))
	code := exitCode(c.Name(), root.Execute(), stderr)
	if err := untrusted.NoAnswer(); err != nil {
		fmt.Fprintf(stderr, "gperf %s: %v\n", c.Name(), err)
	}
	return cmp.Or(cli.CloseOutput(stdout), code)
}

// exitCode reports the error of a command and returns the exit code.
func exitCode(command string, err error, stderr io.Writer) int {
	var status exitStatus
	switch {
	case err == nil, cli.IsClosedPipe(err): // the reader exited
		return exitOK
	case errors.As(err, &status):
		return int(status)
	}
	return fail(command, err, stderr)
}

// Time limits of signals. timeout(1) sends each signal twice: to the child and to the group.
const (
	sameSignal = 100 * time.Millisecond // signals this close together count as one
	hurryTime  = 500 * time.Millisecond // for finishing the file after the second
)

// interrupts returns a context that the first Ctrl-C (or SIGTERM, SIGHUP) cancels, and a
// channel that the second closes. If gperf still runs hurryTime later, for example because
// it is blocked in a write, it exits: the file is readable at any moment.
func interrupts() (ctx context.Context, hurry <-chan struct{}, stop func()) {
	return interruptsBy(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// interruptsBy is interrupts for these signals.
func interruptsBy(which ...os.Signal) (ctx context.Context, hurry <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals, second := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, which...)
	go func() {
		<-signals
		cancel()
		first := time.Now()
		sig := <-signals
		for time.Since(first) < sameSignal {
			sig = <-signals
		}
		close(second)
		time.Sleep(hurryTime)
		os.Exit(128 + int(sig.(syscall.Signal)))
	}()
	return ctx, second, func() { signal.Stop(signals); cancel() }
}

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"gperf/internal/suggest"
)

// newFlagSet returns a flag set with the flags that all commands have.
func newFlagSet(name string) *pflag.FlagSet {
	s := pflag.NewFlagSet(name, pflag.ContinueOnError)
	s.SortFlags = false
	s.SetOutput(io.Discard)
	s.Usage = func() {}
	s.BoolP("help", "h", false, "print this text")
	return s
}

// readCommand parses the flags of a command that reads a recording, calls run, and returns
// the exit code.
func readCommand(s *pflag.FlagSet, args []string, what string, stdout, stderr io.Writer, run func() error) int {
	done, err := parseFlags(s, args, what, stdout)
	return finish(s, done, err, stderr, run)
}

// finish calls run unless parsing failed or printed the help, and returns the exit code.
func finish(s *pflag.FlagSet, done bool, err error, stderr io.Writer, run func() error) int {
	if err == nil && !done {
		err = reportIdle(s, stderr)
	}
	if err == nil && !done {
		err = run()
	}
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE): // the reader of the pipe exited
		return exitOK
	case err == errReported:
		return exitError
	}
	return fail(s.Name(), err, stderr)
}

// errReported is the error of a command that was only partly successful and has already
// reported the reason on stderr.
var errReported = errors.New("not everything could be done")

// printing calls run with a buffered stdout and returns the exit code. A write error is an
// error of the command, except EPIPE: the reader of the pipe exited.
func printing(command string, stdout, stderr io.Writer, run func(io.Writer) error) int {
	w := bufio.NewWriter(stdout)
	err := run(w)
	if e := w.Flush(); e != nil {
		err = e
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		return fail(command, err, stderr)
	}
	return exitOK
}

// addInput adds -i and -f. force is the value of -f: without it, perf does not read files
// of other users.
func addInput(s *pflag.FlagSet, path *string) (force *bool) {
	s.StringVarP(path, "input", "i", "", inputUsage)
	return addForce(s)
}

const inputUsage = "input `file` or directory (default perf.data); - is stdin"

func addForce(s *pflag.FlagSet) (force *bool) {
	force = s.BoolP("force", "f", false, "")
	hide(s, "force")
	return force
}

// parseFlags parses the flags of a command that reads a recording, and an argument that
// names the recording. With --help, it prints the help and sets done.
func parseFlags(s *pflag.FlagSet, args []string, what string, stdout io.Writer) (done bool, err error) {
	done, err = parseAll(s, args, "[FLAGS]", what, stdout)
	switch {
	case err != nil || s.NArg() == 0:
	case s.NArg() == 1 && operandFlag(s, s.Arg(0)) != "":
		err = s.Set(operandFlag(s, s.Arg(0)), s.Arg(0))
	default:
		err = wrongUse("unexpected argument %q: name a file with -i", s.Arg(0))
	}
	return done, err
}

// parseAll parses flags and arguments in any order. With --help, it prints usage, the
// description what and the flags, and sets done.
func parseAll(s *pflag.FlagSet, args []string, usage, what string, stdout io.Writer) (done bool, err error) {
	if err := parse(s, args); err != nil {
		return false, err
	}
	if help, _ := s.GetBool("help"); help {
		fmt.Fprintf(stdout, "Usage: gperf %s %s\n\n%s\n\n%s", s.Name(), usage, what, s.FlagUsages())
		return true, nil
	}
	return false, nil
}

// parse parses flags as perf does: names may be abbreviated, and --no-FLAG negates a
// boolean flag.
func parse(s *pflag.FlagSet, args []string) error {
	allowAbbreviations(s)
	return parseError(s, s.Parse(withNegations(s, args)))
}

// parseError converts an error of pflag to wrong use, and suggests similar flags.
func parseError(s *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		if l := suggest.Names(unknown.GetSpecifiedName(), flagNames(s)); len(l) > 0 {
			return wrongUse("%v: did you mean --%s?", err, strings.Join(l[:min(len(l), 2)], " or --"))
		}
	}
	return wrongUse("%v", err)
}

// withNegations rewrites --no-FLAG to --FLAG=false.
func withNegations(s *pflag.FlagSet, args []string) []string {
	args = slices.Clone(args)
	for i, a := range args {
		if a == "--" {
			break
		}
		if name, ok := strings.CutPrefix(a, "--"); ok {
			args[i], _ = negated(s, name)
		}
	}
	return args
}

// operandFlag returns the flag whose value an argument is: --input, or, for report as in
// perf, --symbol-filter; "" if there is none.
func operandFlag(s *pflag.FlagSet, arg string) string {
	const input, filter = "input", "symbol-filter"
	f := s.Lookup(input)
	_, err := os.Stat(arg)
	isFile := err == nil || strings.Contains(arg, "/") || strings.HasSuffix(arg, ".data")
	switch hasFilter := s.Lookup(filter) != nil; {
	case f != nil && !f.Changed && (isFile || !hasFilter):
		return input
	case hasFilter:
		return filter
	}
	return ""
}

// allowAbbreviations makes s accept an unambiguous prefix of a flag's name, as perf does.
func allowAbbreviations(s *pflag.FlagSet) {
	names := flagNames(s)
	s.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		match := ""
		for _, n := range names {
			if n == name {
				match = n
				break
			}
			if strings.HasPrefix(n, name) {
				if match != "" {
					return pflag.NormalizedName(name) // ambiguous: pflag reports an unknown flag
				}
				match = n
			}
		}
		if match == "" {
			match = name
		}
		return pflag.NormalizedName(match)
	})
}

// maxStack is the maximum number of frames of a recorded callchain. perfMaxStack is the
// number that perf shows by default, its PERF_MAX_STACK_DEPTH.
const (
	maxStack     = 1024
	perfMaxStack = 127
)

const maxStackHelp = "limit callchains to this number of `frames` (--format: no limit)"

// hide hides flags of perf that have no effect in gperf from the help.
func hide(s *pflag.FlagSet, names ...string) {
	for _, name := range names {
		s.Lookup(name).Hidden = true
	}
}

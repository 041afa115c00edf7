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

	"gperf/record/near"
)

// newFlagSet returns the flags of a command that reads a file, with those that
// all of them have.
func newFlagSet(name string) *pflag.FlagSet {
	s := pflag.NewFlagSet(name, pflag.ContinueOnError)
	s.SortFlags = false
	s.SetOutput(io.Discard)
	s.Usage = func() {}
	s.BoolP("help", "h", false, "this text")
	return s
}

// readCommand is a command that reads a recording: it parses the flags and runs,
// and returns the exit code.
func readCommand(s *pflag.FlagSet, args []string, what string, stdout, stderr io.Writer, run func() error) int {
	done, err := parseFlags(s, args, what, stdout)
	return finish(s, done, err, stderr, run)
}

// finish runs a command whose flags were parsed, unless that was all or failed, and
// returns the exit code.
func finish(s *pflag.FlagSet, done bool, err error, stderr io.Writer, run func() error) int {
	if err == nil && !done {
		err = reportIdle(s, stderr)
	}
	if err == nil && !done {
		err = run()
	}
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE): // the reader at the pipe's end has seen enough
		return exitOK
	case err == errReported:
		return exitError
	}
	return fail(s.Name(), err, stderr)
}

// errReported is the error of a command that did what it could, and has reported on
// stderr why that is not all.
var errReported = errors.New("not everything could be done")

// printing runs a command that prints, and returns its exit code. What cannot be
// written is an error, unless the reader at the pipe's end has seen enough.
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

// addInput adds the flags that say what is read. force tells whether -f was given:
// perf takes only with it what belongs to other users.
func addInput(s *pflag.FlagSet, path *string) (force *bool) {
	s.StringVarP(path, "input", "i", "", inputUsage)
	return addForce(s)
}

const inputUsage = "read this `file`, or directory, instead of perf.data; - is stdin"

func addForce(s *pflag.FlagSet) (force *bool) {
	force = s.BoolP("force", "f", false, "")
	hide(s, "force")
	return force
}

// parseFlags parses the flags of a command that reads, and an argument that names the
// recording. It prints the command's help when that is asked for: done says that there
// is no more to do.
func parseFlags(s *pflag.FlagSet, args []string, what string, stdout io.Writer) (done bool, err error) {
	done, err = parseAll(s, args, "[FLAGS]", what, stdout)
	switch {
	case err != nil || s.NArg() == 0:
	case s.NArg() == 1 && operandFlag(s, s.Arg(0)) != "":
		err = s.Set(operandFlag(s, s.Arg(0)), s.Arg(0))
	default:
		err = wrongUse("unexpected argument %q: a file is named with -i", s.Arg(0))
	}
	return done, err
}

// parseAll parses flags, between which arguments may stand; usage tells of both.
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

// parse parses flags as perf does: they may be abbreviated, and --no-FLAG turns a
// switch off.
func parse(s *pflag.FlagSet, args []string) error {
	allowAbbreviations(s)
	return parseError(s, s.Parse(withNegations(s, args)))
}

// parseError says what is wrong with the flags, and which may have been meant.
func parseError(s *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		if l := near.Names(unknown.GetSpecifiedName(), flagNames(s)); len(l) > 0 {
			return wrongUse("%v: did you mean --%s?", err, strings.Join(l[:min(len(l), 2)], " or --"))
		}
	}
	return wrongUse("%v", err)
}

// withNegations rewrites flags that negate others, as --no-FLAG does.
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

// operandFlag is the flag that an argument is the value of: the recording, or for
// report, as in perf, a filter of symbols; "" if there is none.
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

// allowAbbreviations lets a flag be called by the beginning of its name, as
// perf's can.
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
					return pflag.NormalizedName(name) // ambiguous: left to be unknown
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

// maxStack is how many frames of a callchain are counted: all that a recording can
// have. perfMaxStack is how many perf shows, its PERF_MAX_STACK_DEPTH.
const (
	maxStack     = 1024
	perfMaxStack = 127
)

const maxStackHelp = "at most this many `frames` of a callchain; without the flag all with --format, else 127, or as many as were asked for when recording"

// hide keeps flags that perf has, and that change nothing here, out of the help.
func hide(s *pflag.FlagSet, names ...string) {
	for _, name := range names {
		s.Lookup(name).Hidden = true
	}
}

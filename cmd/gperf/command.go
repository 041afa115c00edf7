package main

import (
	"bufio"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Groups of commands in the help.
const (
	groupRecord  = "Record"
	groupAnalyse = "Analyse"
	groupFiles   = "Recordings"
	groupOther   = "Other"
)

// newRoot returns the tree of commands and help topics. cobra finds the command, parses its
// flags, and generates completions; gperf prints help and errors itself, as perf does.
func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{Use: "gperf", SilenceErrors: true, SilenceUsage: true}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { printHelp(c.OutOrStdout(), c) })
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return flagError(c.Flags(), err) })
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return reportIdle(c, stderr) }
	root.CompletionOptions.DisableDefaultCmd = true
	for _, title := range []string{groupRecord, groupAnalyse, groupFiles, groupOther} {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
	}
	root.AddCommand(recordCommand(), probeCommand(), listCommand(), doctorCommand(),
		reportCommand(), scriptCommand(), annotateCommand(),
		evlistCommand(), buildIDCommand(), archiveCommand(),
		cacheCommand(), completionCommand(), versionCommand())
	help := helpCommand()
	root.SetHelpCommand(help)
	root.AddCommand(help)
	root.AddCommand(topics()...)
	for _, c := range root.Commands() {
		setHelp(c)
		addFlags(c, generalFlags, func(s *pflag.FlagSet) { s.BoolP("help", "h", false, "print this text") })
		allowAbbreviations(c.Flags())
	}
	return root
}

// find returns the command or help topic of this name, or nil.
func find(root *cobra.Command, name string) *cobra.Command {
	for _, c := range root.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// newCommand returns a command. use is its name and its arguments, in one line for each form;
// summary is one line.
func newCommand(group, use, summary string) *cobra.Command {
	c := &cobra.Command{Use: use, Short: summary, GroupID: group, Args: cobra.ArbitraryArgs}
	c.Flags().SortFlags = false
	return c
}

// stopKey is the annotation of a command whose first operand ends its flags, because it
// begins another command.
const stopKey = "stop"

func stops(c *cobra.Command) bool {
	_, ok := c.Annotations[stopKey]
	return ok
}

// readCommand returns a command that reads a recording. The recording may be an argument.
func readCommand(group, name, summary string) *cobra.Command {
	c := newCommand(group, name+" [FLAGS] [FILE]", summary)
	c.Args = func(c *cobra.Command, args []string) error { return setOperand(c.Flags(), args) }
	return c
}

// noOperands refuses arguments.
func noOperands(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return wrongUse("unexpected argument %q", args[0])
	}
	return nil
}

// setOperand sets the flag whose value the argument is.
func setOperand(s *pflag.FlagSet, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case len(args) == 1 && operandFlag(s, args[0]) != "":
		return s.Set(operandFlag(s, args[0]), args[0])
	}
	return wrongUse("unexpected argument %q: name a file with -i", args[0])
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

// generalFlags is the title of the last group of flags.
const generalFlags = "General"

// groupKey is the annotation of a flag that holds the title of its group.
const groupKey = "group"

// addFlags adds the flags that define defines, as a group with this title in the help.
func addFlags(c *cobra.Command, title string, define func(*pflag.FlagSet)) {
	s := pflag.NewFlagSet(title, pflag.ContinueOnError)
	s.SortFlags = false
	define(s)
	s.VisitAll(func(f *pflag.Flag) { s.SetAnnotation(f.Name, groupKey, []string{title}) })
	c.Flags().AddFlagSet(s)
}

// addInput adds -i and -f. force is the value of -f: without it, perf does not read files
// of other users.
func addInput(s *pflag.FlagSet, path *string) (force *bool) {
	s.StringVarP(path, "input", "i", "", inputUsage)
	return addForce(s)
}

const inputUsage = "`file` or directory (default perf.data); - is stdin"

func addForce(s *pflag.FlagSet) (force *bool) {
	force = s.BoolP("force", "f", false, "")
	hide(s, "force")
	return force
}

// buffered calls write with a buffered stdout. It returns the error of write or of stdout.
func buffered(stdout io.Writer, write func(io.Writer) error) error {
	w := bufio.NewWriter(stdout)
	err := write(w)
	if e := w.Flush(); e != nil {
		return e
	}
	return err
}

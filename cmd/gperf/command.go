package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"gperf/cmd/gperf/cli"
	"gperf/internal/text"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maker makes the command of a name.
type maker struct {
	name string
	make func() *cobra.Command
}

// makers returns the makers of all commands. Recorders need Linux.
func makers() []maker {
	return slices.Concat(recorders(), []maker{{"report", reportCommand}, {"view", viewCommand},
		{"overview", overviewCommand}, {"script", scriptCommand}, {"diff", diffCommand},
		{"annotate", annotateCommand}, {"evlist", evlistCommand}, {"buildid-list", buildIDCommand},
		{"archive", archiveCommand}, {"push", pushCommand}, {"cache", cacheCommand},
		{"completion", completionCommand}, {"version", cli.VersionCommand}})
}

// linuxOnly returns the makers of the commands that record, as they are on other systems than Linux.
func linuxOnly() (l []maker) {
	for _, name := range []string{"record", "top", "probe", "list", "doctor"} {
		l = append(l, maker{name, func() *cobra.Command {
			c := cli.NewCommand(cli.GroupRecord, name+" …", "only on Linux")
			c.DisableFlagParsing = true
			c.RunE = func(*cobra.Command, []string) error { return errLinuxOnly }
			return c
		}})
	}
	return l
}

var errLinuxOnly = errors.New("only Linux records: record there, pack with `gperf archive`, and read the archive here")

// newRootFor returns the tree for a command line that begins with word: with the command of this name only, because
// making all flags of all commands takes longer than reading a small recording; else with everything.
func newRootFor(word string, stdout, stderr io.Writer) *cobra.Command {
	for _, m := range makers() {
		if m.name == word {
			root := bareRoot(stdout, stderr)
			addCommand(root, m.make())
			return root
		}
	}
	return newRoot(stdout, stderr)
}

// newRoot returns the tree of all commands and help topics.
func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := bareRoot(stdout, stderr)
	for _, m := range makers() {
		addCommand(root, m.make())
	}
	help := helpCommand()
	root.SetHelpCommand(help)
	addCommand(root, help)
	for _, c := range topics() {
		addCommand(root, c)
	}
	return root
}

// bareRoot returns a tree without commands. cobra finds the command, parses its
// flags, and generates completions; gperf prints help and errors itself, as perf does.
func bareRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{Use: "gperf", SilenceErrors: true, SilenceUsage: true}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		setHelp(c)
		cli.PrintHelp(c.OutOrStdout(), c)
	})
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return cli.FlagError(c.Flags(), err) })
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if f := c.Flags().Lookup(noPager); f != nil && f.Value.String() == "false" {
			cli.UsePager(stdout)
		}
		return cli.ReportIdle(c, stderr)
	}
	root.CompletionOptions.DisableDefaultCmd = true
	for _, title := range []string{cli.GroupRecord, cli.GroupAnalyse, cli.GroupFiles, cli.GroupOther} {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
	}
	return root
}

// addCommand adds a command or help topic, and the common flags.
func addCommand(root, c *cobra.Command) {
	root.AddCommand(c)
	cli.AddFlags(c, cli.General, func(s *pflag.FlagSet) {
		if slices.Contains(pagedCommands, c.Name()) {
			s.Bool(noPager, false, "print to a terminal without a pager")
		}
		s.BoolP("help", "h", false, "print this text")
	})
	cli.AllowAbbreviations(c.Flags())
}

// pagedCommands are the commands whose output to a terminal goes through a pager, unless this flag is given.
var pagedCommands = []string{"report", "script", "diff", "annotate", "evlist", "buildid-list", "list", "help"}

const noPager = "no-pager"

// find returns the command or help topic of this name, or nil.
func find(root *cobra.Command, name string) *cobra.Command {
	for _, c := range root.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// readCommand returns a command that reads a recording. The recording may be an argument.
func readCommand(group, name, summary string) *cobra.Command {
	c := cli.NewCommand(group, name+" [FLAGS] [FILE]", summary)
	c.Args = func(c *cobra.Command, args []string) error { return setOperand(c.Flags(), args) }
	return c
}

// setOperand sets the flag whose value the argument is.
func setOperand(s *pflag.FlagSet, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case len(args) == 1 && operandFlag(s, args[0]) != "":
		return s.Set(operandFlag(s, args[0]), args[0])
	}
	return cli.WrongUse("unexpected argument %q: name a file with -i", args[0])
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

// addInput adds -i and -f. force is the value of -f: without it, perf does not read files
// of other users.
func addInput(s *pflag.FlagSet, path *string) (force *bool) {
	s.StringVarP(path, "input", "i", "", inputUsage)
	return addForce(s)
}

const inputUsage = "`file`, directory or URL (default perf.data); - is stdin"

// addViews adds the flags that choose between the interactive view and text.
func addViews(s *pflag.FlagSet) {
	s.Bool("stdio", false, "print text, also to a terminal")
	s.Bool("tui", false, "show the view for terminals, or fail")
}

// addColor adds --stdio-color.
func addColor(s *pflag.FlagSet, mode *string) {
	s.StringVar(mode, "stdio-color", "auto", "colours: `when`, always or never")
	s.Lookup("stdio-color").NoOptDefVal = "always"
}

// lookOf returns how to print with --stdio-color.
func lookOf(stdout io.Writer, mode string) (text.Style, error) {
	l, err := cli.StyleOf(stdout, mode)
	if err != nil {
		return l, cli.WrongUse("--stdio-color: %v", err)
	}
	return l, nil
}

func addForce(s *pflag.FlagSet) (force *bool) {
	force = s.BoolP("force", "f", false, "")
	cli.Hide(s, "force")
	return force
}

// fail prints the error of a command and a hint, and returns the exit code.
func fail(command string, err error, stderr io.Writer) int {
	fmt.Fprintf(stderr, "gperf %s: %v\n%s", command, err, hintOf(err))
	if usage := (*cli.UsageError)(nil); errors.As(err, &usage) {
		fmt.Fprintf(stderr, "`gperf help %s` lists its flags.\n", command)
	}
	return codeOf(err)
}

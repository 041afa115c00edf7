// Package cli converts a command line in perf's style to flags: it groups the flags of a command, rewrites arguments
// that perf accepts and pflag does not, ignores or refuses flags of perf without effect, prints the help, sends long
// output through a pager, and shows the progress of slow steps.
package cli

import (
	"bufio"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Groups of commands in the help.
const (
	GroupRecord  = "Record"
	GroupAnalyse = "Analyse"
	GroupFiles   = "Recordings"
	GroupOther   = "Other"
)

// UsageError marks wrong use of a command.
type UsageError struct{ msg string }

func (e *UsageError) Error() string { return e.msg }

// WrongUse reports that the command line caused the error.
func (e *UsageError) WrongUse() bool { return true }

// WrongUse returns a UsageError.
func WrongUse(msg string, args ...any) error { return &UsageError{fmt.Sprintf(msg, args...)} }

// NewCommand returns a command. use is the name and the arguments, in one line for each form;
// summary is one line.
func NewCommand(group, use, summary string) *cobra.Command {
	c := &cobra.Command{Use: use, Short: summary, GroupID: group, Args: cobra.ArbitraryArgs}
	c.Flags().SortFlags = false
	return c
}

// NoOperands refuses arguments.
func NoOperands(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return WrongUse("unexpected argument %q", args[0])
	}
	return nil
}

// General is the title of the last group of flags.
const General = "General"

// groupKey is the annotation of a flag that holds the title of the flag's group.
const groupKey = "group"

// AddFlags adds the flags that define defines, as a group with this title in the help.
func AddFlags(c *cobra.Command, title string, define func(*pflag.FlagSet)) {
	s := pflag.NewFlagSet(title, pflag.ContinueOnError)
	s.SortFlags = false
	define(s)
	s.VisitAll(func(f *pflag.Flag) { s.SetAnnotation(f.Name, groupKey, []string{title}) })
	c.Flags().AddFlagSet(s)
}

// Hide hides flags of perf without effect in gperf from the help.
func Hide(s *pflag.FlagSet, names ...string) {
	for _, name := range names {
		s.Lookup(name).Hidden = true
	}
}

// stopKey is the annotation of a command whose first operand ends the flags.
const stopKey = "stop"

// StopAtOperand makes the first operand of a command end the flags, because it begins another
// command.
func StopAtOperand(c *cobra.Command) {
	c.Annotations = map[string]string{stopKey: ""}
	c.Flags().SetInterspersed(false)
}

// Buffered calls write with a buffered stdout. It returns the error of write or of stdout.
func Buffered(stdout io.Writer, write func(io.Writer) error) error {
	w := bufio.NewWriter(stdout)
	err := write(w)
	if e := w.Flush(); e != nil {
		return e
	}
	return err
}

package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Idle is a flag of perf without effect in gperf: gperf always behaves as it requests,
// or lacks this part of perf.
type Idle struct {
	Name  string // "modules", or "m,modules" with a shorthand
	Value bool   // whether it takes a value
	Why   string // the reason that it does nothing or is refused
	// Refused is set if ignoring the flag would give a wrong result.
	Refused bool
}

// idleValue is the unused value of an idle flag.
type idleValue struct{ Idle }

func (idleValue) String() string   { return "" }
func (idleValue) Set(string) error { return nil }
func (idleValue) Type() string     { return "value" }

// AddIdle defines the flags, hidden from the help.
func AddIdle(s *pflag.FlagSet, list []Idle) {
	for _, idle := range list {
		letter, name, ok := strings.Cut(idle.Name, ",")
		if !ok {
			letter, name = "", idle.Name
		}
		f := s.VarPF(idleValue{idle}, name, letter, "")
		f.Hidden = true
		if !idle.Value {
			f.NoOptDefVal = "true"
		}
	}
}

// ReportIdle prints a line for each idle flag that was given, except with -q; a refused one
// is an error.
func ReportIdle(c *cobra.Command, stderr io.Writer) (err error) {
	quiet := c.Flags().Changed("quiet")
	c.Flags().Visit(func(f *pflag.Flag) {
		switch v, ok := f.Value.(idleValue); {
		case !ok || quiet && !v.Refused:
		case v.Refused:
			err = WrongUse("--%s: %s", f.Name, v.Why)
		default:
			fmt.Fprintf(stderr, "gperf %s: --%s has no effect: %s\n", c.Name(), f.Name, v.Why)
		}
	})
	return err
}

func IsIdle(f *pflag.Flag) bool {
	_, ok := f.Value.(idleValue)
	return ok
}

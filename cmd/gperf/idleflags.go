package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// idleFlag is a flag of perf that has no effect in gperf: gperf always does what it requests,
// or does not have this part of perf.
type idleFlag struct {
	name  string // "modules", or "m,modules" with a shorthand
	value bool   // whether it has a value
	why   string // the reason that it has no effect or is refused
	// refused is set if ignoring the flag would give a wrong result.
	refused bool
}

// idleValue is the unused value of an idle flag.
type idleValue struct{ idleFlag }

func (idleValue) String() string   { return "" }
func (idleValue) Set(string) error { return nil }
func (idleValue) Type() string     { return "value" }

// addIdle defines the flags, hidden from the help.
func addIdle(s *pflag.FlagSet, list []idleFlag) {
	for _, idle := range list {
		letter, name, ok := strings.Cut(idle.name, ",")
		if !ok {
			letter, name = "", idle.name
		}
		f := s.VarPF(idleValue{idle}, name, letter, "")
		f.Hidden = true
		if !idle.value {
			f.NoOptDefVal = "true"
		}
	}
}

// reportIdle prints a line for each idle flag that was given, except with -q; a refused one
// is an error.
func reportIdle(c *cobra.Command, stderr io.Writer) (err error) {
	quiet := c.Flags().Changed("quiet")
	c.Flags().Visit(func(f *pflag.Flag) {
		switch v, ok := f.Value.(idleValue); {
		case !ok || quiet && !v.refused:
		case v.refused:
			err = wrongUse("--%s: %s", f.Name, v.why)
		default:
			fmt.Fprintf(stderr, "gperf %s: --%s has no effect: %s\n", c.Name(), f.Name, v.why)
		}
	})
	return err
}

func isIdle(f *pflag.Flag) bool {
	_, ok := f.Value.(idleValue)
	return ok
}

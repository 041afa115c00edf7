package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/record/doctor"
)

func doctorCommand() *cobra.Command {
	var asJSON bool
	c := cli.NewCommand(cli.GroupRecord, "doctor [FLAGS]",
		"check what this machine can record, and how to fix the rest")
	cli.AddFlags(c, cli.General, func(s *pflag.FlagSet) { s.BoolVarP(&asJSON, "json", "j", false, "print JSON") })
	c.Args = cli.NoOperands
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, _, stop := interrupts()
		defer stop()
		checks := doctor.This().All(ctx)
		if ctx.Err() != nil {
			return errReported
		}
		err := cli.Buffered(c.OutOrStdout(), func(w io.Writer) error {
			if !asJSON {
				printChecks(w, checks)
				return nil
			}
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			return enc.Encode(checks)
		})
		if err == nil && !doctor.CanRecord(checks) {
			return errReported
		}
		return err
	}
	return c
}

// printChecks writes one line for each check.
func printChecks(w io.Writer, checks []doctor.Check) {
	for _, f := range checks {
		line := fmt.Sprintf("%-4s  %-16s  %s", f.Verdict, f.Name, f.Detail)
		if f.Remedy != "" {
			line += "; " + clause(f.Remedy)
		}
		fmt.Fprintln(w, line)
	}
}

// clause converts a sentence to a clause that can end a line.
func clause(s string) string {
	s = strings.TrimSuffix(strings.Join(strings.Fields(s), " "), ".")
	if len(s) > 1 && 'A' <= s[0] && s[0] <= 'Z' && (s[1] == ' ' || 'a' <= s[1] && s[1] <= 'z') {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

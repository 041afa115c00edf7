package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/input"
	"gperf/format"
	"gperf/record"
	"gperf/record/doctor"
)

func doctorCommand() *cobra.Command {
	var asJSON, cost bool
	c := cli.NewCommand(cli.GroupRecord, "doctor [FLAGS]",
		"check what this machine can record, and how to fix the rest")
	cli.AddFlags(c, cli.General, func(s *pflag.FlagSet) {
		s.BoolVar(&cost, "cost", false, "record for 15 s, and print what that takes")
		s.BoolVarP(&asJSON, "json", "j", false, "print JSON")
	})
	c.Args = cli.NoOperands
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, _, stop := interrupts()
		defer stop()
		var checks []doctor.Check
		var good bool
		if cost {
			checks = []doctor.Check{costOf(ctx)}
			good = checks[0].Verdict == doctor.OK
		} else {
			checks = doctor.This().All(ctx)
			good = doctor.CanRecord(checks)
		}
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
		if err == nil && !good {
			return errReported
		}
		return err
	}
	return c
}

// Times of an estimate: at first, tables are made for the programs that run, which is counted apart.
const (
	costTime  = 15 * time.Second
	costStart = 5 * time.Second
)

// costOf records all CPUs with whole stacks, as a recording that stays does, and says what that takes of this machine.
func costOf(ctx context.Context) doctor.Check {
	ctx, stop := context.WithTimeout(ctx, costTime)
	defer stop()
	const name = "cost"
	dir, err := os.MkdirTemp("", "gperf-") // a pipe would be written to more often
	if err != nil {
		return doctor.Check{Verdict: doctor.No, Name: name, Detail: err.Error(),
			Remedy: "TMPDIR names another directory"}
	}
	defer os.RemoveAll(dir)
	o := record.Options{Freq: 99, MeasureCost: true, Target: record.Target{All: true}}
	o.Stacks.DWARF, o.Output.Path, o.Output.NoBuildIDCache = true, filepath.Join(dir, "perf.data"), true
	var first, last format.Cost
	o.Status = func(s record.Status) {
		if last = s.Cost(); s.Elapsed < costStart {
			first = last
		}
	}
	notices := ""
	o.Notice = func(what error) { notices += "; " + what.Error() } // such as: not with whole stacks
	input.WhileRecording.Tune()
	if _, err := record.Run(ctx, &o); err != nil {
		return doctor.Check{Verdict: doctor.No, Name: name, Detail: err.Error(),
			Remedy: "gperf doctor says what can be recorded"}
	}
	wall := last.Wall - first.Wall
	if wall <= 0 {
		return doctor.Check{Verdict: doctor.No, Name: name, Detail: "not measured: it was interrupted"}
	}
	share := func(d time.Duration) float64 { return 100 * float64(d) / float64(wall) }
	programs := last.ProgramTime() - first.ProgramTime()
	inBPF := fmt.Sprintf("%.2f %% of it in BPF programs", share(programs))
	if last.Programs == nil {
		inBPF = "without BPF programs, whose time only root may measure"
	}
	const detail = "gperf record -F 99 -a -g takes about %.2f %% of one CPU with what runs now, %s, and %.0f MB of " +
		"memory; its start took %.2f s of CPU time%s"
	return doctor.Check{Name: name, Detail: fmt.Sprintf(detail, share(last.CPU-first.CPU+programs), inBPF,
		float64(last.Memory)/1e6, (first.Start + first.CPU + first.ProgramTime()).Seconds(), notices)}
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

package main

import (
	"bufio"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/input"
	"gperf/internal/dso"
	"gperf/internal/inspect"
)

// buildIDFlags holds the flags of `gperf buildid-list`.
type buildIDFlags struct {
	path   string
	hits   bool
	kernel bool
}

func (o *buildIDFlags) add(s *pflag.FlagSet) {
	addInput(s, &o.path)
	s.BoolVarP(&o.hits, "with-hits", "H", false, "list only files that samples hit")
	s.BoolVarP(&o.kernel, "kernel", "k", false, "print the running kernel's build ID")
	cli.AddIdle(s, cli.BuildIDListIdle)
}

func buildIDCommand() *cobra.Command {
	var o buildIDFlags
	c := readCommand(cli.GroupFiles, "buildid-list", "list the build IDs of a recording's files")
	cli.AddFlags(c, cli.General, o.add)
	c.RunE = func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout(), c.ErrOrStderr()) }
	return c
}

func (o *buildIDFlags) run(stdout, stderr io.Writer) error {
	if o.kernel {
		id, err := dso.KernelBuildID()
		if err == nil {
			_, err = fmt.Fprintln(stdout, id)
		}
		return err
	}
	if id, err := dso.BuildIDOf(o.path); err == nil {
		_, err = fmt.Fprintln(stdout, id)
		return err
	}
	in, err := (&inputFlags{filters: filterFlags{guests: true}}).openPath(o.path, stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	skipped, err := inspect.BuildIDs(bufio.NewWriter(stdout), in.session, o.hits)
	input.WarnSkipped(stderr, in.recording.Path, skipped)
	return err
}

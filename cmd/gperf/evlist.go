package main

import (
	"bufio"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/internal/inspect"
)

// evlistFlags holds the flags of `gperf evlist`.
type evlistFlags struct {
	path string
	inspect.EventOptions
}

func (o *evlistFlags) add(s *pflag.FlagSet) {
	addInput(s, &o.path)
	s.BoolVarP(&o.Attrs, "verbose", "v", false, "print the attr of each event, too")
	s.BoolVarP(&o.Freq, "freq", "F", false, "print the frequency or period of each event, too")
	s.BoolVarP(&o.Groups, "group", "g", false, "print groups of events")
	s.BoolVar(&o.TraceFields, "trace-fields", false, "print the fields of tracepoints, too")
}

func evlistCommand() *cobra.Command {
	var o evlistFlags
	c := readCommand(cli.GroupFiles, "evlist", "list the events of a recording")
	cli.AddFlags(c, cli.General, o.add)
	c.RunE = func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout(), c.ErrOrStderr()) }
	return c
}

func (o *evlistFlags) run(stdout, stderr io.Writer) error {
	if o.Groups && (o.Attrs || o.Freq) {
		return cli.WrongUse("--group cannot be combined with --verbose and --freq")
	}
	in, err := new(inputFlags).openPath(o.path, stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	w := bufio.NewWriter(stdout)
	inspect.Events(w, in.recording.File, o.EventOptions)
	return w.Flush()
}

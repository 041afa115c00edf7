package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/report/push"
)

func pushCommand() *cobra.Command {
	c := cli.NewCommand(cli.GroupFiles, "push [FLAGS] [FILE…] URL", "send recordings to a server")
	in := &inputFlags{keepExited: true}
	filter := &in.filters.expression
	addPushFlags(c, pushSettings{pushOpener: in, Filter: filter, MaxStack: maxStack, Version: buildVersion(),
		Interrupts: func() (context.Context, func()) {
			ctx, _, stop := interrupts()
			return ctx, stop
		}}, &in.verbose)
	cli.AddFlags(c, "Push", func(s *pflag.FlagSet) {
		s.StringVar(filter, "filter", "", "push only samples that match an `expr`: 'dport == 53'")
	})
	cli.AddFlags(c, "Symbols", in.addSymbols)
	cli.AddFlags(c, cli.General, func(s *pflag.FlagSet) {
		in.files.force = addForce(s)
		s.BoolVarP(&in.verbose, "verbose", "v", false, "print the protocol, each recording, and its warnings")
	})
	return c
}

// OpenPush opens a recording for gperf push.
func (in *inputFlags) OpenPush(path string, stderr io.Writer) (*push.Input, func() error, error) {
	r, err := in.openPath(path, stderr)
	if err != nil {
		return nil, nil, err
	}
	var skipped format.Skipped
	done := func() error {
		err := r.warn(stderr, skipped)
		r.Close()
		return err
	}
	warn := func(s format.Skipped) { skipped = s }
	return &push.Input{Recording: r.recording, Session: r.session, Warn: warn}, done, nil
}

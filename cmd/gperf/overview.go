package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/report/overview"
)

// overviewFlags holds the flags of gperf overview.
type overviewFlags struct {
	input   inputFlags
	seconds float64
	output  string
	format  string
	more    int
	targets []target
}

// target is a flag of gperf record that chooses what is recorded.
type target struct{ name, short, usage, value string }

func overviewCommand() *cobra.Command {
	c := cli.NewCommand(cli.GroupAnalyse, "overview [FLAGS]", "what does this machine do? one screen of answers")
	o := overviewFlags{targets: []target{
		{name: "pid", short: "p", usage: "only these processes: `PIDs` or names, by commas"},
		{name: "unit", usage: "only this `unit` of systemd: web.service"},
		{name: "container", usage: "only the container with this `name` or ID"},
		{name: "pod", usage: "only this `pod`: NAMESPACE/NAME, or UID"},
	}}
	cli.AddFlags(c, "Recording", func(s *pflag.FlagSet) {
		s.Float64VarP(&o.seconds, "duration", "d", 10, "record for this many `seconds`")
		s.StringVarP(&o.output, "output", "o", defaultFile, "write the recording to this `file`")
		for i := range o.targets {
			t := &o.targets[i]
			s.StringVarP(&t.value, t.name, t.short, "", t.usage)
		}
	})
	cli.AddFlags(c, "Reading", func(s *pflag.FlagSet) {
		s.StringArrayVarP(&o.input.paths, "input", "i", nil, "show a recording of gperf overview, this `file`")
		s.StringVar(&o.format, "format", "text", "print text, or json")
		s.IntVar(&o.more, "more", 0, "run the command that shows more of line `number`")
		o.input.addSandbox(s)
		o.input.files.force = addForce(s)
	})
	cli.AddFlags(c, "Symbols", o.input.addSymbols)
	o.input.flags, o.input.keepExited, o.input.filters.hideWaits = c.Flags(), true, true
	c.Args = cli.NoOperands
	c.RunE = func(c *cobra.Command, _ []string) error {
		return o.run(c.Flags(), c.OutOrStdout(), c.ErrOrStderr())
	}
	return c
}

func (o *overviewFlags) run(s *pflag.FlagSet, stdout, stderr io.Writer) error {
	if !slices.Contains([]string{"text", "json"}, o.format) {
		return cli.WrongUse("--format %s: use text or json", o.format)
	}
	if o.seconds <= 0 {
		return cli.WrongUse("--duration %v: how many seconds?", o.seconds)
	}
	reading := len(o.input.paths) > 0 || s.Changed("more")
	if reading && (s.Changed("duration") || s.Changed("output")) {
		return cli.WrongUse("--input and --more show a recording: --duration and --output are for a new one")
	}
	if !reading {
		if err := o.record(stderr); err != nil {
			return err
		}
	}
	if len(o.input.paths) == 0 {
		o.input.paths = []string{o.output}
	}
	in, err := o.input.open("gperf overview", stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	seen, skipped, err := overview.Read(in.session)
	if err == nil && s.Changed("more") {
		return o.showMore(seen, in, stdout, stderr)
	}
	if err == nil {
		err = o.print(seen, in, stdout)
	}
	incomplete := in.warn(stderr, skipped)
	return cmp.Or(err, incomplete)
}

// showMore runs the command that shows more of a line.
func (o *overviewFlags) showMore(seen *overview.Overview, in *openInput, stdout, stderr io.Writer) error {
	item := seen.Item(o.more)
	if item == nil {
		return cli.WrongUse("--more %d: there is no such line", o.more)
	}
	args := slices.Concat(item.More[:1], []string{"-i", in.recording.Path}, item.More[1:])
	if code := run(args, stdout, stderr); code != exitOK {
		return exitStatus(code)
	}
	return nil
}

func (o *overviewFlags) print(seen *overview.Overview, in *openInput, stdout io.Writer) error {
	if o.format == "json" {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(seen)
	}
	screen := overview.Screen{Width: 120, Height: 40}
	if t, ok := stdout.(*cli.Terminal); ok {
		screen.Width, screen.Height = t.Size()
	}
	if path := in.recording.Path; path != defaultFile {
		screen.File = []string{"-i", path}
	}
	_, err := io.WriteString(stdout, seen.Text(screen))
	return err
}

// record records for an overview.
func (o *overviewFlags) record(stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"record", "-q", "-o", o.output}
	for _, t := range o.targets {
		if t.value != "" {
			args = append(args, "--"+t.name, t.value)
		}
	}
	if !slices.ContainsFunc(o.targets, func(t target) bool { return t.value != "" }) {
		args = append(args, "-a")
	}
	args = append(args, overview.Events()...)
	ctx, _, stop := interrupts()
	defer stop()
	c := exec.CommandContext(ctx, self, append(args, "--", "sleep", fmt.Sprint(o.seconds))...)
	c.Stderr, c.Cancel = stderr, func() error { return c.Process.Signal(os.Interrupt) }
	fmt.Fprintf(stderr, "gperf overview: recording for %v s into %s; Ctrl-C ends it earlier\n", o.seconds, o.output)
	var status *exec.ExitError
	switch err := c.Run(); {
	case err == nil, ctx.Err() != nil:
		return nil
	case errors.As(err, &status):
		return exitStatus(status.ExitCode()) // the recorder said why
	default:
		return fmt.Errorf("starting gperf record: %w", err)
	}
}

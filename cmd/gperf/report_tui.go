package main

import (
	"cmp"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/tui"
	"gperf/format"
	"gperf/internal/session"
	"gperf/report"
	"gperf/report/key"
)

// browsableFlags are the flags of report and annotate that do not ask for printed text.
var browsableFlags = []string{"input", "force", "strict", "verbose", "no-demangle", "kallsyms", "symfs", "sysroot",
	"vmlinux", "debuginfod", "cpu", "pid", "tid", "comms", "guest", "no-idle", "idle", "kind", "time", "filter",
	"weight", "sort", "children", "no-children", "inverted", "max-stack", "no-inline", "symbol-filter",
	"percent-limit", "tui", "no-pager", "symbol", "disassembler-style", "full-paths", "prefix", "prefix-strip",
	"stdio-color"}

// mayBrowse reports whether a command shows the interactive view: on a terminal, unless flags ask for text.
func mayBrowse(s *pflag.FlagSet, stdout io.Writer) (bool, error) {
	tui, _ := s.GetBool("tui")
	text := ""
	s.Visit(func(f *pflag.Flag) {
		if !cli.IsIdle(f) && !slices.Contains(browsableFlags, f.Name) {
			text = cmp.Or(text, f.Name)
		}
	})
	_, isTerminal := stdout.(*cli.Terminal)
	isTerminal = isTerminal && cli.IsTerminal(os.Stdin) && !cli.IsDumb()
	switch {
	case tui && !isTerminal:
		return false, cli.WrongUse("--tui: standard input and output must be a terminal, and TERM its kind")
	case tui && text != "":
		return false, cli.WrongUse("--tui: --%s prints text", text)
	}
	return isTerminal && text == "", nil
}

// browsedKeys returns the whole names of a list of sort keys, and whether the interactive view has all of them.
func browsedKeys(f *format.File, list string) (keys []string, ok bool) {
	keys, err := key.Names(f, list)
	return keys, err == nil && !report.HasFigures(list)
}

// browse shows a recording until the user quits. command is the command's name.
func (in *openInput) browse(command string, flags *inputFlags, o tui.Options, r tui.Recording, f report.Filter,
	stdout, stderr io.Writer) error {
	screen, err := tui.NewScreen()
	if err != nil {
		return err
	}
	o.Path, o.Where, r.Session = in.recording.Path, flags.filters.where(), in.session
	o.Filter.NoGuests = f.NoGuests
	r.Comms, r.PIDs, r.TIDs = f.Comms, f.PIDs, f.TIDs
	if len(in.recording.Parts) > 0 {
		r.Reopen = func(where string) (*session.Session, func(), error) {
			selecting := *flags
			selecting.filters.expression, selecting.filters.kinds = where, ""
			again, err := selecting.openPath(in.recording.Path, io.Discard)
			if err != nil {
				return nil, nil, err
			}
			return again.session, again.Close, nil
		}
	}
	skipped, err := o.Load(r)
	if err == nil && o.Table.Len() > 0 {
		look, _ := cli.StyleOf(stdout, "auto")
		o.Color = look.Color
		ctx, _, stop := interrupts()
		defer stop()
		in.bar.Stop()
		cli.NoPager(stdout)
		err = tui.Show(ctx, screen, o)
	}
	incomplete := in.warn(stderr, skipped)
	if err == nil && o.Table.Len() == 0 {
		in.warnNoSamples(command, incomplete, stderr)
	}
	return cmp.Or(err, incomplete)
}

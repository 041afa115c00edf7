package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/input"
	"gperf/cmd/gperf/tui"
	"gperf/format"
	"gperf/internal/session"
	"gperf/record"
	"gperf/record/tracefs"
	"gperf/report"
	"gperf/report/top"
)

// topFlags holds the flags of gperf top.
type topFlags struct {
	// The recording: the groups of gperf record.
	opts     record.Options
	events   eventFlags
	sampling samplingFlags
	target   targetFlags
	stacks   stackFlags
	rings    controlFlags
	// The display.
	input        inputFlags
	table        report.Options
	delay        string
	entries      int
	stdio        bool
	color        string
	dsos         string
	symbols      string
	idle         bool
	hideKernel   bool
	hideUser     bool
	percentLimit string
	quiet        bool

	interval time.Duration // delay
}

func (f *topFlags) add(c *cobra.Command) {
	o := &f.opts
	f.events.reading = &f.input.filters.expression
	cli.AddFlags(c, "Events", f.events.add)
	cli.AddFlags(c, "Sampling", func(s *pflag.FlagSet) {
		s.StringVarP(&f.sampling.freq, "freq", "F", "", "sample at this `frequency` in Hz, or max (default 4000)")
		s.Uint64VarP(&f.sampling.period, "count", "c", 0, "event period: one sample every `n` events")
		s.StringVarP(&f.rings.pages, "mmap-pages", "m", "", "ring `size` per CPU: pages, or bytes with K, M, G")
		s.IntVarP(&o.Realtime, "realtime", "r", 0, "record with this SCHED_FIFO `priority`")
	})
	cli.AddFlags(c, "Target", func(s *pflag.FlagSet) {
		s.BoolVarP(&o.Target.All, "all-cpus", "a", false, "all CPUs (default)")
		s.StringVarP(&f.target.cpus, "cpu", "C", "", "these `CPUs`: 0-3,5")
		s.StringSliceVarP(&f.target.pids, "pid", "p", nil, "these processes: `PIDs` or names, by commas")
		s.StringSliceVarP(&f.target.tids, "tid", "t", nil, "these threads: `TIDs` separated by commas")
		s.StringVarP(&f.target.user, "uid", "u", "", "this `user`'s running processes and their children")
		f.target.addCgroups(s)
		s.BoolVar(&o.NoInherit, "no-inherit", false, "exclude child tasks of the target")
	})
	cli.AddFlags(c, "Callchains", func(s *pflag.FlagSet) { f.stacks.add(s, o) })
	cli.AddFlags(c, "Table", f.addTable)
	cli.AddFlags(c, "Input", func(s *pflag.FlagSet) {
		s.StringArrayVarP(&f.input.paths, "input", "i", nil, "show this recording, a `file`; - is stdin")
		f.input.files.force = addForce(s)
	})
	cli.AddFlags(c, "Symbols", f.input.addSymbols)
	cli.AddFlags(c, cli.General, func(s *pflag.FlagSet) {
		s.BoolVarP(&f.quiet, "quiet", "q", false, "print no warnings")
		s.BoolVarP(&f.input.verbose, "verbose", "v", false, "show addresses and origins of symbols")
		cli.AddIdle(s, cli.TopIdle)
	})
}

func (f *topFlags) addTable(s *pflag.FlagSet) {
	s.StringVarP(&f.delay, "delay", "d", "1", "`seconds` from one table to the next")
	s.StringVarP(&f.table.Sort, "sort", "s", "", "sort by these `keys` (gperf help sort)")
	s.StringVar(&f.table.Fields, "fields", "", "show these `keys` as columns (gperf help sort)")
	s.IntVarP(&f.entries, "entries", "E", 25, "--stdio: print `n` entries, 0: all")
	s.BoolVar(&f.stdio, "stdio", false, "print blocks of text, also to a terminal")
	addColor(s, &f.color)
	s.BoolVar(&f.idle, "idle", false, "show samples of CPUs without work, too")
	s.BoolVarP(&f.hideKernel, "hide_kernel_symbols", "K", false, "hide samples of the kernel")
	s.BoolVarP(&f.hideUser, "hide_user_symbols", "U", false, "hide samples of user space")
	s.StringVar(&f.percentLimit, "percent-limit", "", "hide entries below this `percent`")
	s.StringVar(&f.dsos, "dsos", "", "show only samples in these DSOs, a `list`")
	s.StringVar(&f.symbols, "symbols", "", "show only samples in these functions, a `list`")
	s.StringVar(&f.input.filters.comms, "comms", "", "show only threads with these names, a `list`")
	s.BoolVar(&f.table.RawTrace, "raw-trace", false, "print tracepoint fields as raw numbers")
	s.StringVar(&f.input.filters.weight, "weight", "", "count this numeric `field`, not samples")
}

func topCommand() *cobra.Command {
	var f topFlags
	c := cli.NewCommand(cli.GroupRecord, "top [FLAGS]", "show the rates of events while they happen")
	c.Args = cli.NoOperands
	f.add(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return unknownSortKey(f.run(c.Flags(), c.OutOrStdout(), c.ErrOrStderr()))
	}
	return c
}

func (f *topFlags) run(s *pflag.FlagSet, stdout, stderr io.Writer) error {
	err := f.apply(s)
	if err == nil {
		f.table.Look, err = lookOf(stdout, f.color)
	}
	if err != nil {
		return err
	}
	held := &tui.Held{To: stderr}
	if f.quiet {
		held.To = io.Discard
	}
	defer held.Release()
	ctx, hurry, stop := interrupts()
	defer stop()
	f.opts.Hurry = hurry
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	src, err := f.source(ctx, s, held)
	if err != nil {
		return err
	}
	err = f.show(ctx, cancel, src, stdout, held)
	cancel()
	if src != nil {
		err = cmp.Or(src.Wait(err), err)
	}
	return err
}

// apply converts the flags of the table, and checks them.
func (f *topFlags) apply(s *pflag.FlagSet) (err error) {
	seconds, err := strconv.ParseFloat(f.delay, 64)
	if err != nil || !(seconds >= 0.1 && seconds <= math.MaxInt32) {
		return cli.WrongUse("-d %s: use a number of seconds, at least 0.1", f.delay)
	}
	f.interval = time.Duration(seconds * float64(time.Second))
	if f.entries < 0 {
		return cli.WrongUse("-E %d is negative", f.entries)
	}
	if f.hideKernel && f.hideUser {
		return cli.WrongUse("-K and -U leave nothing to show")
	}
	t := &f.table
	t.Graph, t.MaxStack, t.Inline, t.Verbose, t.Weight = report.DefaultCallGraph, maxStack, true, f.input.verbose,
		f.input.filters.weight
	if t.PercentLimit, err = cli.PercentLimit(f.percentLimit); err != nil {
		return err
	}
	t.Filter.NoGuests = true
	t.Filter.Comms = cli.Words(f.input.filters.comms)
	t.Filter.Where = session.Where{DSOs: cli.Words(f.dsos), Symbols: cli.Words(f.symbols)}
	f.input.filters.comms = ""
	f.input.filters.noIdle = !f.idle
	return nil
}

// source returns the recording that is made while it is shown, nil if it is a file.
func (f *topFlags) source(ctx context.Context, s *pflag.FlagSet, stderr io.Writer) (*input.Live, error) {
	switch paths := f.input.paths; {
	case len(paths) > 1:
		return nil, cli.WrongUse("-i is given %d times: gperf top shows one recording", len(paths))
	case len(paths) == 1:
		f.events.readFilters()
		if paths[0] != "-" {
			return nil, nil
		}
		return input.LivePipe(ctx, os.Stdin), nil
	}
	if err := f.recordOptions(s, stderr); err != nil {
		return nil, err
	}
	return input.NewLive(func(to io.Writer) error {
		f.opts.Output.Path, f.opts.Output.To = "-", to
		_, err := record.Run(ctx, &f.opts)
		return err
	}), nil
}

// recordOptions converts the flags to the recording's options. The recorder leaves out its own
// events: the kernel filters tracepoints, and show does the rest.
func (f *topFlags) recordOptions(s *pflag.FlagSet, stderr io.Writer) error {
	o := &f.opts
	o.Output.Cmdline, o.Output.Version, o.Tracefs = os.Args, "gperf "+cli.BuildVersion(), new(tracefs.FS)
	o.Notice = func(what error) { fmt.Fprint(stderr, notice("top", what)) }
	o.Say, o.Progress = func(string) {}, func(string, int, int) {}
	for _, apply := range []func() error{
		func() error { return f.sampling.apply(s, o) },
		func() error { return f.stacks.apply(o) },
		func() error { return f.target.apply(s, o) },
		func() error { return f.rings.apply(o) },
		func() error { return f.events.apply(o, nil) },
	} {
		if err := apply(); err != nil {
			return err
		}
	}
	own := `COMM != "` + ownComm() + `"`
	for i := range o.Events {
		ev := &o.Events[i]
		if ev.Type != format.TypeTracepoint || ev.BPFSampled() {
			continue
		}
		ev.Filter = bothFilters(ev.Filter, own)
	}
	return nameThreads(ownComm())
}

// show shows the tables until the samples end: the samples of a live recording all arrive after ctx
// is done. On a terminal, it calls quit when the user does.
func (f *topFlags) show(ctx context.Context, quit func(), src *input.Live, stdout io.Writer,
	held *tui.Held) (err error) {
	input.WhileRecording.Tune()
	in, reading := new(openInput), context.Background()
	if src == nil {
		reading, err = ctx, f.input.openFile(in, f.input.paths[0], held)
	} else if in.recording, err = src.Open("stdin"); err != nil && ctx.Err() != nil {
		return nil // the user quit before the recording began
	}
	defer in.Close()
	if err != nil {
		return err
	}
	if err := f.input.prepare(in, held); err != nil {
		return err
	}
	f.keep(in.session)
	o := top.Options{Delay: f.interval, Past: src == nil}
	var skipped format.Skipped
	if keys, ok := f.screenKeys(stdout, in.recording.File); ok {
		held.Hold()
		skipped, err = f.browse(ctx, quit, reading, in, keys, o)
	} else {
		skipped, err = f.print(reading, in.session, stdout, o)
	}
	return f.end(in, src == nil, held, skipped, err)
}

// end prints the defects of a recording. A block reports the losses of its interval, so that little is left to say of a
// recording that is made.
func (f *topFlags) end(in *openInput, past bool, stderr io.Writer, skipped format.Skipped, err error) error {
	none := errors.Is(err, report.ErrNoSamples)
	if none {
		err = nil
	}
	if !past && !(none && in.misses() != nil) {
		input.WarnSkipped(stderr, in.recording.Path, skipped)
		return err
	}
	incomplete := in.warn(stderr, skipped)
	if none {
		in.warnNoSamples("top", incomplete, stderr)
	}
	return cmp.Or(err, incomplete)
}

// print writes a block of text for each interval.
func (f *topFlags) print(ctx context.Context, s *session.Session, stdout io.Writer,
	o top.Options) (format.Skipped, error) {
	if !f.stacks.g && f.stacks.callGraph == "" {
		f.table.Graph.Mode = report.GraphNone
	}
	blocks, err := top.NewBlocks(s, f.table, f.entries, func(block []byte) error {
		_, err := stdout.Write(block)
		return err
	})
	if err != nil {
		return format.Skipped{}, err
	}
	return top.Run(ctx, s, o, blocks)
}

// screenKeys returns the keys of the entries on the screen, if the intervals are shown there: on a terminal, unless
// flags ask for text.
func (f *topFlags) screenKeys(stdout io.Writer, of *format.File) (keys []string, ok bool) {
	_, terminal := stdout.(*cli.Terminal)
	if !terminal || f.stdio || !cli.IsTerminal(os.Stdin) || cli.IsDumb() || f.table.Fields != "" || f.table.RawTrace {
		return nil, false
	}
	return browsedKeys(of, f.table.Sort)
}

// browse shows the intervals on the screen until the user quits, or ctx is done, and calls quit then.
func (f *topFlags) browse(ctx context.Context, quit func(), reading context.Context, in *openInput, keys []string,
	o top.Options) (skipped format.Skipped, err error) {
	screen, err := tui.NewScreen()
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return skipped, fmt.Errorf("opening the terminal: %w", err)
	}
	defer screen.Fini()
	view, err := tui.NewTop(screen,
		tui.Options{Keys: keys, Limit: f.table.PercentLimit, Color: f.table.Look.Color},
		tui.Recording{Session: in.session, MaxStack: f.table.MaxStack}, f.table.Filter, f.table.Weight)
	if err != nil {
		return skipped, err
	}
	go func() { view.Run(); quit() }()
	defer context.AfterFunc(ctx, view.Quit)()
	o.Tick = view.Work
	if skipped, err = top.Run(reading, in.session, o, view); err != nil {
		view.Quit()
	}
	view.End()
	view.Wait()
	return skipped, err
}

// keep makes the session leave out samples of hidden modes, and gperf's own.
func (f *topFlags) keep(s *session.Session) {
	filter, self := s.Keep, int32(os.Getpid())
	if len(f.input.paths) > 0 {
		self = -1 // a process of another machine may have this number
	}
	s.Keep = func(sample *session.Sample) bool {
		mode := sample.Misc & format.MiscCPUModeMask
		return sample.PID != self && !(f.hideKernel && mode == format.MiscKernel) &&
			!(f.hideUser && mode == format.MiscUser) && filter(sample)
	}
}

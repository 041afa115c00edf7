package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/internal/procfs"
	"gperf/internal/text"
	"gperf/record"
	"gperf/record/continuous"
	"gperf/record/event"
)

// continuousFlags make gperf record stay.
type continuousFlags struct {
	on       bool
	config   string
	maxTotal string
	maxCPU   string
	fileTime string
	push     string
}

func (f *continuousFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&f.on, "continuous", false, "record all CPUs until stopped, a file a minute")
	s.StringVar(&f.config, "config", "", "read flags from this `file`, again on SIGHUP")
	s.StringVar(&f.maxTotal, "max-total", "2G", "delete the oldest files at this `size`")
	s.StringVar(&f.maxCPU, "max-cpu", "1%", "keep to this `share` of a CPU")
	s.StringVar(&f.fileTime, "file-time", "1m", "start a new file at this `interval`")
	s.StringVar(&f.push, "push", "", "send finished files to this `URL` by gperf push")
}

// continuousOnly are the flags that need --continuous.
var continuousOnly = []string{"config", "max-total", "max-cpu", "file-time", "push"}

// applyContinuous sets the defaults of a recording that stays, before the other flags are applied.
func (f *recordFlags) applyContinuous(s *pflag.FlagSet, o *record.Options) (err error) {
	if !f.continuous.on {
		for _, name := range continuousOnly {
			if s.Changed(name) {
				return cli.WrongUse("--%s without --continuous: add it", name)
			}
		}
		return nil
	}
	for _, name := range []string{"pid", "tid", "uid", "per-thread", "switch-output", "switch-output-event",
		"switch-max-files", "timestamp-filename", "max-size", "kcore", "overwrite", "tail-synthesize", "synth"} {
		if s.Changed(name) {
			return cli.WrongUse("--continuous records all CPUs, a file after another: --%s is not possible", name)
		}
	}
	if s.NArg() > 0 {
		return cli.WrongUse("--continuous records all CPUs, and no command")
	}
	f.events.continuous = true
	const frequency = 19 // Hz: out of step with work that repeats every 10 ms
	if !s.Changed("count") {
		f.sampling.freq = cmp.Or(f.sampling.freq, strconv.Itoa(frequency))
	}
	f.stacks.g = f.stacks.g || f.stacks.callGraph == ""
	if !s.Changed("compression-level") {
		f.output.compress = "1"
	}
	if _, err := procfs.Cgroups(); err == nil && !s.Changed("all-cgroups") {
		o.Samples.AllCgroups = true
	}
	o.Target.All = f.target.cpus == ""
	if o.MaxCPU, err = parseShare(f.continuous.maxCPU); err != nil {
		return err
	}
	return nil
}

// parseShare parses a share of one CPU, such as 1%, 0.5% or 100%.
func parseShare(s string) (float64, error) {
	n, percent := strings.CutSuffix(s, "%")
	share, err := strconv.ParseFloat(n, 64)
	if err != nil || !percent || share <= 0 || share > 100*1024 {
		return 0, cli.WrongUse("--max-cpu %s: invalid share of one CPU, use 1%%, 0.5%%", s)
	}
	return share / 100, nil
}

// settings returns the settings of a recording, with the options.
func (f *recordFlags) settings(s *pflag.FlagSet) (*continuous.Settings, error) {
	const least = 8 << 20 // several files; each describes all processes
	set := &continuous.Settings{Record: f.opts, Dir: f.opts.Output.Path, Push: f.continuous.push}
	switch {
	case !s.Changed("output"):
		set.Dir = continuousDir()
	case set.Dir == "-":
		return nil, cli.WrongUse("--continuous records into a directory: -o - is not possible")
	}
	var err error
	if set.MaxTotal, err = text.ParseSize(f.continuous.maxTotal); err != nil || set.MaxTotal < least {
		return nil, cli.WrongUse("--max-total %s: invalid size, use 8M or more", f.continuous.maxTotal)
	}
	every, err := record.ParseSwitch(f.continuous.fileTime)
	if err != nil || every.Every == 0 {
		return nil, cli.WrongUse("--file-time %s: invalid interval, use a time in s, m, h", f.continuous.fileTime)
	}
	set.FileTime = every.Every
	return set, nil
}

// continuousDir is the default directory: the systemd unit's, the system's, or the user's.
func continuousDir() string {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/lib/gperf"
	}
	home, _ := os.UserHomeDir()
	return filepath.Join(cmp.Or(os.Getenv("XDG_STATE_HOME"), filepath.Join(home, ".local/state")), "gperf")
}

// droppedPackets is the event that --continuous records besides the CPU's: each dropped packet. The kernel walks its
// stack, so that a storm of drops can be slowed down there.
const droppedPackets = "skb:kfree_skb/period=1,call-graph=fp/"

// continuousEvents returns the events of --continuous in addition to the events of -e.
func continuousEvents(o *record.Options, at *event.Resolver) []event.Event {
	events := []event.Event{event.Default}
	l, err := event.Parse(droppedPackets, at)
	if err != nil {
		o.Notice(err)
	}
	return append(events, l...)
}

// runContinuous records until it is stopped. The flags of the configuration come before the flags of the command line.
func (f *recordFlags) runContinuous(ctx context.Context, hurry <-chan struct{}, stderr io.Writer) error {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	own := os.Args[slices.Index(os.Args, "record")+1:]
	return continuous.Run(ctx, &continuous.Options{
		Config: cmp.Or(f.continuous.config, continuous.DefaultConfig),
		Parse: func(flags []string) (*continuous.Settings, error) {
			var fresh recordFlags
			c := fresh.command()
			cli.AllowAbbreviations(c.Flags())
			if err := c.ParseFlags(cli.Rewrite(c, slices.Concat(flags, own))); err != nil {
				return nil, cli.FlagError(c.Flags(), err)
			}
			fresh.report(stderr, cli.NewProgress("gperf record", stderr, true))
			fresh.opts.Hurry = hurry
			if err := fresh.options(c.Flags()); err != nil {
				return nil, err
			}
			return fresh.settings(c.Flags())
		},
		Reload: reload,
		Stderr: stderr,
		Started: func(s *continuous.Settings) {
			if !f.quiet {
				status(stderr, "Recording into %s: a file each %v, at most %.0f MB", s.Dir, s.FileTime,
					float64(s.MaxTotal)/(1<<20))
			}
		},
		Ended: func(sum *record.Summary) {
			if !f.quiet {
				printSummary(sum, stderr)
			}
		},
		Notice: func(err error) { io.WriteString(stderr, notice("record", err)) },
	})
}

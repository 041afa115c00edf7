package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/bpf"
	"gperf/cmd/gperf/cli"
	"gperf/cmd/gperf/input"
	"gperf/format"
	"gperf/internal/archive"
	"gperf/internal/inspect"
	"gperf/record"
	"gperf/record/doctor"
	"gperf/record/tracefs"
)

// recordFlags holds the flags of gperf record in the groups of the help. Each group sets the
// part of the options.
type recordFlags struct {
	opts       record.Options
	events     eventFlags
	packets    packetFlags
	sampling   samplingFlags
	target     targetFlags
	stacks     stackFlags
	samples    sampleFlags
	sideBand   sideBandFlags
	output     outputFlags
	control    controlFlags
	continuous continuousFlags
	quiet      bool
	verbose    bool
	dryRun     bool
}

func (f *recordFlags) add(c *cobra.Command) {
	o := &f.opts
	cli.AddFlags(c, "Events", f.events.add)
	cli.AddFlags(c, "Packets", func(s *pflag.FlagSet) { f.packets.add(s, o); addFollow(s, o) })
	cli.AddFlags(c, "Sampling", func(s *pflag.FlagSet) { f.sampling.add(s, o) })
	cli.AddFlags(c, "Target", func(s *pflag.FlagSet) { f.target.add(s, o) })
	cli.AddFlags(c, "Stacks", func(s *pflag.FlagSet) { f.stacks.add(s, o) })
	cli.AddFlags(c, "Fields of samples", func(s *pflag.FlagSet) { f.samples.add(s, o) })
	cli.AddFlags(c, "Side-band records", func(s *pflag.FlagSet) { f.sideBand.add(s, o) })
	cli.AddFlags(c, "Output", func(s *pflag.FlagSet) { f.output.add(s, o) })
	cli.AddFlags(c, "Rings and control", func(s *pflag.FlagSet) { f.control.add(s, o) })
	cli.AddFlags(c, "Continuous recording", f.continuous.add)
	cli.AddFlags(c, cli.General, func(s *pflag.FlagSet) {
		s.BoolVar(&f.dryRun, "dry-run", false, "check flags and events, then exit")
		s.BoolVarP(&f.quiet, "quiet", "q", false, "print errors only")
		s.BoolVarP(&f.verbose, "verbose", "v", false, "print the recorded events and the limits of this kernel")
		cli.AddIdle(s, cli.RecordIdle)
	})
}

// options converts the flags to the recording's options. It reports wrong use as a
// cli.WrongUse.
func (f *recordFlags) options(s *pflag.FlagSet) error {
	o := &f.opts
	o.Target.Command = s.Args()
	o.Output.Cmdline = os.Args
	o.Output.Version = "gperf " + cli.BuildVersion()
	o.Tracefs = new(tracefs.FS)
	for _, apply := range []func() error{
		func() error { return f.applyContinuous(s, o) },
		func() error { return f.sampling.apply(s, o) },
		func() error { return f.stacks.apply(o) },
		func() error { return f.target.apply(s, o) },
		func() error { return f.control.apply(o) },
		func() error { return f.output.apply(s, o) },
		func() error { return f.samples.apply(s, o) },
		func() error { return f.sideBand.apply(o) },
		func() error { return f.packets.apply(o) },
		func() error { return f.events.apply(o, f.output.switchEvents) },
	} {
		if err := apply(); err != nil {
			return err
		}
	}
	return nil
}

// recorders returns the makers of the commands that record, or that say what can be recorded.
func recorders() []maker {
	return []maker{{"record", recordCommand}, {"top", topCommand}, {"probe", probeCommand}, {"list", listCommand},
		{"doctor", doctorCommand}}
}

func recordCommand() *cobra.Command { return new(recordFlags).command() }

func (f *recordFlags) command() *cobra.Command {
	c := cli.NewCommand(cli.GroupRecord, "record [FLAGS] [--] [COMMAND [ARGS]]",
		"record events of a command, processes or all CPUs")
	cli.StopAtOperand(c)
	f.add(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c.Flags(), c.ErrOrStderr()) }
	return c
}

// run records as the flags say. The error is the command's exit code if recording succeeds.
func (f *recordFlags) run(s *pflag.FlagSet, stderr io.Writer) error {
	p := cli.NewProgress("gperf record", stderr, f.quiet)
	f.report(stderr, p)
	if f.continuous.on && !f.dryRun {
		input.WhileStaying.Tune()
		ctx, hurry, stop := interruptsBy(os.Interrupt, syscall.SIGTERM) // SIGHUP reads the configuration again
		defer stop()
		return f.runContinuous(ctx, hurry, stderr)
	}
	if err := f.options(s); err != nil {
		return err
	}
	input.WhileRecording.Tune()
	ctx, hurry, stop := interrupts()
	defer stop()
	f.opts.Hurry = hurry
	// SIGUSR2 does nothing without --switch-output and --count. Without a handler for SIGPIPE, writing to a closed
	// pipe would end the process at once. Do not ignore the signals: the command would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2, syscall.SIGPIPE)
	if f.dryRun {
		return nil
	}
	if restore := record.LowerNice(); !endsProcess {
		defer restore()
	}
	sum, err := record.Run(ctx, &f.opts)
	p.End()
	if sum != nil && sum.Samples > 0 && sum.Dumped == "" && !f.opts.Output.NoBuildIDCache {
		f.keep(sum)
	}
	if sum != nil && !f.quiet {
		printSummary(sum, stderr)
		if f.verbose {
			status(stderr, "Cost: %s", inspect.CostText(&sum.Cost))
		}
		if s.NFlag()+s.NArg() == 0 {
			status(stderr, "gperf overview records more, and shows on one screen what this machine does")
		}
		if f.output.implied {
			status(stderr, "The recording went into the pipe of standard output: -o FILE names a file")
		}
		if sum.Early {
			status(stderr, "Interrupted before the recording began: nothing is recorded")
		} else if sum.Samples == 0 && sum.Lost == 0 && !f.opts.NoSamples && err == nil {
			status(stderr, "0 samples: %s", whyNoSamples(&f.opts, sum.Path))
		}
	}
	switch {
	case err == nil:
		return commandStatus(sum.Command)
	case errors.Is(err, syscall.EPIPE): // the reader of the recording exited
		return exitStatus(128 + int(syscall.SIGPIPE))
	}
	f.printVerifierLog(err, stderr)
	return err
}

// report makes the recorder report progress on stderr.
func (f *recordFlags) report(stderr io.Writer, p *cli.Progress) {
	o := &f.opts
	say := func(msg string) { fmt.Fprintln(stderr, msg) }
	o.Notice, o.Say = func(error) {}, func(string) {}
	o.Progress, o.Step = p.Report, p.Step
	if _, shown := stderr.(*cli.Terminal); shown {
		o.Status = func(s record.Status) { showStatus(p, &s) }
	}
	if !f.quiet {
		o.Notice = func(what error) {
			fmt.Fprint(stderr, notice("record", what))
			f.printVerifierLog(what, stderr)
		}
		o.Say = say
		o.Dumped = func(path string, wakeups uint64) {
			status(stderr, "dump data: Woken up %d times", wakeups)
			status(stderr, "Dump %s", path)
		}
	}
	if f.verbose {
		o.Verbose, o.MeasureCost = say, true
	}
	o.List = func(attrs []format.Attr, flags string) { listEvents(attrs, flags, stderr) }
}

// keep keeps copies of the programs with samples that the recorder did not hold while it ran.
func (f *recordFlags) keep(sum *record.Summary) {
	if err := archive.KeepHits(&sum.Kept, sum.Generated, sum.Path); err != nil {
		f.opts.Notice(err)
	}
}

// printVerifierLog prints the log of the kernel's verifier if err contains one, with -v.
func (f *recordFlags) printVerifierLog(err error, stderr io.Writer) {
	if log := bpf.VerifierLog(err); f.verbose && log != "" {
		fmt.Fprintln(stderr, log)
	}
}

// notice returns the text of a command's warning.
func notice(command string, what error) string {
	var unwinding *record.UnwindError
	if errors.As(what, &unwinding) { // one line: many users see it at each recording
		why := cmp.Or(doctor.This().WhyNoBPF(what), "-v prints what the kernel says.")
		if own := hinter(nil); errors.As(what, &own) {
			why = strings.TrimSuffix(own.Hint(), "\n")
		} else if errors.Is(what, syscall.EMFILE) {
			why = moreFilesHint
		}
		return fmt.Sprintf("gperf %s: %v. %s\n", command, what, why)
	}
	return fmt.Sprintf("gperf %s: %v\n%s", command, what, hintOf(what))
}

// status writes a status line in perf's format.
func status(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "[ %s record: %s ]\n", self, fmt.Sprintf(format, args...))
}

// showStatus shows the state of a recording in the line of progress, which output of the recorded command would tear.
func showStatus(p *cli.Progress, s *record.Status) {
	if !s.Quiet {
		p.End()
		return
	}
	lost := ""
	if s.Lost > 0 {
		lost = fmt.Sprintf(", %d lost", s.Lost)
	}
	p.Line(fmt.Sprintf("%d s, %d samples, %.1f MB%s, %s", s.Elapsed/time.Second, s.Samples,
		float64(s.Bytes)/(1<<20), lost, s.Path))
}

// printSummary writes perf's summary, and further lines about user stacks and lost samples.
func printSummary(sum *record.Summary, w io.Writer) {
	if sum.Full > 0 {
		status(w, "perf size limit reached (%d KB), stopping session", sum.Full>>10)
	}
	status(w, "Woken up %d times to write data", sum.Wakeups)
	samples := ""
	if sum.Samples > 0 {
		samples = fmt.Sprintf(" (%d samples)", sum.Samples)
	}
	path, ratio := sum.Path, ""
	if sum.Dumped != "" {
		status(w, "Dump %s", sum.Dumped)
		if strings.HasPrefix(sum.Dumped, path+".") { // else they are in the directory path
			path += ".<timestamp>"
		}
	}
	if sum.Compressed > 0 {
		ratio = fmt.Sprintf(", compressed (original %.3f MB, ratio is %.3f)", float64(sum.Original)/(1<<20),
			float64(sum.Original)/float64(sum.Compressed))
	}
	status(w, "Captured and wrote %.3f MB %s%s%s", float64(sum.Bytes)/(1<<20), path, samples, ratio)
	var lost []string
	if sum.Lost > 0 {
		lost = append(lost, fmt.Sprintf("%d samples (%.2f%%)", sum.Lost,
			100*float64(sum.Lost)/float64(sum.Lost+sum.Samples)))
	}
	if sum.LostRecords > 0 {
		lost = append(lost, fmt.Sprintf("%d records or more (kernels before Linux 6.0 do not count samples)",
			sum.LostRecords))
	}
	if sum.LostSideBand > 0 {
		lost = append(lost, fmt.Sprintf("%d other records (mappings, names of processes)", sum.LostSideBand))
	}
	if sum.Unwind != nil && sum.Samples > 0 {
		for _, line := range stackLines(sum.Unwind) {
			status(w, "%s", line)
		}
	}
	if n := sum.Kept.Files; n > 0 {
		what := "files"
		if n == 1 {
			what = "file"
		}
		status(w, "Kept a copy of %d %s with samples (%.1f MB) in ~/.debug, as programs may change (-N keeps none)",
			n, what, float64(sum.Kept.Bytes)/(1<<20))
	}
	if n := sum.Kept.Generated; n > 0 {
		what := "perf maps or jitdumps"
		if n == 1 {
			what = "perf map or jitdump"
		}
		status(w, "Kept %d %s of containers in ~/.debug/.generated, for this recording (-N keeps none)", n, what)
	}
	if n := sum.Kept.TooMany; n > 0 {
		status(w, "Kept no copy of %d more, because there were too many: run gperf archive before they change", n)
	}
	if sum.Closing >= slowToClose {
		status(w, "Closing %d tracepoints in the background", sum.Closing)
	}
	if sum.Missed > 0 {
		status(w, "Lost %d samples while another BPF program ran", sum.Missed)
	}
	if text := sum.Spans.String(); text != "" {
		status(w, "%s", text)
	}
	if sum.Spans.Uncounted > 0 {
		status(w, "Lost %d spans: the histograms have more than %d buckets", sum.Spans.Uncounted, bpf.MaxBuckets)
	}
	if sum.Uncounted > 0 {
		status(w, "Lost %d events: there are more than %d threads with different stacks", sum.Uncounted, bpf.MaxCounts)
	}
	if sum.UnrecordedWaits > 0 {
		status(w, "Lost %d waits: more than %d threads or goroutines waited", sum.UnrecordedWaits, bpf.MaxWaits)
	}
	if sum.Slept > sum.SleptUnknown {
		status(w, "Threads that slept from before the recording until its end: %d. Each is a sample, "+
			"with the time of the recording", sum.Slept-sum.SleptUnknown)
	}
	if sum.SleptUnknown > 0 {
		status(w, "Threads that slept from before the recording until its end have no samples: %d; "+
			"/proc/PID/task/TID/stack shows where each waits", sum.SleptUnknown)
	}
	if sum.MissedHits != nil {
		status(w, "The kernel missed hits of %s, in any process, because another probe was running on the CPU, or "+
			"too many calls of a kretprobe's function were active: fewer probes miss less",
			eventTimes(sum.MissedHits))
	}
	if sum.Throttled != nil {
		status(w, "The kernel left out samples of %s, because there were too many: take fewer (-F, -c), or raise "+
			"kernel.perf_event_max_sample_rate or kernel.perf_cpu_time_max_percent", eventTimes(sum.Throttled))
	}
	if len(lost) > 0 {
		status(w, "Lost %s, for lack of space in the rings: larger ones (now %d pages, -m %d) "+
			"or fewer samples (-F, -c) lose less",
			strings.Join(lost, " and "), sum.Pages, 4*sum.Pages)
	}
}

// slowToClose is the number of tracepoints that the kernel needs more than a second to close.
const slowToClose = 20

// commandStatus returns the command's exit code, or 128 plus the signal that ended it; nil
// for success.
func commandStatus(st *os.ProcessState) error {
	switch {
	case st == nil || st.Success():
		return nil
	case st.Sys().(syscall.WaitStatus).Signaled():
		return exitStatus(128 + int(st.Sys().(syscall.WaitStatus).Signal()))
	}
	return exitStatus(st.ExitCode())
}

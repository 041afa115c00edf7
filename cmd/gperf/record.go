package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/record"
	"gperf/record/doctor"
	"gperf/record/tracefs"
)

// recordFlags are the flags of gperf record as they were given.
type recordFlags struct {
	opts        record.Options
	events      []eventArg
	cgroups     int // names of -G so far
	user        string
	freq        string
	period      uint64
	g           bool
	callGraph   string
	pages       string
	cpus        string
	pids        []string
	tids        []string
	delay       string
	clock       string
	compress    string
	switchTo    string
	quiet       bool
	verbose     bool
	help        bool
	ignored     bool
	buildIDMmap bool

	branchAny    bool
	branchFilter string
	intrRegs     string
	userRegs     string
	synth        string
	control      string
	maxSize      string
	switchEvents []string
	strictFreq   bool
	latency      bool
	dryRun       bool
}

func (f *recordFlags) set() *pflag.FlagSet {
	o := &f.opts
	s := pflag.NewFlagSet("record", pflag.ContinueOnError)
	s.SortFlags = false
	s.SetInterspersed(false) // the first operand starts the command
	s.SetOutput(io.Discard)
	s.Usage = func() {}
	s.VarP(argFunc(f.addEvents), "event", "e", "`events` to record, separated by commas (default cycles)")
	s.Var(argFunc(f.addFilter), "filter", "filter the preceding -e by this `expression` of its fields")
	s.BoolFunc("exclude-perf", "exclude gperf's own activity from the preceding -e", f.excludePerf)
	s.VarP(argFunc(f.addCgroups), "cgroup", "G", "with -a: record these `cgroups` only: one name per event, or one for all")
	s.BoolVarP(&o.Target.All, "all-cpus", "a", false, "system-wide recording on all CPUs (default without a command)")
	s.StringVarP(&f.cpus, "cpu", "C", "", "system-wide recording on these `CPUs`: 0-3,5")
	s.StringSliceVarP(&f.pids, "pid", "p", nil, "record these processes: `PIDs` separated by commas")
	s.StringSliceVarP(&f.tids, "tid", "t", nil, "record these threads: `TIDs` separated by commas")
	s.StringVarP(&f.user, "uid", "u", "", "record the running processes of this `user` and their children")
	s.StringVarP(&f.freq, "freq", "F", "", "sampling `frequency` in Hz, or max (default 4000; probes: each hit)")
	s.Uint64VarP(&f.period, "count", "c", 0, "event period: one sample every `n` events")
	s.BoolVarP(&f.g, "stacks", "g", false, "record callchains; user stacks as with --call-graph dwarf")
	s.StringVar(&f.callGraph, "call-graph", "", "record callchains by this `method`: dwarf, dwarf,copy[,SIZE], fp, lbr, no")
	s.Uint16Var(&f.opts.MaxStack, "max-stack", 0, "limit callchains to this number of `frames`")
	s.StringVarP(&o.Output, "output", "o", "perf.data", "output `file`; - writes to standard output in pipe mode")
	s.StringVarP(&f.compress, "compression-level", "z", "0", "compress with zstd at this `level`, 1 to 22")
	s.Lookup("compression-level").NoOptDefVal = "1"
	s.StringVar(&f.switchTo, "switch-output", "", "start a new file on SIGUSR2, at this `size` (100M) or after this time (10m)")
	s.Lookup("switch-output").NoOptDefVal = "signal"
	s.IntVar(&o.Switch.MaxFiles, "switch-max-files", 0, "with --switch-output: keep only the last `n` files")
	s.BoolVar(&o.Timestamp, "timestamp-filename", false, "append a timestamp to the output file name")
	s.StringVarP(&f.pages, "mmap-pages", "m", "", "ring size per CPU: number of `pages`, or bytes with K, M, G")
	s.StringVarP(&f.delay, "delay", "D", "", "start after this many `ms`; -1: disabled; 10-20,30-40: these ranges only")
	s.BoolVar(&o.AllUser, "all-user", false, "record user space only")
	s.BoolVar(&o.AllKernel, "all-kernel", false, "record the kernel only")
	s.BoolVarP(&o.NoInherit, "no-inherit", "i", false, "exclude child tasks of the target")
	s.BoolVarP(&o.Stat, "stat", "s", false, "record event counts per thread")
	s.BoolVarP(&o.Raw, "raw-samples", "R", false, "record raw data of all events (default for tracepoints)")
	f.addSampleFlags(s)
	s.BoolVar(&o.AllCgroups, "all-cgroups", false, "record the cgroup of each sample")
	s.BoolVar(&o.RunningTime, "running-time", false, "with :S: record how long the counter was enabled and running")
	s.BoolVarP(&o.NoSamples, "no-samples", "n", false, "record side-band events only, no samples")
	s.StringVarP(&f.clock, "clockid", "k", "", "use this `clock`: monotonic, monotonic_raw, realtime, boottime, tai")
	s.BoolVarP(&o.NoBuildID, "no-buildid", "B", false, "do not write the table of build IDs")
	s.BoolVar(&f.buildIDMmap, "buildid-mmap", true, "record build IDs in MMAP2 records (Linux 5.12)")
	s.BoolVarP(&f.ignored, "no-buildid-cache", "N", false, "do not update the build-ID cache (always)")
	s.BoolVar(&o.NoBPFEvent, "no-bpf-event", false, "do not record BPF events")
	f.addModeFlags(s)
	s.BoolVarP(&f.quiet, "quiet", "q", false, "print errors only")
	s.BoolVarP(&f.verbose, "verbose", "v", false, "print the recorded events and the limits of this kernel")
	s.BoolVarP(&f.help, "help", "h", false, "print this text")
	return s
}

const recordHelp = `Usage: gperf record [FLAGS] [--] [COMMAND [ARGS]]

Records until the command ends, or until Ctrl-C.

Events (gperf list): cycles and other hardware and software events, tracepoints
as sys:name, globs, kprobe:FUNCTION, uprobe:FILE:FUNCTION and
usdt:FILE:PROVIDER:NAME. Probe arguments follow an event, separated by blanks:
$arg1, $retval, NAME->MEMBER. {a,b} is a group; cycles/period=1000/ has terms.

User stacks (--call-graph): dwarf unwinds them in the kernel. Without the right
to do this, gperf copies stacks into the file, as dwarf,copy does. fp uses frame
pointers, lbr the branch records of the PMU.

`

// options converts the flags to the recording's options. It reports wrong use as a
// wrongUse.
func (f *recordFlags) options(s *pflag.FlagSet) (err error) {
	o := &f.opts
	o.Target.Command = s.Args()
	o.Cmdline = os.Args
	o.Version = "gperf " + version()
	o.Tracefs = new(tracefs.FS)
	if err := f.sampling(s); err != nil {
		return err
	}
	if err := f.target(); err != nil {
		return err
	}
	switch {
	case o.AllUser && o.AllKernel:
		return wrongUse("--all-user and --all-kernel leave nothing to record")
	}
	o.NoBuildIDMmap = !f.buildIDMmap
	if err := f.delays(); err != nil {
		return err
	}
	if f.pages != "" {
		size, aux, both := strings.Cut(f.pages, ",")
		if both {
			o.Notice(fmt.Errorf("-m %s: gperf records no AUX areas, their size (%s) has no effect", f.pages, aux))
		}
		pages, rounded, err := record.ParsePages(size)
		if err != nil {
			return wrongUse("-m: %v", err)
		}
		if rounded {
			o.Notice(fmt.Errorf("rounding the rings' size to %d pages, a power of 2", pages))
		}
		o.Pages = pages
	}
	if err := f.output(s); err != nil {
		return err
	}
	if f.clock != "" {
		id, ok := clockID(f.clock)
		if !ok {
			return wrongUse("unknown clock %q, use %s", f.clock, strings.Join(clockNames(), ", "))
		}
		o.UseClockID, o.ClockID = true, id
	}
	if err := f.modes(s); err != nil {
		return err
	}
	return f.parseEvents()
}

const maxCompressionLevel = 22

// output applies -o, -z, --timestamp-filename and the flags of --switch-output.
func (f *recordFlags) output(s *pflag.FlagSet) error {
	o := &f.opts
	if !s.Changed("output") && isPipe(os.Stdout) {
		o.Output = "-"
	}
	if o.Output == "-" && isTerminal(os.Stdout) {
		return wrongUse("-o -: standard output is a terminal")
	}
	level, err := strconv.ParseUint(f.compress, 10, 31)
	if err != nil {
		return wrongUse("-z%s: invalid compression level, use 1 to %d", f.compress, maxCompressionLevel)
	}
	o.Compress = int(min(level, maxCompressionLevel))
	o.Compressed2 = self == perfName
	if o.Compress == 0 && s.Changed("compression-level") {
		o.Compress = 1
	}
	if o.Switch.MaxFiles < 0 {
		return wrongUse("--switch-max-files %d: the number of files is negative", o.Switch.MaxFiles)
	}
	if o.Output == "-" && o.Timestamp {
		o.Notice(errors.New("--timestamp-filename has no effect in pipe mode"))
		o.Timestamp = false
	}
	return f.switching()
}

// switching applies --switch-output.
func (f *recordFlags) switching() error {
	o := &f.opts
	if f.switchTo == "" && len(f.switchEvents) > 0 {
		f.switchTo = "signal"
	}
	if f.switchTo == "" {
		return nil
	}
	if o.Output == "-" {
		return wrongUse("--switch-output is not possible in pipe mode (-o -)")
	}
	if f.switchTo != "signal" {
		how, err := record.ParseSwitch(f.switchTo)
		if err != nil {
			return wrongUse("--switch-output: %v", err)
		}
		o.Switch.Size, o.Switch.Every = how.Size, how.Every
		return nil
	}
	f.switchOnSignal()
	return nil
}

func isPipe(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeNamedPipe != 0
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// sampling applies -F, -c, -g and --call-graph.
func (f *recordFlags) sampling(s *pflag.FlagSet) error {
	o := &f.opts
	switch f.freq {
	case "":
	case "max":
		o.Freq = record.MaxFreq()
		o.Notice(fmt.Errorf("using the maximum frequency rate of %d Hz", o.Freq))
	default:
		n, err := strconv.ParseUint(f.freq, 10, 32)
		if err != nil || n == 0 {
			return wrongUse("-F %s: invalid frequency, use samples per second or max", f.freq)
		}
		o.Freq = n
	}
	o.Period = f.period
	if o.Freq != 0 && o.Period != 0 {
		return wrongUse("cannot set frequency and period at the same time")
	}
	if s.Changed("count") && o.Period == 0 && o.Freq == 0 {
		o.Notice(errors.New("-c 0: using the default frequency"))
	}
	return f.stacks()
}

// stacks applies -g and --call-graph.
func (f *recordFlags) stacks() error {
	o := &f.opts
	mode, rest, more := strings.Cut(f.callGraph, ",")
	switch {
	case mode == "":
		kernel := o.AllKernel || o.KernelChain
		o.DWARF = f.g && !kernel
		o.Callchain = f.g && kernel
	case mode == "fp":
		o.Callchain = true
		return f.framePointers(rest)
	case mode == "no":
	case mode == "lbr":
		o.Callchain, o.Branches = true, record.CallStacks
	case mode != "dwarf":
		return wrongUse("--call-graph %s: unknown method, use fp, dwarf or lbr", f.callGraph)
	case o.KernelChain:
		o.Callchain = true
	case !more && self != perfName:
		o.DWARF = true
	default:
		size, err := stackDump(rest)
		o.StackDump = size
		return err
	}
	return nil
}

// maxStackDump is the largest stack copy that the kernel makes, in bytes.
const maxStackDump = 65528

// stackDump parses the text after "dwarf,": "copy" or "copy,SIZE". perf's "dwarf,SIZE" means
// the same, and so does "dwarf" if gperf is called perf.
func stackDump(s string) (uint16, error) {
	if s == "" || s == "copy" {
		return record.DefaultStackDump, nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "copy,"), 10, 32)
	if err != nil || n == 0 || n > maxStackDump {
		return 0, wrongUse("--call-graph dwarf,%s: invalid stack copy size, use 8 to %d bytes", s, maxStackDump)
	}
	return uint16((n + 7) &^ 7), nil
}

// target applies -a, -C, -p and -t. As in perf, processes and threads override CPUs.
func (f *recordFlags) target() (err error) {
	t := &f.opts.Target
	if t.PIDs, err = ids("-p", f.pids); err != nil {
		return err
	}
	if t.TIDs, err = ids("-t", f.tids); err != nil {
		return err
	}
	if f.cpus != "" {
		if t.CPUs, err = format.ParseCPUList(f.cpus); err != nil {
			return wrongUse("-C: %v", err)
		}
	}
	if f.user != "" {
		if err := f.targetUser(); err != nil {
			return err
		}
	}
	if len(t.PIDs) > 0 && len(t.TIDs) > 0 {
		f.opts.Notice(errors.New("processes (-p) override threads (-t)"))
		t.TIDs = nil
	}
	if len(t.PIDs)+len(t.TIDs)+len(t.UIDs) > 0 && (t.All || len(t.CPUs) > 0) {
		f.opts.Notice(errors.New("processes and threads (-p, -t, -u) override CPUs (-a, -C)"))
		t.All, t.CPUs = false, nil
	}
	return nil
}

func ids(flag string, list []string) ([]int, error) {
	var l []int
	for _, s := range list {
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil || n == 0 {
			return nil, wrongUse("%s %s: invalid process or thread ID", flag, s)
		}
		l = append(l, int(n))
	}
	return l, nil
}

// clocks lists the clocks that the kernel accepts as attr.clockid, with perf's short names.
var clocks = []struct {
	name, short string
	id          int32
}{
	{"monotonic", "mono", unix.CLOCK_MONOTONIC},
	{"monotonic_raw", "raw", unix.CLOCK_MONOTONIC_RAW},
	{"realtime", "real", unix.CLOCK_REALTIME},
	{"boottime", "boot", unix.CLOCK_BOOTTIME},
	{"tai", "tai", unix.CLOCK_TAI},
}

func clockID(s string) (int32, bool) {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return int32(n), true
	}
	s = strings.TrimPrefix(strings.ToLower(s), "clock_")
	for _, c := range clocks {
		if s == c.name || s == c.short {
			return c.id, true
		}
	}
	return 0, false
}

func clockNames() (l []string) {
	for _, c := range clocks {
		l = append(l, c.name)
	}
	return l
}

func recordCommand(args []string, stdout, stderr io.Writer) int {
	var f recordFlags
	s := f.set()
	f.opts.Notice = func(what error) {
		if !f.quiet {
			fmt.Fprint(stderr, notice(what))
			if log := bpf.VerifierLog(what); f.verbose && log != "" {
				fmt.Fprintln(stderr, log)
			}
		}
	}
	allowAbbreviations(s)
	if err := parseError(s, s.Parse(rewriteArgs(s, args))); err != nil {
		return fail("record", err, stderr)
	}
	if f.help {
		fmt.Fprint(stdout, recordHelp, s.FlagUsages())
		return exitOK
	}
	if err := f.options(s); err != nil {
		return fail("record", err, stderr)
	}
	if !f.quiet {
		f.opts.Dumped = func(path string, wakeups uint64) {
			status(stderr, "dump data: Woken up %d times", wakeups)
			tellDumped(path, stderr)
		}
	}
	f.opts.Say = func(msg string) {
		if !f.quiet {
			fmt.Fprintln(stderr, msg)
		}
	}
	f.opts.List = func(attrs []format.Attr, flags string) { listEvents(attrs, flags, stderr) }
	if f.verbose {
		f.opts.Verbose = func(msg string) { fmt.Fprintln(stderr, msg) }
	}
	p := newProgress("record", stderr, f.quiet)
	f.opts.Progress = p.report
	// The recorder shares the machine with its target, so it keeps little garbage.
	debug.SetGCPercent(recordGCPercent)
	ctx, hurry, stop := interrupts()
	defer stop()
	f.opts.Hurry = hurry
	// SIGUSR2 has no effect without --switch-output. Without a handler for SIGPIPE, writing to a closed
	// pipe would end the process at once. Do not ignore the signals: the command would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2, syscall.SIGPIPE)
	if f.dryRun {
		return exitOK
	}
	sum, err := record.Run(ctx, &f.opts)
	p.end()
	if sum != nil && !f.quiet {
		tellSummary(sum, stderr)
	}
	if err != nil && errors.Is(err, syscall.EPIPE) { // the reader of the recording exited
		return 128 + int(syscall.SIGPIPE)
	}
	if err != nil {
		if log := bpf.VerifierLog(err); f.verbose && log != "" {
			fmt.Fprintln(stderr, log)
		}
		return fail("record", err, stderr)
	}
	return commandStatus(sum.Command)
}

// notice returns the text of a warning.
func notice(what error) string {
	var unwinding *record.UnwindError
	if errors.As(what, &unwinding) { // one line: many users see it at each recording
		why := cmp.Or(doctor.This().WhyNoBPF(what), "-v prints what the kernel says.")
		if errors.Is(what, syscall.EMFILE) {
			why = moreFiles
		}
		return fmt.Sprintf("gperf record: %v. %s\n", what, why)
	}
	return fmt.Sprintf("gperf record: %v\n%s", what, hint(what))
}

const moreFiles = "Raise the limit of open files (ulimit -n)."

const recordGCPercent = 40

// hurryTime limits finishing the file after the second signal.
const hurryTime = 500 * time.Millisecond

// interrupts returns a context that the first Ctrl-C (or SIGTERM, SIGHUP) cancels, and a
// channel that the second closes. If gperf still runs hurryTime later, for example because
// it is blocked in a write, it exits: the file is readable at any moment.
func interrupts() (ctx context.Context, hurry <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals, second := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		cancel()
		sig := <-signals
		close(second)
		time.Sleep(hurryTime)
		os.Exit(128 + int(sig.(syscall.Signal)))
	}()
	return ctx, second, func() { signal.Stop(signals); cancel() }
}

// status writes a status line in perf's format.
func status(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "[ %s record: %s ]\n", self, fmt.Sprintf(format, args...))
}

func tellDumped(path string, w io.Writer) {
	status(w, "Dump %s", path)
}

// tellSummary writes perf's summary, and further lines about user stacks and lost samples.
func tellSummary(sum *record.Summary, w io.Writer) {
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
		tellDumped(sum.Dumped, w)
		path += ".<timestamp>"
	}
	if sum.Compressed > 0 {
		ratio = fmt.Sprintf(", compressed (original %.3f MB, ratio is %.3f)", float64(sum.Original)/(1<<20), float64(sum.Original)/float64(sum.Compressed))
	}
	status(w, "Captured and wrote %.3f MB %s%s%s", float64(sum.Bytes)/(1<<20), path, samples, ratio)
	var lost []string
	if sum.Lost > 0 {
		lost = append(lost, fmt.Sprintf("%d samples (%.2f%%)", sum.Lost, 100*float64(sum.Lost)/float64(sum.Lost+sum.Samples)))
	}
	if sum.LostRecords > 0 {
		lost = append(lost, fmt.Sprintf("%d records or more (kernels before Linux 6.0 do not count samples)", sum.LostRecords))
	}
	if sum.LostSideBand > 0 {
		lost = append(lost, fmt.Sprintf("%d other records (mappings, names of processes)", sum.LostSideBand))
	}
	if sum.Unwind != nil && sum.Samples > 0 {
		for _, line := range stackSummary(sum.Unwind) {
			status(w, "%s", line)
		}
	}
	if sum.Closing >= slowToClose {
		status(w, "Closing %d tracepoints in the background", sum.Closing)
	}
	if sum.Missed > 0 {
		status(w, "Lost %d samples while another BPF program ran", sum.Missed)
	}
	if len(lost) > 0 {
		status(w, "Lost %s, for lack of space in the rings: larger ones (now %d pages, -m %d) or fewer samples (-F, -c) lose less",
			strings.Join(lost, " and "), sum.Pages, 4*sum.Pages)
	}
}

// slowToClose is the number of tracepoints that the kernel needs more than a second to close.
const slowToClose = 20

// commandStatus returns the command's exit code, or 128 plus the signal that ended it.
func commandStatus(st *os.ProcessState) int {
	if st == nil {
		return exitOK
	}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return st.ExitCode()
}

// flagNames returns the sorted names of all flags.
func flagNames(s *pflag.FlagSet) (l []string) {
	s.VisitAll(func(f *pflag.Flag) { l = append(l, f.Name) })
	slices.Sort(l)
	return l
}

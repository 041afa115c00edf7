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
	"gperf/record/check"
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
	s.SetInterspersed(false) // flags end where the command begins
	s.SetOutput(io.Discard)
	s.Usage = func() {}
	s.VarP(argFunc(f.addEvents), "event", "e", "what to record: `events` with commas (gperf list): cycles, tracepoints as sys:name, globs, probes as kprobe:FUNCTION, uprobe:FILE:FUNCTION or usdt:FILE:PROVIDER:NAME, each with what it reads ($arg1, $retval, NAME->MEMBER) behind it, groups {a,b}, terms (cycles/period=1000/); default cycles")
	s.Var(argFunc(f.addFilter), "filter", "only where this `expression` of the fields is true: for the tracepoints and probes of the -e ahead")
	s.BoolFunc("exclude-perf", "not what gperf itself does: for the tracepoints and probes of the -e ahead", f.excludePerf)
	s.VarP(argFunc(f.addCgroups), "cgroup", "G", "with -a: only these control groups, `names` with commas: the first for the first event of the -e ahead, and so on; one for all")
	s.BoolVarP(&o.Target.All, "all-cpus", "a", false, "everything that runs (default without a command)")
	s.StringVarP(&f.cpus, "cpu", "C", "", "everything that runs on these `CPUs`: 0-3,5")
	s.StringSliceVarP(&f.pids, "pid", "p", nil, "these processes: `PIDs` with commas")
	s.StringSliceVarP(&f.tids, "tid", "t", nil, "these threads: `TIDs` with commas")
	s.StringVarP(&f.user, "uid", "u", "", "the processes of this `user` (name or number) that run at the start, and what they start")
	s.StringVarP(&f.freq, "freq", "F", "", "samples a second: a `number`, or max (default 4000, except for tracepoints and probes)")
	s.Uint64VarP(&f.period, "count", "c", 0, "one sample for every `n` events")
	s.BoolVarP(&f.g, "stacks", "g", false, "with call graphs, of user stacks as --call-graph dwarf")
	s.StringVar(&f.callGraph, "call-graph", "", "with call graphs, of user stacks by this `method`: fp (frame pointers), dwarf (unwound in the kernel, without the right to it as dwarf,copy), or dwarf,copy[,size] (stack copies)")
	s.Uint16Var(&f.opts.MaxStack, "max-stack", 0, "call graphs of at most so many `frames`")
	s.StringVarP(&o.Output, "output", "o", "perf.data", "`file` to write; -, or none where standard output is a pipe: to standard output, in pipe mode")
	s.StringVarP(&f.compress, "compression-level", "z", "0", "compress with zstd, at this `level`: 1 to 22")
	s.Lookup("compression-level").NoOptDefVal = "1"
	s.StringVar(&f.switchTo, "switch-output", "", "go on in another file after each SIGUSR2 (signal), so many bytes (`size` with B, K, M, G), or some time (with s, m, h, d)")
	s.Lookup("switch-output").NoOptDefVal = "signal"
	s.IntVar(&o.Switch.MaxFiles, "switch-max-files", 0, "with --switch-output: keep the last `n` files")
	s.BoolVar(&o.Timestamp, "timestamp-filename", false, "put the time behind the file's name")
	s.StringVarP(&f.pages, "mmap-pages", "m", "", "size of each CPU's ring: `pages`, or bytes with K, M, G")
	s.StringVarP(&f.delay, "delay", "D", "", "begin so many `ms` after the start; -1: never; ranges (10-20,30-40): during these")
	s.BoolVar(&o.AllUser, "all-user", false, "user space only")
	s.BoolVar(&o.AllKernel, "all-kernel", false, "kernel only")
	s.BoolVarP(&o.NoInherit, "no-inherit", "i", false, "not what the target starts")
	s.BoolVarP(&o.Stat, "stat", "s", false, "counts of each thread")
	s.BoolVarP(&o.Raw, "raw-samples", "R", false, "raw data of all events")
	f.addSampleFlags(s)
	s.BoolVar(&o.AllCgroups, "all-cgroups", false, "the control group of each sample")
	s.BoolVar(&o.RunningTime, "running-time", false, "how long the counter was enabled and running, with :S")
	s.BoolVarP(&o.NoSamples, "no-samples", "n", false, "no samples, only what is told beside them")
	s.StringVarP(&f.clock, "clockid", "k", "", "`clock` to take the time from: monotonic, monotonic_raw, realtime, boottime, tai")
	s.BoolVarP(&o.NoBuildID, "no-buildid", "B", false, "no table of build IDs, where the kernel does not record them")
	s.BoolVar(&f.buildIDMmap, "buildid-mmap", true, "build IDs in mmap records, where the kernel can")
	s.BoolVarP(&f.ignored, "no-buildid-cache", "N", false, "leave the build-ID cache alone (always)")
	s.BoolVar(&o.NoBPFEvent, "no-bpf-event", false, "do not record the loading of BPF programs")
	f.addModeFlags(s)
	s.BoolVarP(&f.quiet, "quiet", "q", false, "no messages but errors")
	s.BoolVarP(&f.verbose, "verbose", "v", false, "tell what is recorded, and what this kernel cannot do")
	s.BoolVarP(&f.help, "help", "h", false, "this text")
	return s
}

// options turns the flags into the recording's options. Wrong use comes back
// as a wrongUse.
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
			o.Notice(fmt.Errorf("-m %s: AUX areas are not recorded, so their size (%s) changes nothing", f.pages, aux))
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
			return wrongUse("unknown clock %q: there are %s", f.clock, strings.Join(clockNames(), ", "))
		}
		o.UseClockID, o.ClockID = true, id
	}
	if err := f.modes(s); err != nil {
		return err
	}
	return f.parseEvents()
}

const maxCompressionLevel = 22

// output takes -o, -z and what has to do with switching.
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
		return wrongUse("-z%s: the compression level is a number, 1 to %d", f.compress, maxCompressionLevel)
	}
	o.Compress = int(min(level, maxCompressionLevel))
	o.Compressed2 = self == perfName
	if o.Compress == 0 && s.Changed("compression-level") {
		o.Compress = 1
	}
	if o.Switch.MaxFiles < 0 {
		return wrongUse("--switch-max-files %d: how many files to keep cannot be below 0", o.Switch.MaxFiles)
	}
	if o.Output == "-" && o.Timestamp {
		o.Notice(errors.New("--timestamp-filename means nothing in pipe mode"))
		o.Timestamp = false
	}
	return f.switching()
}

// switching takes --switch-output.
func (f *recordFlags) switching() error {
	o := &f.opts
	if f.switchTo == "" && len(f.switchEvents) > 0 {
		f.switchTo = "signal"
	}
	if f.switchTo == "" {
		return nil
	}
	if o.Output == "-" {
		return wrongUse("--switch-output is not possible in pipe mode (-o -): a pipe is one file")
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

// sampling takes -F, -c, -g and --call-graph.
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
			return wrongUse("-F %s: the frequency is a number of samples a second, or max", f.freq)
		}
		o.Freq = n
	}
	o.Period = f.period
	if o.Freq != 0 && o.Period != 0 {
		return wrongUse("cannot set frequency and period at the same time")
	}
	if s.Changed("count") && o.Period == 0 && o.Freq == 0 {
		o.Notice(errors.New("-c 0 means the default frequency"))
	}
	return f.stacks()
}

// stacks takes -g and --call-graph.
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
		return wrongUse("--call-graph %s is unknown: there are fp, dwarf and lbr", f.callGraph)
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

// maxStackDump is the most of a stack that the kernel copies, in bytes.
const maxStackDump = 65528

// stackDump parses what follows "dwarf,": "copy" or "copy,SIZE"; perf's "dwarf,SIZE" and,
// in perf's place, "dwarf" mean the same.
func stackDump(s string) (uint16, error) {
	if s == "" || s == "copy" {
		return record.DefaultStackDump, nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "copy,"), 10, 32)
	if err != nil || n == 0 || n > maxStackDump {
		return 0, wrongUse("--call-graph dwarf,%s: a stack dump has 8 to %d bytes", s, maxStackDump)
	}
	return uint16((n + 7) &^ 7), nil
}

// target takes -a, -C, -p and -t. As in perf, processes and threads go before
// CPUs.
func (f *recordFlags) target() (err error) {
	t := &f.opts.Target
	if t.PIDs, err = ids("-p", f.pids); err != nil {
		return err
	}
	if t.TIDs, err = ids("-t", f.tids); err != nil {
		return err
	}
	if f.cpus != "" {
		if t.CPUs, err = record.ParseCPUs(f.cpus); err != nil {
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
			return nil, wrongUse("%s %s: not the number of a process or thread", flag, s)
		}
		l = append(l, int(n))
	}
	return l, nil
}

// clocks are those that the kernel takes for attr.clockid, and perf's short
// names for them.
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
		fmt.Fprintf(stdout, "Usage: gperf record [FLAGS] [--] [COMMAND [ARGS]]\n\nRecords until the command ends, or until Ctrl-C.\n\n%s", s.FlagUsages())
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
	// A recorder shares the machine with what it records: it keeps little garbage.
	debug.SetGCPercent(recordGCPercent)
	ctx, hurry, stop := interrupts()
	defer stop()
	f.opts.Hurry = hurry
	// SIGUSR2 means nothing but with --switch-output. Without a handler for SIGPIPE, writing to a
	// closed pipe would end the process at once. Neither is ignored, for the command would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2, syscall.SIGPIPE)
	if f.dryRun {
		return exitOK
	}
	sum, err := record.Run(ctx, &f.opts)
	p.end()
	if sum != nil && !f.quiet {
		tellSummary(sum, stderr)
	}
	if err != nil && errors.Is(err, syscall.EPIPE) { // who reads the recording has gone
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

// notice is what is printed of something that turns out other than asked for.
func notice(what error) string {
	var unwinding *record.UnwindError
	if errors.As(what, &unwinding) { // which many users meet each time: one line
		why := cmp.Or(check.This().WhyNoBPF(what), "-v prints what the kernel says.")
		if errors.Is(what, syscall.EMFILE) {
			why = moreFiles
		}
		return fmt.Sprintf("gperf record: %v. %s\n", what, why)
	}
	return fmt.Sprintf("gperf record: %v\n%s", what, hint(what))
}

const moreFiles = "Raise the limit of open files (ulimit -n)."

const recordGCPercent = 40

// hurryTime is how long a recording may take to finish its file in a hurry.
const hurryTime = 500 * time.Millisecond

// interrupts returns a context that the first Ctrl-C (or SIGTERM, SIGHUP) ends, and
// a channel that the second closes. If gperf is still there a moment later, be it
// in a write that nobody reads, it ends then: a file can be read at any moment.
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

// status writes a line about the recording as perf writes it.
func status(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "[ %s record: %s ]\n", self, fmt.Sprintf(format, args...))
}

func tellDumped(path string, w io.Writer) {
	status(w, "Dump %s", path)
}

// tellSummary writes perf's two lines, and a third when samples were lost.
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

// slowToClose is how many tracepoints take the kernel longer than a second to close.
const slowToClose = 20

// commandStatus is the command's exit code; of one that a signal ended, what
// shells make of it.
func commandStatus(st *os.ProcessState) int {
	if st == nil {
		return exitOK
	}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return st.ExitCode()
}

// flagNames are the names of a set's flags, for hints about misspelt ones.
func flagNames(s *pflag.FlagSet) (l []string) {
	s.VisitAll(func(f *pflag.Flag) { l = append(l, f.Name) })
	slices.Sort(l)
	return l
}

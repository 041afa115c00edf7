package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"gperf/format"
	"gperf/internal/inspect"
	"gperf/record"
	"gperf/record/event"
	"gperf/record/synth"
)

// sampleBit is a flag that adds a field to each sample.
type sampleBit struct {
	of  *format.SampleType
	bit format.SampleType
}

func (b sampleBit) Set(s string) error {
	on, err := strconv.ParseBool(s)
	if err != nil {
		return err
	}
	*b.of &^= b.bit
	if on {
		*b.of |= b.bit
	}
	return nil
}
func (b sampleBit) String() string { return "false" }
func (b sampleBit) Type() string   { return "bool" }

// weight returns the sample field of -W on this architecture.
func weight() format.SampleType {
	if runtime.GOARCH == "amd64" {
		return format.SampleWeightStruct
	}
	return format.SampleWeight
}

// anyRegister is the value of -I and --user-regs without one.
const anyRegister = "*"

// addSampleFlags adds the flags that choose the fields of samples.
func (f *recordFlags) addSampleFlags(s *pflag.FlagSet) {
	o := &f.opts
	for _, b := range []struct {
		name, short string
		bit         format.SampleType
		help        string
	}{
		{"data", "d", format.SampleAddr, "record data addresses; implies --sample-mem-info and --data-mmap"},
		{"phys-data", "", format.SamplePhysAddr, "record physical data addresses"},
		{"data-page-size", "", format.SampleDataPageSize, "record the page size of data addresses"},
		{"code-page-size", "", format.SampleCodePageSize, "record the page size of code addresses"},
		{"sample-mem-info", "", format.SampleDataSrc, "record the memory level that supplied the data"},
		{"weight", "W", weight(), "record the weight of each sample, such as a load's latency in cycles"},
		{"transaction", "", format.SampleTransaction, "record the flags of hardware transactions"},
		{"timestamp", "T", format.SampleTime, "record the time of each sample (default, except with --per-thread)"},
		{"period", "P", format.SamplePeriod, "record the period of each sample"},
		{"sample-cpu", "", format.SampleCPU, "record the CPU of each sample"},
		{"sample-identifier", "", format.SampleIdentifier, "record the event ID at the same offset of all samples"},
	} {
		s.VarPF(sampleBit{&o.Sample, b.bit}, b.name, b.short, b.help).NoOptDefVal = "true"
	}
	s.BoolVar(&o.DataMmap, "data-mmap", false, "also record MMAP2 records of non-executable mappings")
	s.StringVarP(&f.intrRegs, "intr-regs", "I", "", "record these `registers` at the interrupt (default all; =? lists them)")
	s.StringVar(&f.userRegs, "user-regs", "", "record these user-space `registers` (default all; =? lists them)")
	for _, name := range []string{"intr-regs", "user-regs"} {
		s.Lookup(name).NoOptDefVal = anyRegister
	}
	s.BoolVarP(&f.branchAny, "branch-any", "b", false, "record taken branches of any type")
	s.StringVarP(&f.branchFilter, "branch-filter", "j", "", "record taken branches of these `types`: any, any_call, any_ret, cond, u, k …")
}

// addModeFlags adds the flags that choose how gperf records.
func (f *recordFlags) addModeFlags(s *pflag.FlagSet) {
	o := &f.opts
	s.BoolVar(&o.Target.PerThread, "per-thread", false, "use one ring per thread instead of per CPU; implies --no-inherit")
	s.BoolVar(&o.Switches, "switch-events", false, "record context switches")
	s.BoolVar(&o.Namespaces, "namespaces", false, "record the namespaces of processes")
	s.BoolVar(&f.latency, "latency", false, "record context switches for report --latency")
	s.BoolVar(&o.KernelChain, "kernel-callchains", false, "record kernel callchains only")
	s.BoolVar(&o.UserChain, "user-callchains", false, "record user callchains only")
	s.BoolVar(&o.Overwrite, "overwrite", false, "overwrite the oldest samples; write the rings on SIGUSR2 and at the end")
	s.BoolVar(&o.TailSynth, "tail-synthesize", false, "synthesize records of running processes at the end of the file")
	s.StringVar(&f.synth, "synth", "all", "synthesize these `kinds` of records at the start: no, all, task, mmap, cgroup")
	s.StringArrayVar(&f.switchEvents, "switch-output-event", nil, "start a new file at each of these `events`; implies --switch-output")
	s.StringVar(&f.maxSize, "max-size", "", "stop recording at this file `size`, with B, K, M, G")
	s.StringVar(&f.control, "control", "", "read commands from `fd:COMMANDS[,ACKS]` or fifo:COMMANDS[,ACKS]")
	s.BoolVar(&o.Kcore, "kcore", false, "record into a directory with a copy of /proc/kcore")
	s.IntVarP(&o.Realtime, "realtime", "r", 0, "record with this SCHED_FIFO `priority`")
	s.BoolVar(&o.NoBuffering, "no-buffering", false, "read each sample from the ring immediately")
	s.BoolVar(&f.strictFreq, "strict-freq", false, "fail if the kernel does not allow this frequency")
	s.BoolVar(&f.dryRun, "dry-run", false, "check flags and events, then exit")
	s.BoolVar(&f.ignored, "timestamp-boundary", false, "record the times of the first and last sample (always)")
	for _, a := range slices.Concat(withoutEffect, notPossible) {
		s.StringP(a.name, a.short, "", "")
		s.Lookup(a.name).NoOptDefVal = a.optional
		hide(s, a.name)
	}
}

// otherFlag is a flag of perf that gperf accepts without effect, or refuses.
type otherFlag struct {
	name, short string
	optional    string // the default value; "": the flag requires a value
	why         string
}

// withoutEffect lists perf's flags that have no effect in gperf, with the reason.
var withoutEffect = []otherFlag{
	{"affinity", "", "", "the Go runtime places the threads of gperf"},
	{"aio", "", "1", "gperf does not write asynchronously; -z compresses and writes in a separate thread"},
	{"buildid-all", "", "true", "the build IDs of all mapped files are recorded anyway"},
	{"debuginfod", "", "true", "gperf record fetches no files; script, report and annotate take --debuginfod"},
	{"mmap-flush", "", "", "rings are drained when they are half full, and once a second"},
	{"num-thread-synthesize", "", "", "one thread reads /proc"},
	{"off-cpu-thresh", "", "", "it is an option of --off-cpu, which gperf refuses"},
	{"proc-map-timeout", "", "", "gperf reads /proc/PID/maps without a time limit"},
	{"threads", "", "cpu", "one thread drains all rings, into one file"},
	{"vmlinux", "", "", "gperf record reads no vmlinux; script, report and annotate take -k"},
}

// notPossible lists perf's flags that gperf refuses, with the reason and an alternative.
var notPossible = []otherFlag{
	{"aux-sample", "", "true", "gperf does not record AUX areas (Intel PT, Arm SPE, CoreSight), use perf"},
	{"off-cpu", "", "true", "gperf does not sum off-CPU time: -e sched:sched_switch -g records where threads stop running"},
	{"setup-filter", "", "", "gperf pins no BPF filters: --filter filters by a tracepoint's fields"},
	{"snapshot", "S", "true", "gperf does not record AUX area snapshots (Intel PT, Arm SPE, CoreSight): --overwrite keeps the newest samples"},
}

// unsupported refuses the flags of notPossible and warns about those of withoutEffect.
func (f *recordFlags) unsupported(s *pflag.FlagSet) error {
	for _, r := range notPossible {
		if s.Changed(r.name) {
			return wrongUse("--%s is not possible: %s", r.name, r.why)
		}
	}
	for _, a := range withoutEffect {
		if s.Changed(a.name) {
			f.opts.Notice(fmt.Errorf("--%s has no effect: %s", a.name, a.why))
		}
	}
	return nil
}

// modes applies the flags of addSampleFlags and addModeFlags.
func (f *recordFlags) modes(s *pflag.FlagSet) error {
	for _, take := range []func(*pflag.FlagSet) error{f.unsupported, f.implied, f.machineState, f.system, f.values} {
		if err := take(s); err != nil {
			return err
		}
	}
	return nil
}

// implied sets the options that other flags imply: -d implies --sample-mem-info and
// --data-mmap, -t implies --no-inherit.
func (f *recordFlags) implied(s *pflag.FlagSet) error {
	o := &f.opts
	if o.Sample&format.SampleAddr != 0 {
		o.Sample |= format.SampleDataSrc
		o.DataMmap = o.DataMmap || !s.Changed("data-mmap")
	}
	if len(o.Target.TIDs) > 0 && !s.Changed("no-inherit") {
		o.NoInherit = true
	}
	return nil
}

// system checks flags that depend on the targets and on the kernel's limits.
func (f *recordFlags) system(*pflag.FlagSet) error {
	o := &f.opts
	if o.Target.PerThread && o.Target.SystemWide() {
		o.Notice(errors.New("SYSTEM/CPU switch overriding PER-THREAD"))
	}
	if f.latency && o.Target.SystemWide() {
		return wrongUse("latency profiling is not supported with system-wide collection")
	}
	o.Switches = o.Switches || f.latency
	if limit := record.MaxFreq(); f.strictFreq && o.Freq > limit {
		return fmt.Errorf("maximum frequency rate (%d Hz) exceeded: use -F with a lower value, or raise /proc/sys/kernel/perf_event_max_sample_rate", limit)
	}
	return nil
}

// values applies --synth, --max-size and --control.
func (f *recordFlags) values(*pflag.FlagSet) error {
	o := &f.opts
	kinds, err := synth.ParseKinds(f.synth)
	if err != nil {
		return wrongUse("--synth: %v", err)
	}
	o.Omit = synth.All &^ kinds
	if f.maxSize != "" {
		if o.MaxSize, err = record.ParseSize(f.maxSize); err != nil {
			return wrongUse("--max-size: %v", err)
		}
	}
	if f.control != "" {
		if o.Control, err = record.ParseControl(f.control); err != nil {
			return wrongUse("--control: %v", err)
		}
	}
	return nil
}

// machineState applies -I, --user-regs, -b and -j.
func (f *recordFlags) machineState(s *pflag.FlagSet) (err error) {
	o := &f.opts
	if s.Changed("intr-regs") {
		if o.IntrRegs, err = registerMask(f.intrRegs, record.IntrRegisters()); err != nil {
			return wrongUse("--intr-regs: %v", err)
		}
	}
	if s.Changed("user-regs") {
		if o.UserRegs, err = registerMask(f.userRegs, record.UserRegisters()); err != nil {
			return wrongUse("--user-regs: %v", err)
		}
	}
	switch {
	case f.branchAny && f.branchFilter != "":
		return wrongUse("-b means -j any: give only one of them")
	case (f.branchAny || f.branchFilter != "") && o.Branches != 0:
		return wrongUse("--call-graph lbr cannot be combined with -b or -j: all use the PMU's branch records")
	case f.branchAny:
		o.Branches = record.AnyBranch
	case f.branchFilter != "":
		if o.Branches, err = record.ParseBranches(f.branchFilter); err != nil {
			return wrongUse("-j: %v", err)
		}
	}
	return nil
}

func registerMask(list string, available uint64) (uint64, error) {
	if list == anyRegister {
		return available, nil
	}
	return record.ParseRegisters(list, available)
}

// framePointers applies the text after "fp,": a number of frames, or defer.
func (f *recordFlags) framePointers(arg string) error {
	switch n, err := strconv.ParseUint(arg, 10, 16); {
	case arg == "":
	case arg == "defer":
		f.opts.Notice(errors.New("--call-graph fp,defer: the kernel walks user stacks when it takes the sample"))
	case err != nil || n == 0:
		return wrongUse("--call-graph fp,%s: invalid argument, use a number of frames, or defer", arg)
	default:
		f.opts.MaxStack = uint16(n)
	}
	return nil
}

// delays applies -D: ms, -1, or comma-separated ranges.
func (f *recordFlags) delays() error {
	if f.delay == "" {
		return nil
	}
	o := &f.opts
	if n, err := strconv.ParseInt(f.delay, 10, 32); err == nil && n >= -1 {
		o.Delay = time.Duration(n) * time.Millisecond
		return nil
	}
	var times []time.Duration
	for part := range strings.SplitSeq(f.delay, ",") {
		from, to, _ := strings.Cut(part, "-")
		for _, word := range []string{from, to} {
			n, err := strconv.ParseUint(word, 10, 31)
			if err != nil {
				return wrongUse("-D %s: invalid delay, use ms, -1, or ranges such as 10-20,30-40", f.delay)
			}
			times = append(times, time.Duration(n)*time.Millisecond)
		}
	}
	if !slices.IsSorted(times) || times[0] == 0 {
		return wrongUse("-D %s: ranges must start after 0 and be in ascending order", f.delay)
	}
	o.Delay, o.Pauses = times[0], times[1:]
	return nil
}

// switchEventArgs applies --switch-output-event, which implies --switch-output.
func (f *recordFlags) switchEventArgs(at *event.Finder) error {
	for _, list := range f.switchEvents {
		events, err := event.Parse(list, at)
		if err != nil {
			return err
		}
		f.opts.Switch.Events = append(f.opts.Switch.Events, events...)
	}
	return nil
}

// switchOnSignal starts a new output file at each SIGUSR2.
func (f *recordFlags) switchOnSignal() {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGUSR2)
	f.opts.Switch.Signal = ch
}

// listEvents prints the events of a running recording, with the flags of evlist.
func listEvents(attrs []format.Attr, flags string, stderr io.Writer) {
	var o evlistFlags
	s := o.set()
	if err := s.Parse(strings.Fields(flags)); err != nil {
		fmt.Fprintln(stderr, "failed: wrong command")
		return
	}
	w := bufio.NewWriter(stderr)
	inspect.Events(w, &format.File{Attrs: attrs}, o.EventOptions)
	w.Flush()
}

// rewriteArgs rewrites flags that perf accepts and pflag does not, up to the command: -zLEVEL
// and -IREGS, also after other letters (-az3), and --no-FLAG.
func rewriteArgs(s *pflag.FlagSet, args []string) []string {
	args = slices.Clone(args)
	for i := 0; i < len(args) && len(args[i]) > 1 && args[i][0] == '-' && args[i] != "--"; i++ {
		var another bool
		if name, ok := strings.CutPrefix(args[i], "--"); ok {
			args[i], another = negated(s, name)
		} else {
			args[i], another = joinValue(s, args[i])
		}
		if another {
			i++
		}
	}
	return args
}

// negated returns --NAME, or --FLAG=false if the name negates FLAG. It reports whether the
// next argument is the flag's value.
func negated(s *pflag.FlagSet, name string) (arg string, another bool) {
	f := s.Lookup(name)
	if f != nil || strings.Contains(name, "=") {
		return "--" + name, f != nil && f.NoOptDefVal == ""
	}
	positive, negative := strings.CutPrefix(name, "no-")
	if !negative {
		positive = "no-" + name
	}
	if f := s.Lookup(positive); f != nil && f.Value.Type() == "bool" {
		return "--" + positive + "=false", false
	}
	return "--" + name, false
}

// joinValue joins a letter and its optional value, as -z=LEVEL. It reports whether the next
// argument is the last letter's value.
func joinValue(s *pflag.FlagSet, arg string) (joined string, another bool) {
	for i := 1; i < len(arg); i++ {
		f := s.ShorthandLookup(arg[i : i+1])
		switch {
		case f == nil:
			return arg, false
		case f.NoOptDefVal == "":
			return arg, i == len(arg)-1
		case i+1 < len(arg) && takesRest(f, arg[i+1]):
			return arg[:i+1] + "=" + arg[i+1:], false
		}
	}
	return arg, false
}

// takesRest reports whether the text after a letter is its value: after -z a number, after
// -I and -S anything.
func takesRest(f *pflag.Flag, next byte) bool {
	switch f.Shorthand {
	case "z":
		return '0' <= next && next <= '9'
	case "I", "S":
		return next != '='
	}
	return false
}

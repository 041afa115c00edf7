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
	"gperf/record"
	"gperf/record/event"
	"gperf/script"
)

// sampleBit is a flag for something that each sample carries.
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

// weight is what -W asks for, as the machine has it.
func weight() format.SampleType {
	if runtime.GOARCH == "amd64" {
		return format.SampleWeightStruct
	}
	return format.SampleWeight
}

// anyRegister is the value of -I and --user-regs without one.
const anyRegister = "*"

// addSampleFlags adds the flags that say what samples carry.
func (f *recordFlags) addSampleFlags(s *pflag.FlagSet) {
	o := &f.opts
	for _, b := range []struct {
		name, short string
		bit         format.SampleType
		help        string
	}{
		{"data", "d", format.SampleAddr, "addresses of data; implies --sample-mem-info and --data-mmap"},
		{"phys-data", "", format.SamplePhysAddr, "physical addresses of data"},
		{"data-page-size", "", format.SampleDataPageSize, "size of the page that the data is on"},
		{"code-page-size", "", format.SampleCodePageSize, "size of the page that the code is on"},
		{"sample-mem-info", "", format.SampleDataSrc, "where in the memory hierarchy the data was found"},
		{"weight", "W", weight(), "weight of each sample, such as the cycles that a load took"},
		{"transaction", "", format.SampleTransaction, "flags of the hardware transaction"},
		{"timestamp", "T", format.SampleTime, "the time of each sample (always recorded, except with --per-thread)"},
		{"period", "P", format.SamplePeriod, "the period of each sample"},
		{"sample-cpu", "", format.SampleCPU, "the CPU of each sample"},
		{"sample-identifier", "", format.SampleIdentifier, "the event's id at the same place in all samples"},
	} {
		s.VarPF(sampleBit{&o.Sample, b.bit}, b.name, b.short, b.help).NoOptDefVal = "true"
	}
	s.BoolVar(&o.DataMmap, "data-mmap", false, "record mappings that hold no code as well")
	s.StringVarP(&f.intrRegs, "intr-regs", "I", "", "machine `registers` of the interrupted code, names with commas; default all, =? lists them")
	s.StringVar(&f.userRegs, "user-regs", "", "machine `registers` of user space; default all, =? lists them")
	for _, name := range []string{"intr-regs", "user-regs"} {
		s.Lookup(name).NoOptDefVal = anyRegister
	}
	s.BoolVarP(&f.branchAny, "branch-any", "b", false, "taken branches of any type")
	s.StringVarP(&f.branchFilter, "branch-filter", "j", "", "taken branches of these `types`, with commas: any, any_call, any_ret, ind_call, cond, u, k …")
}

// addModeFlags adds the flags that say how gperf records.
func (f *recordFlags) addModeFlags(s *pflag.FlagSet) {
	o := &f.opts
	s.BoolVar(&o.Target.PerThread, "per-thread", false, "a ring for each thread, not for each CPU; implies --no-inherit")
	s.BoolVar(&o.Switches, "switch-events", false, "record context switches")
	s.BoolVar(&o.Namespaces, "namespaces", false, "record the namespaces of processes")
	s.BoolVar(&f.latency, "latency", false, "record what report --latency needs: context switches")
	s.BoolVar(&o.KernelChain, "kernel-callchains", false, "callchains of the kernel only")
	s.BoolVar(&o.UserChain, "user-callchains", false, "callchains of user space only")
	s.BoolVar(&o.Overwrite, "overwrite", false, "flight recorder: keep what the rings hold, write it on SIGUSR2 (--switch-output) and at the end")
	s.BoolVar(&o.TailSynth, "tail-synthesize", false, "describe running processes at the end of the file, not at its beginning")
	s.StringVar(&f.synth, "synth", "all", "describe these `kinds` of what runs at the start: no, all, task, mmap, cgroup")
	s.StringArrayVar(&f.switchEvents, "switch-output-event", nil, "start a new file at each of these `events`, which are not recorded")
	s.StringVar(&f.maxSize, "max-size", "", "stop when the file has this `size`, with B, K, M, G")
	s.StringVar(&f.control, "control", "", "take commands (enable, disable, stop, ping, evlist) from `fd:COMMANDS[,ACKS]` or fifo:COMMANDS[,ACKS]")
	s.BoolVar(&o.Kcore, "kcore", false, "record into a directory, with a copy of the kernel's code out of /proc/kcore")
	s.IntVarP(&o.Realtime, "realtime", "r", 0, "record with this `priority` of SCHED_FIFO")
	s.BoolVar(&o.NoBuffering, "no-buffering", false, "take each sample out of the ring at once")
	s.BoolVar(&f.strictFreq, "strict-freq", false, "fail if the kernel does not allow the frequency")
	s.BoolVar(&f.dryRun, "dry-run", false, "check the flags and events, and exit")
	s.BoolVar(&f.ignored, "timestamp-boundary", false, "the times of the first and last sample (always recorded)")
	for _, a := range slices.Concat(withoutEffect, notPossible) {
		s.StringP(a.name, a.short, "", "")
		s.Lookup(a.name).NoOptDefVal = a.optional
		hide(s, a.name)
	}
}

// otherFlag is a flag of perf's that gperf knows without doing what perf does.
type otherFlag struct {
	name, short string
	optional    string // its value where it has none; "": it must have one
	why         string
}

// withoutEffect are perf's flags that change nothing here, with the reason.
var withoutEffect = []otherFlag{
	{"affinity", "", "", "the Go runtime places the threads of gperf"},
	{"aio", "", "1", "gperf does not write asynchronously; -z compresses and writes in a thread of its own"},
	{"buildid-all", "", "true", "the build IDs of all mapped files are recorded anyway"},
	{"debuginfod", "", "true", "gperf record fetches no files; script, report and annotate take --debuginfod"},
	{"mmap-flush", "", "", "rings are drained when they are half full, and once a second"},
	{"num-thread-synthesize", "", "", "one thread reads /proc"},
	{"off-cpu-thresh", "", "", "it belongs to --off-cpu"},
	{"proc-map-timeout", "", "", "there is no limit on the time that reading /proc/PID/maps takes"},
	{"threads", "", "cpu", "one thread drains all rings, into one file"},
	{"vmlinux", "", "", "gperf record reads no vmlinux; script, report and annotate take -k"},
}

// notPossible are perf's flags that gperf refuses, with the reason and another way.
var notPossible = []otherFlag{
	{"aux-sample", "", "true", "gperf does not record AUX areas (Intel PT, Arm SPE, CoreSight): perf does"},
	{"off-cpu", "", "true", "gperf does not sum up times off the CPU: -e sched:sched_switch -g records where threads stop to run"},
	{"setup-filter", "", "", "gperf has no BPF filters to pin: --filter takes expressions of a tracepoint's fields"},
	{"snapshot", "S", "true", "gperf does not record AUX areas (Intel PT, Arm SPE, CoreSight), of which snapshots are: --overwrite keeps the newest samples"},
}

// unsupported reports flags that are refused or change nothing.
func (f *recordFlags) unsupported(s *pflag.FlagSet) error {
	for _, r := range notPossible {
		if s.Changed(r.name) {
			return wrongUse("--%s is not possible: %s", r.name, r.why)
		}
	}
	for _, a := range withoutEffect {
		if s.Changed(a.name) {
			f.opts.Notice(fmt.Errorf("--%s changes nothing: %s", a.name, a.why))
		}
	}
	return nil
}

// modes takes the flags of addSampleFlags and addModeFlags.
func (f *recordFlags) modes(s *pflag.FlagSet) error {
	for _, take := range []func(*pflag.FlagSet) error{f.unsupported, f.implied, f.machineState, f.system, f.values} {
		if err := take(s); err != nil {
			return err
		}
	}
	return nil
}

// implied sets what flags imply: -d where memory was accessed and what is mapped there, -t
// no inheritance.
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

// system checks flags that depend on the targets, and on what the kernel allows.
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

// values takes --synth, --max-size and --control.
func (f *recordFlags) values(*pflag.FlagSet) error {
	o := &f.opts
	kinds, err := record.ParseSynth(f.synth)
	if err != nil {
		return wrongUse("--synth: %v", err)
	}
	o.Omit = record.SynthAll &^ kinds
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

// machineState takes -I, --user-regs, -b and -j.
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
		return wrongUse("-b is -j any: give one of the two")
	case (f.branchAny || f.branchFilter != "") && o.Branches != 0:
		return wrongUse("--call-graph lbr uses the PMU's record of branches: -b and -j cannot")
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

// framePointers takes what follows "fp,": a number of frames, or defer.
func (f *recordFlags) framePointers(arg string) error {
	switch n, err := strconv.ParseUint(arg, 10, 16); {
	case arg == "":
	case arg == "defer":
		f.opts.Notice(errors.New("--call-graph fp,defer: user stacks are walked when the sample is taken"))
	case err != nil || n == 0:
		return wrongUse("--call-graph fp,%s: a number of frames, or defer", arg)
	default:
		f.opts.MaxStack = uint16(n)
	}
	return nil
}

// delays takes -D: ms, -1, or ranges with commas.
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
				return wrongUse("-D %s: the delay is in ms, or -1, or ranges such as 10-20,30-40", f.delay)
			}
			times = append(times, time.Duration(n)*time.Millisecond)
		}
	}
	if !slices.IsSorted(times) || times[0] == 0 {
		return wrongUse("-D %s: the ranges begin after 0, and each after the one before", f.delay)
	}
	o.Delay, o.Pauses = times[0], times[1:]
	return nil
}

// switchEventArgs takes --switch-output-event. It implies --switch-output.
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

// switchOnSignal switches the output at each SIGUSR2.
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
	script.Events(w, &format.File{Attrs: attrs}, o.EventOptions)
	w.Flush()
}

// rewriteArgs rewrites what perf's way of reading flags allows and pflag's does not, up to
// the command: -zLEVEL and -IREGS, also after other letters (-az3), and --no-FLAG.
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

// negated returns --NAME, or if it negates another flag that one with "=false". It reports
// whether the next argument is its value.
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

// joinValue joins the value of a letter that may have one, as -z=LEVEL. It reports whether
// the next argument is the last letter's value.
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

// takesRest tells whether what follows a letter is its value: after -z a number, after -I
// and -S anything.
func takesRest(f *pflag.Flag, next byte) bool {
	switch f.Shorthand {
	case "z":
		return '0' <= next && next <= '9'
	case "I", "S":
		return next != '='
	}
	return false
}

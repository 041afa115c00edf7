package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/record"
	"gperf/record/perfevent"
)

// samplingFlags choose how often gperf record takes a sample.
type samplingFlags struct {
	freq   string
	period uint64
	strict bool
	waker  string
	thresh uint32 // of waits, in ms

	goroutines string
}

// Values of --waker and --goroutines.
const (
	allWakers  = "all"
	longWakers = "long" // of waits that are not summed

	allPrograms = "all" // of Go that run, and the command
)

func (f *samplingFlags) add(s *pflag.FlagSet, o *record.Options) {
	s.StringVarP(&f.freq, "freq", "F", "", "sample at this `frequency` in Hz, or max (default 4000)")
	cli.NumberOrBare(s, &f.period, &o.Count, "count", "c", "event period `n`; --count alone: count in the kernel")
	s.BoolVar(&f.strict, "strict-freq", false, "fail if the kernel does not allow this frequency")
	s.BoolVar(&o.OffCPU, "off-cpu", false, "record how long threads wait, in ns, and where")
	s.StringVar(&f.waker, "waker", "", "with --off-cpu: record who ends `all` waits, or long")
	s.Lookup("waker").NoOptDefVal = allWakers
	s.StringVar(&f.goroutines, "goroutines", "", "record waits of goroutines, of `all` or of FILE,...")
	s.Lookup("goroutines").NoOptDefVal = allPrograms
	s.Uint32Var(&f.thresh, "off-cpu-thresh", 1, "sum waits shorter than this, in `ms`")
	s.BoolVarP(&o.NoSamples, "no-samples", "n", false, "record side-band events only, no samples")
	s.BoolVarP(&o.Samples.Stat, "stat", "s", false, "record event counts per thread")
}

func (f *samplingFlags) apply(s *pflag.FlagSet, o *record.Options) error {
	switch f.freq {
	case "":
	case "max":
		o.Freq = perfevent.MaxFreq()
		o.Notice(fmt.Errorf("using the maximum frequency rate of %d Hz", o.Freq))
	default:
		n, err := strconv.ParseUint(f.freq, 10, 32)
		if err != nil || n == 0 {
			return cli.WrongUse("-F %s: invalid frequency, use samples per second or max", f.freq)
		}
		o.Freq = n
	}
	o.Period = f.period
	if o.Freq != 0 && o.Period != 0 {
		return cli.WrongUse("cannot set frequency and period at the same time")
	}
	if !slices.Contains([]string{"", allWakers, longWakers}, f.waker) {
		return cli.WrongUse("--waker %s: use all, or long for waits that are not summed", f.waker)
	}
	if f.goroutines != "" {
		if !s.Changed("call-graph") && !s.Changed("stacks") {
			return cli.WrongUse("--goroutines without -g: stacks show what goroutines wait for, add -g")
		}
		o.OffCPU, o.Goroutines = true, []string{}
		if f.goroutines != allPrograms {
			o.Goroutines = strings.Split(f.goroutines, ",")
		}
	}
	o.OffCPUWaker, o.LongWakers = f.waker != "", f.waker == longWakers
	if o.OffCPUWaker && !o.OffCPU {
		return cli.WrongUse("--waker without --off-cpu: it records who ends the waits, use record --off-cpu --waker -g")
	}
	o.OffCPUThreshold = time.Duration(f.thresh) * time.Millisecond
	if s.Changed("count") && !o.Count && o.Period == 0 && o.Freq == 0 {
		o.Notice(errors.New("-c 0: using the default frequency"))
	}
	if limit := perfevent.MaxFreq(); f.strict && o.Freq > limit {
		return fmt.Errorf("maximum frequency rate (%d Hz) exceeded: use -F with a lower value, "+
			"or raise /proc/sys/kernel/perf_event_max_sample_rate", limit)
	}
	return nil
}

// stackFlags choose the callchains that gperf record records.
type stackFlags struct {
	g         bool
	callGraph string
}

func (f *stackFlags) add(s *pflag.FlagSet, o *record.Options) {
	s.BoolVarP(&f.g, "stacks", "g", false, "record callchains, of user space by dwarf")
	cli.Instead(s, "stacks", "--call-graph takes the method")
	s.StringVar(&f.callGraph, "call-graph", "", "`method`: dwarf, dwarf,copy[,SIZE], fp, lbr, no")
	s.SetAnnotation("call-graph", cli.NegatedKey, []string{"no"})
	s.Uint16Var(&o.Stacks.MaxStack, "max-stack", 0, "limit callchains to `n` frames")
	s.BoolVar(&o.Stacks.KernelChain, "kernel-callchains", false, "record kernel callchains only")
	s.BoolVar(&o.Stacks.UserChain, "user-callchains", false, "record user callchains only")
}

func (f *stackFlags) apply(o *record.Options) error {
	mode, rest, more := strings.Cut(f.callGraph, ",")
	switch {
	case mode == "":
		kernel := o.AllKernel || o.Stacks.KernelChain
		o.Stacks.DWARF = f.g && !kernel
		o.Stacks.Callchain = f.g && kernel
	case mode == "fp":
		o.Stacks.Callchain = true
		return framePointers(rest, o)
	case mode == "no":
	case mode == "lbr":
		o.Stacks.Callchain, o.Samples.Branches = true, record.CallStacks
	case mode != "dwarf":
		return cli.WrongUse("--call-graph %s: unknown method, use fp, dwarf or lbr", f.callGraph)
	case o.Stacks.KernelChain:
		o.Stacks.Callchain = true
	case !more && self != perfName:
		o.Stacks.DWARF = true
	default:
		size, err := stackDump(rest)
		o.Stacks.StackDump = size
		return err
	}
	return nil
}

// stackDump parses the text after "dwarf,": "copy" or "copy,SIZE". perf's "dwarf,SIZE" means
// the same, and so does "dwarf" if gperf is called perf.
func stackDump(s string) (uint16, error) {
	if s == "" || s == "copy" {
		return record.DefaultStackDump, nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "copy,"), 10, 32)
	if err != nil || n == 0 || n > format.MaxSampleStackUser {
		return 0, cli.WrongUse("--call-graph dwarf,%s: invalid stack copy size, use 8 to %d bytes", s,
			format.MaxSampleStackUser)
	}
	return uint16((n + 7) &^ 7), nil
}

// framePointers applies the text after "fp,": a number of frames, or defer.
func framePointers(arg string, o *record.Options) error {
	switch n, err := strconv.ParseUint(arg, 10, 16); {
	case arg == "":
	case arg == "defer":
		o.Notice(errors.New("--call-graph fp,defer: the kernel walks user stacks when it takes the sample"))
	case err != nil || n == 0:
		return cli.WrongUse("--call-graph fp,%s: invalid argument, use a number of frames, or defer", arg)
	default:
		o.Stacks.MaxStack = uint16(n)
	}
	return nil
}

package main

import (
	"runtime"
	"strconv"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/record"
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

// sampleFlags choose the fields of samples.
type sampleFlags struct {
	branchAny    bool
	branchFilter string
	intrRegs     string
	userRegs     string
}

func (f *sampleFlags) add(s *pflag.FlagSet, o *record.Options) {
	for _, b := range []struct {
		name, short string
		bit         format.SampleType
		help        string
	}{
		{"data", "d", format.SampleAddr, "data address; implies --sample-mem-info"},
		{"phys-data", "", format.SamplePhysAddr, "physical data address"},
		{"data-page-size", "", format.SampleDataPageSize, "page size of the data address"},
		{"code-page-size", "", format.SampleCodePageSize, "page size of the code address"},
		{"sample-mem-info", "", format.SampleDataSrc, "memory level that supplied the data"},
		{"weight", "W", weight(), "weight, such as a load's latency in cycles"},
		{"transaction", "", format.SampleTransaction, "flags of hardware transactions"},
		{"timestamp", "T", format.SampleTime, "time (default, except with --per-thread)"},
		{"period", "P", format.SamplePeriod, "period"},
		{"sample-cpu", "", format.SampleCPU, "CPU"},
		{"sample-identifier", "", format.SampleIdentifier, "event ID at the same offset of all samples"},
	} {
		s.VarPF(sampleBit{&o.Samples.Fields, b.bit}, b.name, b.short, b.help).NoOptDefVal = "true"
	}
	s.StringVarP(&f.intrRegs, "intr-regs", "I", "", "`registers` at the interrupt (=? lists them)")
	s.StringVar(&f.userRegs, "user-regs", "", "`registers` of user space (=? lists them)")
	for _, name := range []string{"intr-regs", "user-regs"} {
		s.Lookup(name).NoOptDefVal = anyRegister
	}
	s.BoolVarP(&f.branchAny, "branch-any", "b", false, "taken branches of any type")
	s.StringVarP(&f.branchFilter, "branch-filter", "j", "", "taken branches of `types` any, any_call, cond, u")
	s.BoolVarP(&o.Samples.Raw, "raw-samples", "R", false, "raw data (default for tracepoints)")
	s.BoolVar(&o.Samples.AllCgroups, "all-cgroups", false, "cgroup")
	s.BoolVar(&o.Samples.RunningTime, "running-time", false, "with :S: times enabled and running")
}

// apply sets the fields. -d implies --sample-mem-info and --data-mmap.
func (f *sampleFlags) apply(s *pflag.FlagSet, o *record.Options) (err error) {
	if o.Samples.Fields&format.SampleAddr != 0 {
		o.Samples.Fields |= format.SampleDataSrc
		o.SideBand.DataMmap = o.SideBand.DataMmap || !s.Changed("data-mmap")
	}
	if s.Changed("intr-regs") {
		if o.Samples.IntrRegs, err = registerMask(f.intrRegs, record.IntrRegisters()); err != nil {
			return cli.WrongUse("--intr-regs: %v", err)
		}
	}
	if s.Changed("user-regs") {
		if o.Samples.UserRegs, err = registerMask(f.userRegs, record.UserRegisters()); err != nil {
			return cli.WrongUse("--user-regs: %v", err)
		}
	}
	return f.applyBranches(o)
}

func (f *sampleFlags) applyBranches(o *record.Options) (err error) {
	switch {
	case f.branchAny && f.branchFilter != "":
		return cli.WrongUse("-b means -j any: give only one of them")
	case (f.branchAny || f.branchFilter != "") && o.Samples.Branches != 0:
		return cli.WrongUse("--call-graph lbr cannot be combined with -b or -j: all use the PMU's branch records")
	case f.branchAny:
		o.Samples.Branches = record.AnyBranch
	case f.branchFilter != "":
		if o.Samples.Branches, err = record.ParseBranches(f.branchFilter); err != nil {
			return cli.WrongUse("-j: %v", err)
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

// sideBandFlags choose the side-band records.
type sideBandFlags struct {
	buildIDMmap bool
	latency     bool
	synth       string
	ignored     bool
}

func (f *sideBandFlags) add(s *pflag.FlagSet, o *record.Options) {
	s.BoolVar(&o.SideBand.DataMmap, "data-mmap", false, "record MMAP2 records of non-executable mappings, too")
	s.BoolVar(&o.SideBand.Switches, "switch-events", false, "record context switches")
	s.BoolVar(&f.latency, "latency", false, "record context switches for report --latency")
	s.BoolVar(&o.SideBand.Namespaces, "namespaces", false, "record the namespaces of processes")
	s.BoolVar(&o.SideBand.NoBPFEvent, "no-bpf-event", false, "do not record BPF events")
	s.BoolVar(&f.buildIDMmap, "buildid-mmap", true, "record build IDs in MMAP2 records (Linux 5.12)")
	s.BoolVarP(&o.Output.NoBuildID, "no-buildid", "B", false, "do not write the table of build IDs")
	s.BoolVarP(&o.Output.NoBuildIDCache, "no-buildid-cache", "N", false, "do not update the build-ID cache")
	s.BoolVar(&o.Stacks.NoRuntimes, "no-runtimes", false, "record no functions of runtimes: Python, Node.js, …")
	s.StringVar(&f.synth, "synth", "all", "synthesize `kinds`: no, task, mmap, …")
	s.BoolVar(&o.SideBand.TailSynth, "tail-synthesize", false, "synthesize records of running processes at the end")
	s.BoolVar(&f.ignored, "timestamp-boundary", false, "record the first and last time (always)")
}

func (f *sideBandFlags) apply(o *record.Options) error {
	o.SideBand.NoBuildIDMmap = !f.buildIDMmap
	if f.latency && o.Target.SystemWide() {
		return cli.WrongUse("latency profiling is not supported with system-wide collection")
	}
	o.SideBand.Switches = o.SideBand.Switches || f.latency
	kinds, err := synth.ParseKinds(f.synth)
	if err != nil {
		return cli.WrongUse("--synth: %v", err)
	}
	o.SideBand.Omit = synth.All &^ kinds
	return nil
}

package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/internal/procfs"
	"gperf/internal/session"
	"gperf/report"
	"gperf/report/key"
)

// filterFlags holds the flags that select samples, and parts of them.
type filterFlags struct {
	cpus       string
	pids, tids string
	comms      string
	times      string
	expression string
	kinds      string
	guests     bool
	noIdle     bool
	noNative   bool
	weight     string
	// hideWaits leaves out waits for work, unless --kind or --filter name kinds of waits.
	hideWaits bool
}

func (f *filterFlags) add(s *pflag.FlagSet) {
	s.StringVarP(&f.cpus, "cpu", "C", "", "show only samples of these CPUs, a `list` such as 0,2-3")
	s.StringVar(&f.pids, "pid", "", "show only samples of these PIDs, a `list`")
	s.StringVar(&f.tids, "tid", "", "show only samples of these TIDs, a `list`")
	s.SetAnnotation("pid", cli.BareKey, []string{"--" + barePID})
	s.SetAnnotation("tid", cli.BareKey, []string{"--" + bareTID})
	s.StringVarP(&f.comms, "comms", "c", "", "show only samples of threads with these names, a `list`")
	s.BoolVar(&f.guests, "guest", false, "show samples of virtual machines, too, without symbols")
	f.addNoIdle(s)
	s.BoolVar(&f.noNative, "no-native", false, "where runtimes run functions, show these and the kernel")
	s.StringVar(&f.times, "time", "", "show only `ranges`: START,STOP in seconds, 10%-20%, 10%/2")
	f.addFilter(s)
	f.addWeight(s)
}

func (f *filterFlags) addNoIdle(s *pflag.FlagSet) {
	s.BoolVar(&f.noIdle, "no-idle", false, "leave out samples of CPUs without work")
}

func (f *filterFlags) addFilter(s *pflag.FlagSet) {
	s.StringVar(&f.expression, "filter", "", "show only samples that match an `expr`: 'dport == 53'")
	s.StringVar(&f.kinds, "kind", "", "show only waits of these kinds, a `list` such as lock,disk")
}

func (f *filterFlags) addWeight(s *pflag.FlagSet) {
	s.StringVar(&f.weight, "weight", "", "count this numeric `field` of tracepoints, not samples")
}

// filter returns the filter of the samples.
func (f *filterFlags) filter(file *format.File) (*session.Filter, error) {
	l := &session.Filter{Comms: cli.Words(f.comms), NoGuests: !f.guests}
	var err error
	if f.cpus != "" {
		if l.CPUs, err = procfs.ParseCPUList(f.cpus); err != nil {
			return nil, cli.WrongUse("--cpu %s: %v", f.cpus, err)
		}
		if event := session.WithoutCPU(file); event != "" {
			return nil, cli.WrongUse("--cpu %s: samples of %q have no CPU: record with --sample-cpu or -a", f.cpus,
				event)
		}
	}
	if l.PIDs, err = cli.Numbers("--pid", f.pids); err != nil {
		return nil, err
	}
	if l.TIDs, err = cli.Numbers("--tid", f.tids); err != nil {
		return nil, err
	}
	if f.times != "" {
		if l.Times, err = session.ParseTimes(f.times, file.Uint64s(format.FeatureSampleTime, 2)); err != nil {
			return nil, cli.WrongUse("--time %s: %v", f.times, err)
		}
	}
	return l, nil
}

// kindKey is the key of the kinds of waits.
const kindKey = "kind"

// check checks the list of --kind.
func (f *filterFlags) check() error {
	for _, kind := range cli.Words(f.kinds) {
		if kinds := session.WaitKinds(); !slices.Contains(kinds, kind) {
			return cli.WrongUse("--kind %s: no such kind of waits%s", kind, suggestion(kind, kinds, "the kinds are"))
		}
	}
	return nil
}

// where returns the expression that --filter and --kind make, "" without them.
func (f *filterFlags) where() string {
	var kinds []string
	for _, kind := range cli.Words(f.kinds) {
		kinds = append(kinds, kindKey+" == "+kind)
	}
	only := strings.Join(kinds, " || ")
	if only == "" || f.expression == "" {
		return cmp.Or(f.expression, only)
	}
	return "(" + f.expression + ") && (" + only + ")"
}

// toEntries moves the filters of threads and guests to a filter of entries, and adds lists of DSOs and symbols. The
// filter of entries leaves the totals as they are, so the session must select all samples.
func (f *filterFlags) toEntries(e *report.Filter, dsos, symbols string) (err error) {
	e.Comms, e.NoGuests = cli.Words(f.comms), !f.guests
	e.Where = session.Where{DSOs: cli.Words(dsos), Symbols: cli.Words(symbols)}
	if e.PIDs, err = cli.Numbers("--pid", f.pids); err == nil {
		e.TIDs, err = cli.Numbers("--tid", f.tids)
	}
	f.comms, f.pids, f.tids, f.guests = "", "", "", true
	return err
}

// selectSamples makes a session select the samples of --filter. Of several recordings, one may lack a key or value:
// see many.checkFilter.
func (f *filterFlags) selectSamples(r *openInput, opts *session.Options, several bool) (err error) {
	opts.NoIdleWaits = f.hideWaits
	where := f.where()
	if where == "" {
		return nil
	}
	r.selected, err = key.NewFilter(opts.File, opts.Symbols, where, opts.Origin)
	if err == nil && !several {
		err = key.FirstImpossible(r.selected.Impossible())
	}
	if err != nil {
		return cli.WrongUse("--filter: %v", err)
	}
	opts.NoIdleWaits = f.hideWaits && !r.selected.Compares(kindKey)
	if r.selected.NeedsFrames() {
		opts.Select = r.selected.Match
		return nil
	}
	keep := opts.Keep
	opts.Keep = func(s *session.Sample) bool { return r.selected.Match(s) && keep(s) }
	return nil
}

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/record"
	"gperf/record/event"
	"gperf/record/probe"
)

// eventArg is one -e with the flags that follow it, up to the next -e.
type eventArg struct {
	list        string
	filters     []string
	excludePerf bool
	cgroups     []cgroupArg // for the events up to and including this argument's
}

// cgroupArg is one name of -G. It applies to the event with index place.
type cgroupArg struct {
	place int
	name  string
	all   bool // the only name: applies to all events
}

// argFunc is a repeatable flag whose position among other flags matters.
type argFunc func(value string) error

func (f argFunc) Set(s string) error { return f(s) }
func (f argFunc) String() string     { return "" }
func (f argFunc) Type() string       { return "stringArray" } // completion proposes the flag again

// eventFlags choose the events that gperf record records.
type eventFlags struct {
	args    []eventArg
	cgroups int // names of -G so far
	// cgroup limits the default event, if there is no -e.
	cgroup string
	// reading gets the filters that follow no -e, which select samples when they are read; nil: they are refused.
	reading *string
	// continuous adds the events of a recording that stays.
	continuous bool
}

func (f *eventFlags) add(s *pflag.FlagSet) {
	s.VarP(argFunc(f.addEvents), "event", "e", "record these `events` (default cycles), a list")
	usage := "filter the preceding -e by this `expression`"
	if f.reading != nil {
		usage = "filter the preceding -e, or all, by this `expression`"
	}
	s.Var(argFunc(f.addFilter), "filter", usage)
	s.BoolFunc("exclude-perf", "exclude gperf's own activity from the preceding -e", f.excludePerf)
	s.VarP(argFunc(f.addCgroups), "cgroup", "G", "with -a: record one `cgroup`, or one per event")
}

func (f *eventFlags) addEvents(list string) error {
	f.args = append(f.args, eventArg{list: list})
	return nil
}

// last returns the -e that precedes a flag.
func (f *eventFlags) last(flag string) (*eventArg, error) {
	if len(f.args) == 0 {
		return nil, fmt.Errorf("%s option should follow a -e tracepoint or probe", flag)
	}
	return &f.args[len(f.args)-1], nil
}

func (f *eventFlags) addFilter(filter string) error {
	if len(f.args) == 0 && f.reading != nil {
		*f.reading = bothFilters(*f.reading, filter)
		return nil
	}
	arg, err := f.last("--filter")
	if err == nil {
		arg.filters = append(arg.filters, filter)
	}
	return err
}

// readFilters makes the filters that follow an -e select samples when they are read, because nothing is recorded.
func (f *eventFlags) readFilters() {
	for _, arg := range f.args {
		for _, filter := range arg.filters {
			*f.reading = bothFilters(*f.reading, filter)
		}
	}
}

// bothFilters returns the conjunction of filters. The first may be empty.
func bothFilters(filter, other string) string {
	if filter == "" {
		return other
	}
	return "(" + filter + ") && (" + other + ")"
}

func (f *eventFlags) excludePerf(string) error {
	arg, err := f.last("--exclude-perf")
	if err == nil {
		arg.excludePerf = true
	}
	return err
}

func (f *eventFlags) addCgroups(names string) error {
	l := strings.Split(names, ",")
	if len(f.args) == 0 && f.cgroups == 0 && len(l) == 1 {
		f.cgroup = names
		f.cgroups++
		return nil
	}
	arg, err := f.last("-G")
	if err != nil {
		return errNoEvent
	}
	for _, name := range l {
		arg.cgroups = append(arg.cgroups, cgroupArg{place: f.cgroups, name: name})
		f.cgroups++
	}
	if f.cgroups == 1 {
		arg.cgroups[0].all = true
	}
	return nil
}

// errNoEvent means that -G applies to events that come after it.
var errNoEvent = errors.New("-G: must define events before cgroups, as in -e cycles -G NAME")

// packetEvent is the event that is recorded if packets are asked for, but no event.
const packetEvent = "skb:kfree_skb"

// resolverOf returns the resolver of the recording's probes.
func resolverOf(o *record.Options) *probe.Resolver {
	at := &probe.Resolver{Tracefs: o.Tracefs, PIDs: slices.Concat(o.Target.PIDs, o.Target.TIDs), Notice: o.Notice}
	if len(o.Target.Command) > 0 {
		at.Command = o.Target.Command[0]
	}
	return at
}

// apply converts the -e flags, filters and cgroups to the recording's events, and
// switchEvents, which start a new output file.
func (f *eventFlags) apply(o *record.Options, switchEvents []string) error {
	at := &event.Resolver{Resolver: resolverOf(o)}
	if o.Packets.Chosen() && len(f.args) == 0 && o.Follow == nil {
		f.args = []eventArg{{list: packetEvent}}
	}
	switch {
	case f.cgroups > 0 && o.Target.Cgroup != "":
		return cli.WrongUse("-G, --unit, --container and --pod choose different cgroups: use one")
	case f.cgroup != "" && len(f.args) > 0:
		return cli.WrongUse("%v", errNoEvent)
	case f.cgroup != "":
		o.Target.Cgroup = f.cgroup
	}
	excluding := false
	for i, arg := range f.args {
		l, err := event.Parse(arg.list, at)
		if err != nil {
			return err
		}
		o.Events = append(o.Events, l...)
		own := o.Events[len(o.Events)-len(l):]
		filters := slices.Clone(arg.filters)
		if arg.excludePerf {
			filters = append(filters, `COMM != "`+ownComm()+`"`)
			excluding = true
		}
		if err := f.setFilters(own, filters, arg.excludePerf); err != nil {
			return err
		}
		for _, c := range arg.cgroups {
			if c.all && i == len(f.args)-1 { // of all events
				o.Target.Cgroup = c.name
				continue
			}
			if err := setCgroup(o.Events, c); err != nil {
				return err
			}
		}
	}
	if f.continuous {
		o.Events = append(o.Events, continuousEvents(o, at)...)
	}
	for _, list := range switchEvents {
		l, err := event.Parse(list, at)
		if err != nil {
			return err
		}
		o.Output.Switch.Events = append(o.Output.Switch.Events, l...)
	}
	if f.cgroups > 0 && (!o.Target.All && len(o.Target.CPUs) == 0 ||
		len(o.Target.PIDs)+len(o.Target.TIDs)+len(o.Target.UIDs) > 0) {
		return cli.WrongUse("cgroup monitoring only available in system-wide mode (-a, -C)")
	}
	if excluding {
		return nameThreads(ownComm())
	}
	return nil
}

// setFilters sets the conjunction of filters on events.
func (f *eventFlags) setFilters(events []event.Event, filters []string, excludePerf bool) error {
	if len(filters) == 0 {
		return nil
	}
	for i := range events {
		switch ev := &events[i]; {
		case ev.Type == format.TypeTracepoint:
			for _, filter := range filters {
				ev.Filter = bothFilters(ev.Filter, filter)
			}
		case excludePerf:
			return cli.WrongUse("--exclude-perf option should follow a -e tracepoint or probe, %s is neither", ev.Name)
		case f.reading != nil:
			return cli.WrongUse("--filter: %s has no fields to filter by; before -e, it selects the samples to show",
				ev.Name)
		default:
			return cli.WrongUse("--filter option should follow a -e tracepoint or probe: %s has no fields to filter by",
				ev.Name)
		}
	}
	return nil
}

func setCgroup(events []event.Event, c cgroupArg) error {
	switch {
	case c.place >= len(events):
		return cli.WrongUse("must define events before cgroups: -G names %d, but only %d events precede it", c.place+1,
			len(events))
	case c.all:
		for i := range events {
			events[i].Cgroup = c.name
		}
	default:
		events[c.place].Cgroup = c.name
	}
	return nil
}

// ownComm returns the name of this process's threads for --exclude-perf. A
// filter sees the TID and the name of a thread, but not its PID.
func ownComm() string { return fmt.Sprintf("gperf:%d", os.Getpid()) }

// nameThreads names the threads of this process. New threads inherit the name.
func nameThreads(name string) error {
	files, err := filepath.Glob("/proc/self/task/*/comm")
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := os.WriteFile(file, []byte(name), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("--exclude-perf: %w", err)
		}
	}
	return nil
}

// recordValues holds the values of gperf record's flags for completion.
var recordValues = map[string]values{
	"event": eventValues, "switch-output-event": eventValues,
	"call-graph":    fixed("dwarf", "dwarf,copy", "fp", "lbr", "no"),
	"branch-filter": fixed("any", "any_call", "any_ret", "ind_call", "cond", "u", "k"),
	"clockid":       fixed(clockNames()...),
	"synth":         fixed("no", "all", "task", "mmap", "cgroup"),
	"switch-output": fixed("signal"),
	"freq":          fixed("max"),
}

// eventValues returns the events of `gperf list` that may begin with prefix.
func eventValues(prefix string) (names []string) {
	for _, e := range likeEvents(prefix) {
		for _, name := range e.Names {
			names = append(names, cobra.CompletionWithDesc(name, e.Desc))
		}
	}
	return names
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/record/event"
	"gperf/record/probe"
)

// eventArg is one -e with what follows it, up to the next.
type eventArg struct {
	list        string
	filters     []string
	excludePerf bool
	cgroups     []cgroupArg // of the events so far, this argument's included
}

// cgroupArg is one name of -G; of the events so far it is for the one at this place.
type cgroupArg struct {
	place int
	name  string
	all   bool // it is for all of them, being the only one
}

// argFunc is a flag that is given several times, and whose place among others tells.
type argFunc func(value string) error

func (f argFunc) Set(s string) error { return f(s) }
func (f argFunc) String() string     { return "" }
func (f argFunc) Type() string       { return "string" }

func (f *recordFlags) addEvents(list string) error {
	f.events = append(f.events, eventArg{list: list})
	return nil
}

// last is the -e ahead of a flag.
func (f *recordFlags) last(flag string) (*eventArg, error) {
	if len(f.events) == 0 {
		return nil, fmt.Errorf("%s option should follow a -e tracepoint or probe", flag)
	}
	return &f.events[len(f.events)-1], nil
}

func (f *recordFlags) addFilter(filter string) error {
	arg, err := f.last("--filter")
	if err == nil {
		arg.filters = append(arg.filters, filter)
	}
	return err
}

func (f *recordFlags) excludePerf(string) error {
	arg, err := f.last("--exclude-perf")
	if err == nil {
		arg.excludePerf = true
	}
	return err
}

func (f *recordFlags) addCgroups(names string) error {
	arg, err := f.last("-G")
	if err != nil {
		return errors.New("must define events before cgroups")
	}
	l := strings.Split(names, ",")
	for _, name := range l {
		arg.cgroups = append(arg.cgroups, cgroupArg{place: f.cgroups, name: name})
		f.cgroups++
	}
	if f.cgroups == 1 {
		arg.cgroups[0].all = true
	}
	return nil
}

// parseEvents turns the -e and what goes with them into the recording's events.
func (f *recordFlags) parseEvents() error {
	o := &f.opts
	at := &event.Finder{Finder: &probe.Finder{Tracefs: o.Tracefs, PIDs: o.Target.PIDs, Notice: o.Notice}}
	excluding := false
	for _, arg := range f.events {
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
		if err := setFilters(own, filters, arg.excludePerf); err != nil {
			return err
		}
		for _, c := range arg.cgroups {
			if err := setCgroup(o.Events, c); err != nil {
				return err
			}
		}
	}
	if err := f.switchEventArgs(at); err != nil {
		return err
	}
	if f.cgroups > 0 && (!o.Target.All && len(o.Target.CPUs) == 0 || len(o.Target.PIDs)+len(o.Target.TIDs)+len(o.Target.UIDs) > 0) {
		return wrongUse("cgroup monitoring only available in system-wide mode (-a, -C)")
	}
	if excluding {
		return nameThreads(ownComm())
	}
	return nil
}

// setFilters puts filters on events, all of which are then to be true.
func setFilters(events []event.Event, filters []string, excludePerf bool) error {
	if len(filters) == 0 {
		return nil
	}
	for i := range events {
		switch ev := &events[i]; {
		case ev.Type == format.TypeTracepoint && len(filters) == 1:
			ev.Filter = filters[0]
		case ev.Type == format.TypeTracepoint:
			ev.Filter = "(" + strings.Join(filters, ") && (") + ")"
		case excludePerf:
			return wrongUse("--exclude-perf option should follow a -e tracepoint or probe, and %s is none", ev.Name)
		default:
			return wrongUse("--filter option should follow a -e tracepoint or probe: %s has no fields to filter by", ev.Name)
		}
	}
	return nil
}

func setCgroup(events []event.Event, c cgroupArg) error {
	switch {
	case c.place >= len(events):
		return wrongUse("must define events before cgroups: -G names %d, and there are %d events ahead", c.place+1, len(events))
	case c.all:
		for i := range events {
			events[i].Cgroup = c.name
		}
	default:
		events[c.place].Cgroup = c.name
	}
	return nil
}

// ownComm is how this process's threads are called while they are to be told from
// all others: a filter sees a thread's number and name, but not its process's.
func ownComm() string { return fmt.Sprintf("gperf:%d", os.Getpid()) }

// nameThreads names the threads of this process, and so those that they will start.
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

// targetUser takes -u.
func (f *recordFlags) targetUser() error {
	id := f.user
	if _, err := strconv.ParseUint(id, 10, 31); err != nil {
		u, err := user.Lookup(f.user)
		if err != nil {
			return wrongUse("-u %s: there is no such user", f.user)
		}
		id = u.Uid
	}
	uid, err := strconv.Atoi(id)
	if err != nil {
		return wrongUse("-u %s: its number is %s", f.user, id)
	}
	f.opts.Target.UIDs = []int{uid}
	f.opts.Notice(fmt.Errorf("-u %s: recording the processes that run now, and what they start", f.user))
	return nil
}

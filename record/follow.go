package record

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"gperf/bpf"
	"gperf/internal/suggest"
	"gperf/record/event"
	"gperf/record/probe"
	"gperf/record/probe/kernel"
	"gperf/record/programs"
)

// Follow says at which functions of the kernel packets are followed.
type Follow struct {
	Functions []string // names or globs; none: all with a parameter struct sk_buff *
}

// ErrNoKprobes means that the kernel has no kprobes.
var ErrNoKprobes = errors.New("this kernel has no kprobes (CONFIG_KPROBES)")

// FollowError means that packets cannot be followed. As a notice, they are followed at fewer places.
type FollowError struct {
	Instead string // the other places; "": none
	Err     error
}

func (e *FollowError) Error() string {
	if e.Instead == "" {
		return fmt.Sprintf("cannot follow packets: %v", e.Err)
	}
	return fmt.Sprintf("following packets at %s: %v", e.Instead, e.Err)
}
func (e *FollowError) Unwrap() error { return e.Err }

// NoHopError means that no function with a struct sk_buff * parameter has this name or matches this glob.
type NoHopError struct {
	Glob string
	Near []string // functions with similar names
}

func (e *NoHopError) Error() string {
	s := fmt.Sprintf("cannot follow packets at %s: the kernel has no such function with a struct sk_buff * parameter",
		e.Glob)
	return s + suggest.DidYouMean(e.Near)
}

// WrongUse reports that the command line caused the error.
func (e *NoHopError) WrongUse() bool { return true }

// addFollowed adds the events of followed packets, and finds the functions that these pass.
func addFollowed(o *plan) error {
	switch {
	case o.Follow == nil:
		return nil
	case o.Count:
		return &CountError{event.Hop().Name, "followed packets are not counted"}
	}
	points, err := event.FollowedPoints(&event.Resolver{Resolver: &probe.Resolver{Tracefs: o.Tracefs}})
	if err != nil {
		return &FollowError{"", err}
	}
	o.following = &programs.Following{Refused: func(functions int, errs []error) {
		o.notice(&FollowError{fmt.Sprintf("%d of %d functions", functions-len(errs), functions), errs[0]})
	}}
	if err := findHops(o, o.following); err != nil {
		return err
	}
	o.Events = slices.Clone(o.Events)
	if len(o.following.Hops) > 0 {
		o.Events = append(o.Events, event.Hop())
	}
	for _, point := range points {
		if !slices.ContainsFunc(o.Events, func(ev event.Event) bool {
			return ev.Name == point.Name && ev.Raw != nil && ev.Raw.Packet != nil
		}) {
			o.Events = append(o.Events, point)
		}
	}
	return nil
}

// findHops finds the functions at which packets are followed.
func findHops(o *plan, f *programs.Following) error {
	switch err := (&probe.Resolver{Tracefs: o.Tracefs}).HaveKprobes(); {
	case errors.Is(err, fs.ErrNotExist) && len(o.Follow.Functions) == 0:
		o.notice(&FollowError{"tracepoints only", ErrNoKprobes})
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &FollowError{"", ErrNoKprobes}
	case err != nil:
		return err
	}
	all, err := (&kernel.Symbols{Tracefs: o.Tracefs}).PacketFunctions()
	if err != nil {
		return &FollowError{"", err}
	}
	selected, err := o.Follow.selects(all)
	if err != nil {
		return err
	}
	why := bpf.HaveKprobeMulti()
	if f.AtOnce = why == nil; f.AtOnce {
		if all, err = traceable(o, all); err != nil {
			return err
		}
	}
	for i := range all {
		p := &all[i]
		hop, required := programs.Hop(p)
		if len(o.Follow.Functions) == 0 && !programs.IsMain(p.Name) {
			hop.Kind |= bpf.HopKnownOnly // all packets pass a main function soon, and the filter takes time
		}
		if !selected[p.Name] || !f.AtOnce && len(o.Follow.Functions) == 0 && !programs.IsMain(p.Name) {
			hop.Kind |= bpf.HopSilent
		}
		if required || hop.Kind&bpf.HopSilent == 0 {
			f.Hops = append(f.Hops, hop)
		}
	}
	if !f.AtOnce && len(o.Follow.Functions) == 0 {
		o.notice(&FollowError{fmt.Sprintf("%d main functions instead of %d", len(f.Hops), len(all)), why})
	}
	return nil
}

// selects returns the names of the functions that packets are to be followed at.
func (f *Follow) selects(all []kernel.PacketFunction) (map[string]bool, error) {
	globs := f.Functions
	if len(globs) == 0 {
		globs = []string{"*"}
	}
	selected := map[string]bool{}
	for _, glob := range globs {
		found := false
		for i := range all {
			if ok, _ := path.Match(glob, all[i].Name); ok {
				selected[all[i].Name], found = true, true
			}
		}
		if !found {
			return nil, &NoHopError{glob, near(glob, all)}
		}
	}
	return selected, nil
}

// near returns the functions with names similar to one.
func near(name string, all []kernel.PacketFunction) []string {
	var names []string
	for i := range all {
		names = append(names, all[i].Name)
	}
	return suggest.Names(name, slices.Compact(names))
}

// traceable returns the functions that a BPF program can run at.
func traceable(o *plan, all []kernel.PacketFunction) (l []kernel.PacketFunction, err error) {
	var list *kernel.Traceable // nil: not read yet, because the kernel takes long to list them
	for i := range all {
		p := &all[i]
		if p.Addr == 0 {
			return nil, &FollowError{"", probe.ErrHidden}
		}
		if list == nil && !p.Traced {
			if list, err = kernel.ReadTraceable(o.Tracefs); err != nil {
				return nil, fmt.Errorf("functions that ftrace can trace: %w", err)
			}
		}
		if p.Traced || list.Has(p.Site) {
			l = append(l, *p)
		}
	}
	return l, nil
}

package probe

import (
	"fmt"
	"os"
	"strings"

	"gperf/record/tracefs"
)

// Set is the probes that the kernel has for one recording. They are in a group of
// their own, whose name tells this process from all others (Leftovers).
type Set struct {
	tracefs *tracefs.FS
	group   string
	used    map[string]bool // events of the group
	l       []Installed
}

// Files of tracefs that take definitions.
const (
	kprobeEvents = "kprobe_events"
	uprobeEvents = "uprobe_events"
)

func eventsFile(k Kind) string {
	if k.User() {
		return uprobeEvents
	}
	return kprobeEvents
}

// NewSet returns an empty set.
func NewSet(t *tracefs.FS) *Set {
	return &Set{tracefs: t, group: groupOfProcess(), used: map[string]bool{}}
}

// Tracepoint is what a probe becomes: "group/event" in tracefs, and its number.
type Tracepoint struct {
	Dir string
	ID  uint64
}

// Add has the kernel watch probes, of one file of tracefs, and returns the
// tracepoints that they have become, in their order, and for those that the kernel
// refuses, an *InstallError in the same place of errs. The error that stands alone
// is about all of them. progress is told now and then how many have been tried, and
// its error ends it; nil: nobody is. Whatever has become of it, Remove removes it all.
func (s *Set) Add(probes []*Probe, progress func(n int) error) (l []Tracepoint, errs []error, err error) {
	l, errs = make([]Tracepoint, len(probes)), make([]error, len(probes))
	lines := make([]string, len(probes))
	names := make([]string, len(probes))
	for i, p := range probes {
		names[i] = s.name(p.Event)
		lines[i] = p.Definition(s.group, names[i])
	}
	w := writer{tracefs: s.tracefs, file: eventsFile(probes[0].Kind), lines: lines, progress: progress}
	w.taken = func(i int) bool { return s.tracefs.Has(s.group, names[i]) }
	w.done = func(i int, err error) {
		if err != nil {
			errs[i] = installError(s.tracefs, probes[i], lines[i], err)
			return
		}
		s.l = append(s.l, Installed{Kind: probes[i].Kind, Group: s.group, Event: names[i]})
	}
	if err := w.write(); err != nil {
		return nil, nil, err
	}
	for i, p := range probes {
		if errs[i] != nil {
			continue
		}
		l[i].Dir = s.group + "/" + names[i]
		if l[i].ID, err = s.tracefs.ID(s.group, names[i]); err != nil {
			errs[i] = &InstallError{Probe: p, Line: lines[i], Err: errno(err)}
		}
	}
	return l, errs, nil
}

// maxEventName is how long an event's name may be, MAX_EVENT_NAME_LEN of the
// kernel's trace_probe.h without its 0.
const maxEventName = 63

// name is a name in the group that no other probe has.
func (s *Set) name(event string) string {
	return numbered(event, func(name string) bool {
		taken := s.used[name]
		s.used[name] = true
		return taken
	})
}

// numbered is perf's way to a name of its own: event, event_1, event_2.
func numbered(event string, taken func(string) bool) string {
	for n := 0; ; n++ {
		end := ""
		if n > 0 {
			end = fmt.Sprintf("_%d", n)
		}
		if name := event[:min(len(event), maxEventName-len(end))] + end; !taken(name) {
			return name
		}
	}
}

// Remove has the kernel forget the probes. No counter of theirs may be open.
// progress, unless nil, is told how many are gone.
func (s *Set) Remove(progress func(n, of int)) error {
	_, err := Delete(s.tracefs, s.l, progress)
	s.l = nil
	return err
}

// writer writes lines to a file of tracefs that takes definitions, many with one
// write: a thousand writes take a thousand times the kernel's time for the file.
type writer struct {
	tracefs  *tracefs.FS
	file     string
	lines    []string
	taken    func(i int) bool       // whether the kernel has done what line i says
	done     func(i int, err error) // told of each line
	progress func(n int) error      // nil, or told how many lines are through; its error ends it
}

// batch is how many lines are written at once: the kernel cannot be interrupted
// meanwhile, and where it refuses one, it does not tell which.
const batch = 64

func (w *writer) write() error {
	path, err := w.tracefs.Path(w.file)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return &AccessError{w.file, errno(err)}
	}
	defer f.Close()
	for i := 0; i < len(w.lines); {
		end := min(i+batch, len(w.lines))
		_, err := f.WriteString(strings.Join(w.lines[i:end], "\n") + "\n")
		// It takes them in their order, up to the first that it refuses: that begins
		// the next write, and is then known.
		start := i
		for ; i < end && (err == nil || w.taken(i)); i++ {
			w.done(i, nil)
		}
		if err != nil && i == start {
			w.done(i, errno(err))
			i++
		}
		if w.progress == nil {
			continue
		}
		if err := w.progress(i); err != nil {
			return err
		}
	}
	return nil
}

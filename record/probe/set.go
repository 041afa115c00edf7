package probe

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

	"gperf/record/probe/program"
	"gperf/record/tracefs"
)

// Set is the set of a recording's probes in the kernel. They form a separate group, whose name identifies this
// process (Leftovers).
type Set struct {
	tracefs *tracefs.FS
	group   string
	used    map[string]bool // events of the group
	l       []Installed
}

// Files of tracefs for definitions.
const (
	kprobeEvents = "kprobe_events"
	uprobeEvents = "uprobe_events"
)

// kprobeProfile is the file of tracefs with the hits of kprobes.
const kprobeProfile = "kprobe_profile"

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

// Tracepoint is a probe's tracepoint: "group/event" in tracefs, and the number.
type Tracepoint struct {
	Dir string
	ID  uint64
}

// Add defines probes, of one file of tracefs, in the kernel, and returns the probes' tracepoints in the same
// order. For each probe that the kernel rejects, errs contains an *InstallError at the same index. err concerns
// all of them. progress, if not nil, receives the number of tried probes; an error of progress ends Add. In any
// case, Remove removes the defined probes.
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
			errs[i] = &InstallError{Probe: p, Line: lines[i], Err: program.Errno(err)}
		}
	}
	return l, errs, nil
}

// maxEventName is the maximum length of an event's name, MAX_EVENT_NAME_LEN of the kernel's trace_probe.h without
// the NUL.
const maxEventName = 63

// name returns a name that no other probe of the group uses.
func (s *Set) name(event string) string {
	return numbered(event, func(name string) bool {
		taken := s.used[name]
		s.used[name] = true
		return taken
	})
}

// numbered makes names unique as perf does: event, event_1, event_2.
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

// Missed returns how many hits the kernel has missed, by "group/event" of the set's kprobes and kretprobes. Their
// handlers did not run, in whichever process: another probe's handler was running on the CPU, or a kretprobe's
// function had too many active calls.
func (s *Set) Missed() (map[string]uint64, error) {
	if !slices.ContainsFunc(s.l, func(p Installed) bool { return !p.Kind.User() }) {
		return nil, nil
	}
	var texts [2]string
	for i, file := range []string{kprobeEvents, kprobeProfile} {
		text, err := s.tracefs.Read(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		texts[i] = string(text)
	}
	missed := map[string]uint64{}
	for place, n := range missedHits(texts[0], texts[1]) {
		if group, _, _ := strings.Cut(place, "/"); group == s.group && n > 0 {
			missed[place] += n
		}
	}
	return missed, nil
}

// missedHits yields the probes of kprobe_events, as "group/event", and how many of their hits the kernel has missed.
// The lines of kprobe_profile, "EVENT HITS MISSED", have no groups, but the same order. Probes that other programs set
// or removed between the two readings end it.
func missedHits(events, profile string) iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		counts := strings.Split(strings.TrimSpace(profile), "\n")
		for i, line := range strings.Split(strings.TrimSpace(events), "\n") {
			definition, _, _ := strings.Cut(line, " ")
			_, place, _ := strings.Cut(definition, ":")
			if i >= len(counts) {
				return
			}
			words := strings.Fields(counts[i])
			if len(words) != 3 || words[0] != place[strings.IndexByte(place, '/')+1:] {
				return
			}
			n, err := strconv.ParseUint(words[2], 10, 64)
			if err != nil || !yield(place, n) {
				return
			}
		}
	}
}

// Remove removes the probes from the kernel. All counters of the probes must be closed. progress, if not nil,
// receives the number of removed probes.
func (s *Set) Remove(progress func(n, of int)) error {
	_, err := Delete(s.tracefs, s.l, progress)
	s.l = nil
	return err
}

// writer writes lines to a file of tracefs for definitions, many with one write: a thousand
// writes take a thousand times the kernel's time per file.
type writer struct {
	tracefs  *tracefs.FS
	file     string
	lines    []string
	taken    func(i int) bool       // reports whether the kernel executed line i
	done     func(i int, err error) // called for each line
	progress func(n int) error      // nil, or called with the number of processed lines; an error ends the writing
}

// batch is the number of lines per write: the kernel cannot be interrupted during a write,
// and does not report which line it rejected.
const batch = 64

func (w *writer) write() error {
	path, err := w.tracefs.Path(w.file)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return &AccessError{w.file, program.Errno(err)}
	}
	defer f.Close()
	for i := 0; i < len(w.lines); {
		end := min(i+batch, len(w.lines))
		_, err := f.WriteString(strings.Join(w.lines[i:end], "\n") + "\n")
		// The kernel executes the lines in order, up to the first that it rejects: that line
		// begins the next write, and is then known.
		start := i
		for ; i < end && (err == nil || w.taken(i)); i++ {
			w.done(i, nil)
		}
		if err != nil && i == start {
			w.done(i, program.Errno(err))
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
